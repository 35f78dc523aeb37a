package rootfs

import (
	"context"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/naupegos/naupegos/internal/tool"
)

// MachinePackages are the packages of every machine. Software that depends on the Kubernetes version comes from the bundle instead.
var MachinePackages = []string{
	"systemd", "systemd-sysv", "dbus", "cloud-init", "openssh-server", "iproute2", "iptables", "nftables", "conntrack",
	"ethtool", "socat", "kmod", "runc", "ca-certificates", "procps", "iputils-ping", "mount", "util-linux", "sudo", "netbase",
	"ebtables", "haproxy", "keepalived", "curl", "less",
}

// Excluded paths have no use on a machine and would make up a third of its files.
var Excluded = []string{"/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*", "/usr/share/doc/*", "/usr/share/lintian/*"}

// Debian describes a root file system.
type Debian struct {
	Suite    string
	Packages []string
	Hooks    []string // for mmdebstrap: "essential-hook=…", "customize-hook=…"
	Env      []string // added to tool.Env
}

// Tar writes the root file system to w as a tar; tmp is a directory for temporary files.
func (d Debian) Tar(ctx context.Context, tmp string, w io.Writer) error {
	return d.make(ctx, tmp, "-", w)
}

// Directory makes the root file system in dir, which must be empty or absent.
func (d Debian) Directory(ctx context.Context, tmp, dir string) error {
	return d.make(ctx, tmp, dir, nil)
}

func (d Debian) make(ctx context.Context, tmp, target string, w io.Writer) error {
	sources, err := debianSources("/etc/apt", d.Suite)
	if err != nil {
		return err
	}
	apt, err := newAptFiles(ctx, tmp, sources)
	if err != nil {
		return err
	}
	format := "tar"
	if target != "-" {
		format = "directory"
	}
	args := []string{"--variant=minbase", "--mode=root", "--format=" + format, "--include=" + strings.Join(d.Packages, ","), "--aptopt=" + apt.settings}
	for _, e := range Excluded {
		args = append(args, "--dpkgopt=path-exclude="+e)
	}
	args = append(args, "--dpkgopt=path-include=/usr/share/doc/*/copyright")
	for _, h := range append(apt.hooks(), d.Hooks...) {
		args = append(args, "--"+h)
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", append(append(args, d.Suite, target), sources...)...)
	cmd.Env = append(append(tool.Env(), "TMPDIR="+tmp, "HOME="+tmp), d.Env...)
	cmd.Stdout = w
	// neither its mounts nor its processes must outlive it, however it ends
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return tool.Do(ctx, cmd)
}
