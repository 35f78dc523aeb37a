package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
)

// Apply makes the host match c and reports what it changed; with dry it only reports what it would change. Where blobs
// are missing it names them and changes nothing. It may be killed at any point: the next Apply finishes.
func (a *Agent) Apply(ctx context.Context, c machine.Config, dry bool) (machine.Report, error) {
	if err := c.Validate(); err != nil {
		return machine.Report{}, err
	}
	if !dry {
		unlock, err := a.lock(ctx)
		if err != nil {
			return machine.Report{}, err
		}
		defer unlock()
	}
	st, err := a.loadState()
	if err != nil {
		return machine.Report{}, err
	}
	d, err := a.compare(ctx, c, st)
	if err != nil {
		return machine.Report{}, err
	}
	report := machine.Report{Changes: d.changes(), Missing: d.missing, Life: a.life(d.states)}
	switch {
	case len(d.missing) > 0 && !dry:
		return machine.Report{Missing: d.missing}, nil
	case dry:
		describe(a, report.Changes, d, st)
		if len(report.Changes)+len(report.Missing) == 0 {
			report.Digest = c.Digest()
		}
		if len(report.Missing) > 0 {
			report.DiskFree = a.root.DiskFree("/var/lib")
		}
		return report, nil
	}
	return a.carryOut(ctx, c, st, d)
}

// carryOut mends the differences. The state goes to the disk before the first change and after the last.
func (a *Agent) carryOut(ctx context.Context, c machine.Config, st *state, d *diff) (machine.Report, error) {
	report := machine.Report{Digest: c.Digest(), Changes: d.changes()}
	if err := a.loadModules(ctx, &report, d); err != nil {
		return machine.Report{}, err
	}
	if d.empty() && st.Digest == report.Digest {
		return report, nil
	}
	next := a.nextState(c, st, d)
	if err := a.keepOriginals(st, next); err != nil {
		return machine.Report{}, err
	}
	if !d.empty() {
		begun := intent(st, next, d)
		if err := a.saveState(begun); err != nil {
			return machine.Report{}, err
		}
		if err := a.installPackages(ctx, d.packages, func(brought []string) error { // told before they come: a crash must not make them the host's own
			next.Packages = slices.Compact(slices.Sorted(slices.Values(append(next.Packages, brought...))))
			begun.Packages = next.Packages
			return a.saveState(begun)
		}); err != nil {
			return machine.Report{}, err
		}
		missing, err := a.change(ctx, c, st, d, &report)
		if err != nil {
			return machine.Report{}, err
		}
		if len(missing) > 0 {
			return machine.Report{Changes: report.Changes, Missing: missing}, nil
		}
		a.dropBlobs(st, next)
	}
	next.Digest, next.Applied = report.Digest, time.Now().UTC()
	return report, a.saveState(next)
}

// change does the work, in the order in which one thing rests on another.
func (a *Agent) change(ctx context.Context, c machine.Config, st *state, d *diff, report *machine.Report) ([]string, error) {
	steps := []func() error{
		func() error { return a.retireUnits(ctx, st, d.staleUnits) },
		func() error { return a.removePaths(st, d.stalePaths) },
		func() error { return a.makeUsers(ctx, d) },
		func() error { return a.makeDirectories(d.directories) },
		func() error { return a.placeFiles(d.atOnce(c.Units)) },
		func() error { return a.placeLinks(d.binaries) },
		func() error { return a.setSysctls(d.sysctls) },
		func() error { return a.enable(ctx, d.enables) },
		func() error { return a.daemonReload(ctx, d) },
	}
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return nil, interrupted(err)
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	return a.startUnits(ctx, c, d, report)
}

// startUnits brings units up to containerd, then images, then what running units start, then the other units, which may need those. Where
// all images seem to be there (a prepared store), everything starts at once and containerd is asked afterwards.
func (a *Agent) startUnits(ctx context.Context, c machine.Config, d *diff, report *machine.Report) ([]string, error) {
	first, rest := d.units, []unitOp(nil)
	if len(d.images) > 0 || d.startsAgain(c.Units) {
		first, rest = splitAtContainerd(c.Units, d.units)
	}
	if err := a.runUnitOps(ctx, first); err != nil {
		return nil, err
	}
	if len(d.images) > 0 || !d.imagesKnown && len(c.Images) > 0 {
		changes, missing, err := a.importImages(ctx, c)
		report.Changes = append(slices.DeleteFunc(report.Changes, func(c machine.Change) bool { return c.Kind == "image" }), changes...)
		if err != nil || len(missing) > 0 {
			return missing, err
		}
	}
	return nil, a.startAgain(ctx, c.Units, d, rest)
}

// splitAtContainerd cuts ops behind containerd's place in the order of units.
func splitAtContainerd(units []machine.Unit, ops []unitOp) (first, rest []unitOp) {
	at := slices.IndexFunc(units, func(u machine.Unit) bool { return u.Name == containerdUnit })
	for _, o := range ops {
		if slices.IndexFunc(units, func(u machine.Unit) bool { return u.Name == o.name }) <= at {
			first = append(first, o)
		} else {
			rest = append(rest, o)
		}
	}
	return first, rest
}

func (a *Agent) daemonReload(ctx context.Context, d *diff) error {
	if !d.reload {
		return nil
	}
	_, err := a.systemctl(ctx, "daemon-reload")
	return unitFailure(ctx, err, "have systemd read its units again")
}

// nextState is what the host will be when all is done.
func (a *Agent) nextState(c machine.Config, st *state, d *diff) *state {
	next := &state{Machine: c.Machine, Paths: map[string]stPath{}, Units: map[string]stUnit{}, Sysctls: maps.Clone(st.Sysctls), Packages: slices.Clone(st.Packages), Adopted: st.Adopted}
	for p, s := range d.managed {
		if old, ok := st.Paths[p]; ok { // how it was before us is known only to the first run
			old.Kind, old.Secret = s.Kind, s.Secret
			s = old
		} else if st.Adopted != "" && s.Kind != "directory" && belongsToNode(p) {
			s.Found = false
		}
		next.Paths[p] = s
	}
	for _, u := range c.Units {
		s, ok := st.Units[u.Name]
		if !ok {
			found := d.states[u.Name]
			s = stUnit{WasEnabled: found.enabled(), WasActive: found.running()}
		}
		s.Own = u.Content != ""
		next.Units[u.Name] = s
	}
	for _, s := range d.sysctls {
		if _, ok := next.Sysctls[s.key]; !ok {
			next.Sysctls[s.key] = s.old
		}
	}
	for _, b := range c.Binaries {
		next.Blobs = append(next.Blobs, b.Digest)
	}
	for _, img := range c.Images {
		next.Blobs = append(next.Blobs, img.Digest)
		next.Images = append(next.Images, img.ID)
	}
	return next
}

// intent is the state while the work is under way: everything of before and after is ours, and changed paths are noted.
func intent(st, next *state, d *diff) *state {
	s := *next
	s.Paths, s.Units = maps.Clone(st.Paths), maps.Clone(st.Units)
	maps.Copy(s.Paths, next.Paths)
	maps.Copy(s.Units, next.Units)
	for p, was := range st.Paths {
		if now := s.Paths[p]; was.Secret { // until it is written over
			now.Secret = true
			s.Paths[p] = now
		}
	}
	s.Images, s.Blobs = st.Images, append(slices.Clone(st.Blobs), next.Blobs...)
	s.Pending = slices.Sorted(maps.Keys(d.changed))
	return &s
}
