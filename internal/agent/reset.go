package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// ResetOptions says what outlives a reset.
type ResetOptions struct {
	KeepBlobs bool     // binaries and image archives: the next apply needs no transfer
	KeepEtcd  bool     // /var/lib/etcd
	Keep      []string // managed paths that stay as they are: the operator who resets the host logs in by them
}

// Reset undoes all that applies, and what ran by their grace, did to the host: containers, mounts, networks, files, kernel
// settings, packages. Units and files that were there before are put back as they were. It may be repeated, and may be killed.
func (a *Agent) Reset(ctx context.Context, o ResetOptions) ([]machine.Change, error) {
	unlock, err := a.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	st, err := a.loadState()
	if err != nil {
		return nil, err
	}
	for _, p := range o.Keep {
		delete(st.Paths, p)
	}
	r := &reset{Agent: a, st: st, o: o, cgroups: "/sys/fs/cgroup"}
	kept, err := r.savedHooks()
	if err != nil {
		return nil, err
	}
	at := func(moment string) func(context.Context) error {
		return func(ctx context.Context) error { return hooks{a, st.Machine}.run(ctx, kept, moment) }
	}
	steps := []func(context.Context) error{
		at(machine.BeforeReset), r.stopUnits, r.killPods, r.dropContainers, r.unmount, r.removeNetworks, r.removeData, r.removeManaged, r.removePackages,
		at(machine.AfterReset), r.forget,
	}
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return r.changes, interrupted(err)
		}
		if err := step(ctx); err != nil {
			return r.changes, err
		}
	}
	return r.changes, nil
}

// reset is one reset under way.
type reset struct {
	*Agent
	st      *state
	o       ResetOptions
	cgroups string
	changes []machine.Change
}

func (r *reset) did(kind, name, action string) {
	r.changes = append(r.changes, machine.Change{Kind: kind, Name: name, Action: action})
}

func (r *reset) unitNames() []string {
	var names []string
	for n := range r.st.Units {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// stopUnits stops all units except containerd, which must still release its containers.
func (r *reset) stopUnits(ctx context.Context) error {
	names := slices.DeleteFunc(r.unitNames(), func(n string) bool { return n == containerdUnit })
	if err := r.retireUnits(ctx, r.st, names); err != nil {
		return err
	}
	for _, n := range names {
		r.did("unit", n, "stop")
	}
	return nil
}

// dataDirs is what Kubernetes and its parts leave on a host, beside managed files.
func (r *reset) dataDirs() []string {
	dirs := []string{
		"/var/lib/kubelet", "/var/lib/cni", "/run/flannel", "/var/log/pods", "/var/log/containers",
		"/etc/cni/net.d", "/etc/kubernetes", "/var/log/kubernetes", "/run/kubernetes",
	}
	if !r.o.KeepEtcd {
		dirs = append(dirs, "/var/lib/etcd")
	}
	if r.st.Units[containerdUnit].Own { // else it was there before us, with content of others
		dirs = append(dirs, machine.ContainerdRoot, "/run/containerd")
	}
	return dirs
}

// removeData empties data directories. A directory that is itself a mount point stays, empty.
func (r *reset) removeData(ctx context.Context) error {
	if _, ok := r.st.Units[containerdUnit]; ok {
		if err := r.retireUnits(ctx, r.st, []string{containerdUnit}); err != nil {
			return err
		}
		r.did("unit", containerdUnit, "stop")
	}
	if len(r.st.Units) == 0 && len(r.st.Paths) == 0 {
		return nil // nothing of ours here: another owner's files are in those directories
	}
	for _, dir := range r.dataDirs() {
		entries, err := os.ReadDir(r.path(dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fileError(err, "read the directory", dir)
		}
		for _, e := range entries {
			if err := os.RemoveAll(r.path(path.Join(dir, e.Name()))); err != nil {
				return fileError(err, "remove", path.Join(dir, e.Name()))
			}
		}
		// EBUSY for a mount point; a directory that the configuration found stays its owner's affair.
		if s, managed := r.st.Paths[dir]; !managed || !s.Found {
			_ = os.Remove(r.path(dir))
		}
		r.did("directory", dir, "remove")
	}
	if r.st.Units[containerdUnit].Own {
		for _, dir := range []string{"/opt/containerd/bin", "/opt/containerd/lib", "/opt/containerd"} {
			_ = os.Remove(r.path(dir)) // containerd creates them; files that a user has added keep them
		}
	}
	_ = os.Remove(r.path("/etc/cni")) // containerd makes it around net.d; others' configurations keep it from going
	return nil
}

// removeManaged removes managed paths and puts originals back, then has systemd forget our units.
func (r *reset) removeManaged(ctx context.Context) error {
	var paths []string
	for p := range r.st.Paths {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, func(x, y string) int { return strings.Compare(y, x) })
	if err := r.removePaths(r.st, paths); err != nil {
		return err
	}
	changed := map[string]bool{}
	for _, p := range paths {
		changed[p] = true
		r.did("file", p, "remove")
	}
	if err := takeNotice(ctx, r.Agent, changed); err != nil {
		return err
	}
	for key, value := range r.st.Sysctls {
		// A setting may have gone with its network or module; the rest is as it was after the next boot anyway.
		if r.setSysctl(key, value) == nil {
			r.did("sysctl", key, "update")
		}
	}
	names := r.unitNames()
	if len(names) == 0 {
		return nil
	}
	if _, err := r.systemctl(ctx, "daemon-reload"); err != nil {
		return unitFailure(ctx, err, "have systemd read its units again")
	}
	// A unit that is gone for good can't be reset: then there is nothing to clear.
	_, _ = r.systemctl(ctx, append([]string{"reset-failed", "--"}, names...)...)
	return r.restart(ctx, names)
}

// restart lets units that ran before us run with their own files again.
func (r *reset) restart(ctx context.Context, names []string) error {
	names = slices.DeleteFunc(names, func(n string) bool { u := r.st.Units[n]; return u.Own || !u.WasActive })
	if len(names) == 0 {
		return nil
	}
	_, err := r.systemctl(ctx, append([]string{"restart", "--"}, names...)...)
	return unitFailure(ctx, err, "restart "+strings.Join(names, " "))
}

// forget removes the agent's own state, last.
func (r *reset) forget(context.Context) error {
	own := []string{path.Dir(machine.StateKey)}
	if !r.o.KeepBlobs {
		own = []string{machine.StateDir}
	}
	for _, p := range own {
		if err := os.RemoveAll(r.path(p)); err != nil {
			return fileError(err, "remove", p)
		}
	}
	return nil
}

// errStillThere says that processes did not go.
func errStillThere(left []string) error {
	return fail.New(fail.NotReady, "%d processes of pods are still there after SIGKILL: %s", len(left), strings.Join(left, " ")).
		Do("they hang in the kernel (a dead network file system?): unmount that, or reboot the machine")
}
