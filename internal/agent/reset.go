package agent

import (
	"context"
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
	Keep      []string // managed paths that the reset keeps because the operator logs in by them
}

// Reset undoes everything that Apply, and the programs that it started, did to the host: containers, mounts, networks, files, kernel settings,
// packages. It restores units and files that existed before. It may be repeated, and may be killed.
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

// reset is the state of one reset.
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

// removeData empties data directories.
func (r *reset) removeData(ctx context.Context) error {
	if r.isNode() {
		if err := r.retireUnits(ctx, r.st, []string{containerdUnit}); err != nil {
			return err
		}
		r.did("unit", containerdUnit, "stop")
	}
	for _, dir := range r.ownDirs() {
		if err := r.emptyDir(dir); err != nil {
			return err
		}
	}
	if r.st.Units[containerdUnit].Own {
		for _, dir := range []string{"/opt/containerd/bin", "/opt/containerd/lib", "/opt/containerd"} {
			_ = os.Remove(r.path(dir)) // containerd creates them; they stay if a user has added files
		}
	}
	if r.isNode() {
		_ = os.Remove(r.path("/etc/cni")) // containerd creates it around net.d; it stays if it has configurations of others
	}
	return nil
}

// removeManaged removes managed paths, puts originals back, and makes systemd forget our units.
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
		// A setting may have disappeared with its network or module. The next boot restores the others anyway.
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
	// A removed unit can't be reset: then there is no failure to clear.
	_, _ = r.systemctl(ctx, append([]string{"reset-failed", "--"}, names...)...)
	return r.restart(ctx, names)
}

// restart restarts units that ran before Naupegos with their own files, now and at boot, even if a unit file of ours hid theirs.
func (r *reset) restart(ctx context.Context, names []string) error {
	names = slices.DeleteFunc(names, func(n string) bool { return !r.st.Units[n].WasActive && !r.st.Units[n].WasEnabled })
	states, err := r.unitStates(ctx, names)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return states[n].load != "loaded" }) // removed, or masked as before
	var enable []enableOp
	for _, n := range names {
		if s := states[n]; r.st.Units[n].Own && r.st.Units[n].WasEnabled && !s.enabled() && r.isThere(s.fragment) {
			enable = append(enable, enableOp{unit: machine.Unit{Name: n}, on: true, from: s.fragment})
		}
	}
	if err := r.enable(ctx, enable); err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !r.st.Units[n].WasActive })
	if len(names) == 0 {
		return nil
	}
	_, err = r.systemctl(ctx, append([]string{"restart", "--"}, names...)...)
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

// errStillThere reports that processes did not end.
func errStillThere(left []string) error {
	return fail.New(fail.NotReady, "%d processes of pods are still there after SIGKILL: %s", len(left), strings.Join(left, " ")).
		Do("they hang in the kernel (a dead network file system?): unmount that, or reboot the machine")
}
