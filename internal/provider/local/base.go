package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// baseRecipe changes whenever the base image is made differently from the same packages.
const baseRecipe = "base 1"

// packages are what every machine has; all that carries a Kubernetes version comes from the bundle instead.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "cloud-init", "openssh-server", "iproute2", "iptables", "nftables", "conntrack",
	"ethtool", "socat", "kmod", "runc", "ca-certificates", "procps", "iputils-ping", "mount", "util-linux", "sudo", "netbase",
	"ebtables", "haproxy", "keepalived", "curl", "less",
}

// excluded paths are of no use on a machine and would be a third of its files.
var excluded = []string{"/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/doc/*", "/usr/share/lintian/*"}

func (p *Provider) baseKey() string {
	return digest(baseRecipe, p.opts.Suite, runtime.GOARCH, strings.Join(packages, " "), strings.Join(excluded, " "))[:16]
}

func (p *Provider) baseTar() string {
	return filepath.Join(p.opts.Cache, "local", "base-"+p.opts.Suite+"-"+p.baseKey()+".tar.zst")
}

// makeBase makes the base image's tar with mmdebstrap, unless the cache has it. It takes one to three minutes.
// Interrupted, it leaves a temporary directory that the next run removes, and no image.
func (p *Provider) makeBase(ctx context.Context, progress plan.Progress) error {
	target := p.baseTar()
	release, err := lockFile(ctx, filepath.Join(filepath.Dir(target), ".lock"))
	if err != nil {
		return err
	}
	defer release()
	if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := removeGlob(filepath.Join(filepath.Dir(target), ".tmp-*")); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(target), ".tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	progress.Status("making Debian %s root file system with mmdebstrap", p.opts.Suite)
	file := filepath.Join(tmp, "base.tar.zst")
	if err := p.debootstrap(ctx, tmp, file, progress); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "make the base image").At(target).
			Do("check that this host reaches its Debian mirror (apt-get update) and has 3 GiB free in %s", p.opts.Cache)
	}
	if err := os.Rename(file, target); err != nil {
		return err
	}
	return syncDir(filepath.Dir(target))
}

func (p *Provider) debootstrap(ctx context.Context, tmp, file string, progress plan.Progress) error {
	sources, err := debianSources("/etc/apt", p.opts.Suite)
	if err != nil {
		return err
	}
	conf := filepath.Join(tmp, "apt.conf")
	if err := writeAptConf(ctx, conf); err != nil {
		return err
	}
	args := []string{"--variant=minbase", "--mode=root", "--format=tar", "--include=" + strings.Join(packages, ","), "--aptopt=" + conf}
	for _, e := range excluded {
		args = append(args, "--dpkgopt=path-exclude="+e)
	}
	args = append(args, "--dpkgopt=path-include=/usr/share/doc/*/copyright", p.opts.Suite, "-")
	return compressed(file, progress, func(w io.Writer) error {
		cmd := exec.CommandContext(ctx, "mmdebstrap", append(args, sources...)...)
		cmd.Env = append(minimalEnv(), "TMPDIR="+tmp, "HOME="+tmp)
		cmd.Stdout = w
		// neither its mounts nor its processes must outlive it, however it ends
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Setpgid: true, Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		return runCommand(ctx, cmd)
	})
}

// writeAptConf hands the host's proxy settings, which may hold a password, to mmdebstrap in a file that only root reads.
func writeAptConf(ctx context.Context, path string) error {
	lines := []string{`Acquire::Retries "3";`, `APT::Install-Recommends "false";`}
	if _, err := exec.LookPath("apt-config"); err == nil {
		out, err := run(ctx, nil, "apt-config", "dump", "Acquire")
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			name, _, _ := strings.Cut(line, " ")
			if strings.HasSuffix(strings.ToLower(name), "::proxy") || name == "Acquire::Check-Valid-Until" || name == "Acquire::Check-Date" {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// compressed has write fill a zstd-compressed file, and syncs it.
func compressed(file string, progress plan.Progress, write func(io.Writer) error) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return err
	}
	if err := write(&meter{w: z, progress: progress}); err != nil {
		return errors.Join(err, z.Close())
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Sync()
}

// meter reports how much was written, every 32 MiB.
type meter struct {
	w        io.Writer
	progress plan.Progress
	n, told  int64
}

func (m *meter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.n += int64(n)
	if m.n-m.told >= 32<<20 {
		m.told = m.n
		m.progress.Status("packing root file system: %d MiB", m.n>>20)
	}
	return n, err
}

func removeGlob(pattern string) error {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.RemoveAll(f); err != nil {
			return fmt.Errorf("remove what an interrupted run left: %w", err)
		}
	}
	return nil
}
