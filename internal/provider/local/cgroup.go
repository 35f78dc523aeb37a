package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// hierarchy is one mounted cgroup hierarchy of the host.
type hierarchy struct {
	mount   string // "/sys/fs/cgroup/memory"
	unified bool   // cgroup v2
	systemd bool   // the named hierarchy of v1 that systemd keeps for itself
	cpuset  bool   // v1 with the cpuset controller, whose groups start without CPUs
}

// hierarchies lists the host's cgroup hierarchies: one on a v2 host, several on a v1 or hybrid host.
func hierarchies() ([]hierarchy, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, err
	}
	var out []hierarchy
	for _, m := range mounts {
		options := strings.Split(m.VFSOptions, ",")
		h := hierarchy{
			mount: m.Mountpoint, unified: m.FSType == "cgroup2",
			systemd: slices.Contains(options, "name=systemd"), cpuset: slices.Contains(options, "cpuset"),
		}
		known := slices.ContainsFunc(out, func(o hierarchy) bool { return o.mount == h.mount })
		if strings.HasPrefix(m.Mountpoint, "/sys/fs/cgroup") && !known {
			out = append(out, h)
		}
	}
	if len(out) == 0 {
		return nil, fail.New(fail.Refused, "no cgroup hierarchy is mounted under /sys/fs/cgroup").
			Do("mount one: mount -t cgroup2 none /sys/fs/cgroup")
	}
	return out, nil
}

// machineCgroups lists where a machine's processes can be, in every hierarchy: our own group, and the transient unit's on
// hosts with systemd. The directories need not exist.
func (n names) machineCgroups(name string) ([]string, error) {
	return n.inHierarchies(n.cgroup(name), filepath.Join(slice, n.unit(name)))
}

func (n names) inHierarchies(groups ...string) ([]string, error) {
	hs, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, h := range hs {
		for _, g := range groups {
			out = append(out, filepath.Join(h.mount, g))
		}
	}
	return out, nil
}

// cgroupPIDs lists the processes in dirs and all groups below them.
func cgroupPIDs(dirs []string) ([]int, error) {
	var pids []int
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() != "cgroup.procs" {
				return ignoreGone(err)
			}
			data, err := os.ReadFile(path)
			if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) {
				return nil // removed meanwhile; or a threaded group, whose processes its parent lists
			}
			for line := range strings.Lines(string(data)) {
				if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
			return ignoreGone(err)
		})
		if err != nil {
			return nil, err
		}
	}
	return pids, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// killCgroups kills every process in dirs and below, again and again until none is left, for as long as ctx allows.
func killCgroups(ctx context.Context, dirs []string) error {
	var left []int
	err := tool.Until(ctx, 20*time.Millisecond, func() (bool, error) {
		var err error
		left, err = cgroupPIDs(dirs)
		for _, pid := range left {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return false, fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		return len(left) == 0, err
	})
	if err != nil && len(left) > 0 && !errors.Is(err, context.Canceled) {
		return fail.Wrap(fail.NotReady, err, "processes %v do not die", left)
	}
	return err
}

// removeCgroups removes dirs and all groups below them. Groups of processes just killed can be busy for a moment.
func removeCgroups(ctx context.Context, dirs []string) error {
	for _, dir := range dirs {
		err := tool.Until(ctx, 20*time.Millisecond, func() (bool, error) {
			err := removeCgroup(dir)
			if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
				return false, nil
			}
			return true, err
		})
		if err != nil {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
	}
	return nil
}

func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ignoreGone(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return ignoreGone(unix.Rmdir(dir))
}
