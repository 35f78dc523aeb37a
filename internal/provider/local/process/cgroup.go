package process

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
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/tool"
)

// CgroupParent is the parent group of all clusters' groups.
const CgroupParent = "naupegos"

// Hierarchy is one mounted cgroup hierarchy of the host.
type Hierarchy struct {
	Mount   string // "/sys/fs/cgroup/memory"
	Unified bool   // cgroup v2
	Systemd bool   // the v1 hierarchy named systemd, which systemd reserves for itself
	cpuset  bool   // v1 with the cpuset controller, whose groups start without CPUs
}

// Hierarchies lists the host's cgroup hierarchies: one on a v2 host, several on a v1 or hybrid host.
func Hierarchies() ([]Hierarchy, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, err
	}
	var out []Hierarchy
	for _, m := range mounts {
		options := strings.Split(m.VFSOptions, ",")
		h := Hierarchy{
			Mount: m.Mountpoint, Unified: m.FSType == "cgroup2",
			Systemd: slices.Contains(options, "name=systemd"), cpuset: slices.Contains(options, "cpuset"),
		}
		known := slices.ContainsFunc(out, func(o Hierarchy) bool { return o.Mount == h.Mount })
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

// InHierarchies lists the directories of these groups in every hierarchy. They need not exist.
func InHierarchies(groups ...string) ([]string, error) {
	hs, err := Hierarchies()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, h := range hs {
		for _, g := range groups {
			out = append(out, filepath.Join(h.Mount, g))
		}
	}
	return out, nil
}

// PIDs lists the processes in dirs and all groups below them.
func PIDs(dirs []string) ([]int, error) {
	var pids []int
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() != "cgroup.procs" {
				return files.IgnoreGone(err)
			}
			data, err := os.ReadFile(path)
			if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) {
				return nil // removed in the meantime, or a threaded group, whose processes are listed in its parent
			}
			for line := range strings.Lines(string(data)) {
				if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
			return files.IgnoreGone(err)
		})
		if err != nil {
			return nil, err
		}
	}
	return pids, nil
}

// KillCgroups kills every process in dirs and below until none is left, for as long as ctx allows. It thaws processes that a container
// runtime has frozen and, being killed itself, may never thaw: in v1 cgroups, frozen processes do not die.
func KillCgroups(ctx context.Context, dirs []string) error {
	var left []int
	err := tool.Until(ctx, 20*time.Millisecond, func() (bool, error) {
		var err error
		left, err = PIDs(dirs)
		for _, pid := range left {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return false, fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		if len(left) > 0 && err == nil {
			err = thaw(dirs)
		}
		return len(left) == 0, err
	})
	if err != nil && len(left) > 0 && !errors.Is(err, context.Canceled) {
		return fail.Wrap(fail.NotReady, err, "processes %v do not die", left)
	}
	return err
}

// thaw thaws the v1 freezer cgroups in dirs and below.
func thaw(dirs []string) error {
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() != "freezer.state" {
				return files.IgnoreGone(err)
			}
			state, err := os.ReadFile(path)
			if err == nil && strings.TrimSpace(string(state)) != "THAWED" {
				err = os.WriteFile(path, []byte("THAWED"), 0)
			}
			if errors.Is(err, unix.ENODEV) {
				return nil // removed in the meantime
			}
			return files.IgnoreGone(err)
		})
		if err != nil {
			return fmt.Errorf("thaw %s: %w", dir, err)
		}
	}
	return nil
}

// RemoveCgroups removes dirs and all groups below them. Groups of processes just killed can be busy for a moment.
func RemoveCgroups(ctx context.Context, dirs []string) error {
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
		return files.IgnoreGone(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return files.IgnoreGone(unix.Rmdir(dir))
}

// Controllers lists the controllers that the hierarchies offer.
func Controllers(hs []Hierarchy) (map[string]bool, error) {
	out := map[string]bool{}
	for _, h := range hs {
		for _, c := range offered(h.Mount) {
			out[c] = true
		}
	}
	data, err := os.ReadFile("/proc/cgroups") // v1: name, hierarchy (0: none), …
	if err != nil {
		return out, files.IgnoreGone(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 4 && f[1] != "0" && f[3] == "1" {
			out[f[0]] = true
		}
	}
	return out, nil
}

// OfMachines lists the processes of all machines of all clusters on this host.
func OfMachines() ([]int, error) {
	groups, err := InHierarchies(CgroupParent, Slice)
	if err != nil {
		return nil, err
	}
	return PIDs(groups)
}

// RemoveEmptyGroups removes the parent cgroups and the slice of all clusters, if they are empty. Call it under the host's lock.
func RemoveEmptyGroups(ctx context.Context) error {
	parents, err := InHierarchies(CgroupParent)
	if err != nil {
		return err
	}
	for _, dir := range parents {
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
	}
	return removeEmptySlice(ctx)
}
