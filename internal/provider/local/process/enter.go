package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/provider/local/files"
	"golang.org/x/sys/unix"
)

// EnterCgroups moves this process into the machine's own group in every hierarchy. On a host with only cgroup v2 it also
// makes the group in which systemd-nspawn must be started (a group with processes can't pass controllers on to subgroups),
// and returns it open; otherwise it returns nil.
func EnterCgroups(group string) (machine *os.File, err error) {
	hs, err := Hierarchies()
	if err != nil {
		return nil, err
	}
	pure := len(hs) == 1 && hs[0].Unified
	for _, h := range hs {
		switch {
		case pure:
			machine, err = enterUnified(h, group)
		case HasSystemd() && (h.Unified || h.Systemd):
			// systemd has put us into the transient unit's group already
		default:
			err = enterGroup(h, group)
		}
		if err != nil {
			return nil, fmt.Errorf("enter cgroup %s in %s: %w", group, h.Mount, err)
		}
	}
	return machine, nil
}

func enterGroup(h Hierarchy, group string) error {
	dir := h.Mount
	for _, part := range strings.Split(group, "/") {
		parent := dir
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		if !h.cpuset {
			continue
		}
		for _, f := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(parent, dir, f); err != nil {
				return err
			}
		}
		if err := files.Set(dir, "cgroup.clone_children", "1"); err != nil {
			return err
		}
	}
	return files.Set(dir, "cgroup.procs", strconv.Itoa(os.Getpid()))
}

// inherit copies a cpuset file from the parent group if the child's is still empty.
func inherit(parent, dir, file string) error {
	have, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil || strings.TrimSpace(string(have)) != "" {
		return err
	}
	data, err := os.ReadFile(filepath.Join(parent, file))
	if err != nil {
		return err
	}
	return files.Set(dir, file, strings.TrimSpace(string(data)))
}

// enterUnified makes GROUP/supervisor for this process and GROUP/machine for systemd-nspawn, with all controllers.
func enterUnified(h Hierarchy, group string) (*os.File, error) {
	base := filepath.Join(h.Mount, group)
	if HasSystemd() {
		own, err := unifiedGroup(os.Getpid())
		if err != nil {
			return nil, err
		}
		base = filepath.Join(h.Mount, strings.TrimSuffix(own, "/supervisor"))
	}
	for _, leaf := range []string{"supervisor", "machine"} {
		if err := os.MkdirAll(filepath.Join(base, leaf), 0o755); err != nil {
			return nil, err
		}
	}
	if err := files.Set(filepath.Join(base, "supervisor"), "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
		return nil, err
	}
	steps := []string{base}
	if !HasSystemd() { // without systemd, we enable controllers from the root down
		steps = nil
		for dir := base; len(dir) >= len(h.Mount); dir = filepath.Dir(dir) {
			steps = append(steps, dir)
		}
		slices.Reverse(steps)
	}
	for _, dir := range steps {
		if err := enableControllers(dir); err != nil {
			return nil, err
		}
	}
	return os.Open(filepath.Join(base, "machine"))
}

func enableControllers(dir string) error {
	for _, c := range offered(dir) {
		if err := files.Set(dir, "cgroup.subtree_control", "+"+c); err != nil {
			return err
		}
	}
	return nil
}

// offered lists the v2 controllers that a group may use.
func offered(dir string) []string {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil // v1 has no such file
	}
	return strings.Fields(string(data))
}

// unifiedGroup returns the path of a process in the v2 hierarchy.
func unifiedGroup(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSpace(path), nil
		}
	}
	return "", fmt.Errorf("process %d is in no v2 cgroup", pid)
}
