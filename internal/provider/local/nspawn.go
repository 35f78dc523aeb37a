package local

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/tool"
)

// volumes maps directories in the machine's directory on the host to mount points in the machine. They must not be on its overlay:
// container images need overlay mounts of their own, and databases need a file system that syncs.
var volumes = map[string]string{
	"containerd": machine.ContainerdRoot,
	"kubelet":    "/var/lib/kubelet",
	"etcd":       "/var/lib/etcd",
}

// nspawn returns the command that boots the machine.
//
//   - keep-unit, register=no: machined is not needed, and the machine stays in the cgroup that the supervisor entered.
//   - capability=all, SYSTEMD_SECCOMP=0: container runtimes and kubelet can run inside.
//   - SYSTEMD_NSPAWN_API_VFS_WRITABLE=network: /proc/sys/net is the machine's own; "yes" would hang the boot.
//   - SYSTEMD_NSPAWN_USE_CGNS=1: the machine sees its own group as the root of each hierarchy.
func (s *supervision) nspawn() *exec.Cmd {
	args := []string{
		"--quiet", "--boot", "--register=no", "--keep-unit", "--capability=all", "--kill-signal=SIGRTMIN+3",
		"--directory=" + mountDir(s.dir), "--machine=" + s.n.nspawn(s.record.Name), "--hostname=" + s.record.Name,
		"--network-veth-extra=" + s.record.Link + ":host0",
		"--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=read-only",
	}
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		args = append(args, "--bind="+escapeColon(volumeDir(s.dir, name))+":"+volumes[name])
	}
	for _, dev := range []string{"/dev/kmsg", "/dev/net/tun"} {
		if _, err := os.Stat(dev); err == nil {
			args = append(args, "--bind="+dev)
		}
	}
	if _, err := os.Stat("/lib/modules"); err == nil {
		args = append(args, "--bind-ro=/lib/modules")
	}
	cmd := exec.Command("systemd-nspawn", args...)
	cmd.Dir = "/"
	cmd.Env = append(tool.Env(), "SYSTEMD_SECCOMP=0", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network", "SYSTEMD_NSPAWN_USE_CGNS=1")
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.WaitDelay = 5 * time.Second // in case a process keeps the console's pipe open after systemd-nspawn has exited
	// A session of its own keeps signals to the supervisor's process group away from the machine. It dies with the supervisor.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if s.cgroup != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(s.cgroup.Fd())
	}
	return cmd
}

// escapeColon escapes a path for --bind=.
func escapeColon(path string) string { return strings.ReplaceAll(path, ":", `\:`) }

// mountOverlay mounts the machine's disk: its own upper directory over the image's layers.
func mountOverlay(dir string, lower []string) error {
	for _, l := range append(slices.Clone(lower), dir) {
		if strings.ContainsAny(l, ":,\\") {
			return fmt.Errorf("path %q has a character that overlay mounts can't take", l)
		}
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(lower, ":"), upperDir(dir), workDir(dir))
	if len(options) >= os.Getpagesize() {
		return fmt.Errorf("overlay options are too long: %d bytes", len(options))
	}
	if err := unix.Mount("naupegos-"+filepath.Base(dir), mountDir(dir), "overlay", 0, options); err != nil {
		return fmt.Errorf("mount overlay on %s: %w", mountDir(dir), err)
	}
	return nil
}
