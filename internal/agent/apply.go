package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/agent/bootargs"
	"github.com/naupegos/naupegos/internal/machine"
)

// Apply makes the host match c and reports the changes; with dry it only reports them. If blobs are missing, it lists them and changes nothing. It
// may be killed at any point: the next Apply completes the work.
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
	if d.replaced, err = checkRemovals(ctx, a, d.packages); err != nil {
		return machine.Report{}, err
	}
	report := machine.Report{Changes: d.changes(), Missing: d.missing, Life: a.life(d.states)}
	report.Reboot, report.Warnings = bootargs.Awaits(a.root, bootargs.Next(a.root, st.Kernel, c.KernelArguments))
	switch {
	case len(d.missing) > 0 && !dry:
		return machine.Report{Missing: d.missing}, nil
	case dry:
		describe(a, report.Changes, d, st)
		for _, e := range d.ended {
			report.Ended = append(report.Ended, programOf(e.file))
		}
		if len(report.Changes)+len(report.Missing) == 0 {
			report.Digest = c.Digest()
			if report.Behind, err = former(a, d, c.Units); err != nil {
				return machine.Report{}, err
			}
		}
		if len(report.Missing) > 0 {
			report.DiskFree = a.root.DiskFree("/var/lib")
		}
		return report, nil
	}
	return a.carryOut(ctx, c, st, d)
}

// carryOut applies the differences. It saves the state to disk before the first change and after the last.
func (a *Agent) carryOut(ctx context.Context, c machine.Config, st *state, d *diff) (machine.Report, error) {
	report := machine.Report{Digest: c.Digest(), Changes: d.changes()}
	report.Reboot, report.Warnings = bootargs.Awaits(a.root, bootargs.Next(a.root, st.Kernel, c.KernelArguments))
	stage, run := stageOf(c, st), hooks{a, c.Machine}
	if err := run.run(ctx, c.Hooks, "before"+stage); err != nil {
		return machine.Report{}, err
	}
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
		begun.Stage, begun.Preparing = stage, len(st.Units) == 0 || st.Preparing
		if err := a.saveState(begun); err != nil {
			return machine.Report{}, err
		}
		if err := beforePackages(ctx, a, d); err != nil {
			return machine.Report{}, err
		}
		if err := a.installPackages(ctx, d.packages, func(brought []string) error { // recorded first: after a crash they must not count as the host's own
			next.Packages = slices.Compact(slices.Sorted(slices.Values(append(next.Packages, brought...))))
			begun.Packages = next.Packages
			return a.saveState(begun)
		}); err != nil {
			return machine.Report{}, err
		}
		if begun.Preparing {
			begun.Preparing = false
			if err := a.saveState(begun); err != nil {
				return machine.Report{}, err
			}
		}
		missing, err := a.change(ctx, c, st, d, &report)
		if err == nil && len(missing) == 0 {
			err = dropPackages(ctx, a, next, c.Packages, d.stalePackages)
		}
		if err == nil && len(missing) == 0 {
			err = run.run(ctx, c.Hooks, "after"+stage)
		}
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

// change makes the changes in the order of their dependencies.
func (a *Agent) change(ctx context.Context, c machine.Config, st *state, d *diff, report *machine.Report) ([]string, error) {
	steps := []func() error{
		func() error { return a.retireUnits(ctx, st, d.staleUnits) },
		func() error { return a.removePaths(st, d.stalePaths) },
		func() error { return a.makeUsers(ctx, d) },
		func() error { return findOwners(a, d) },
		func() error { return a.makeDirectories(d.directories) },
		func() error { return a.placeFiles(d.atOnce(c.Units)) },
		func() error { return a.placeLinks(d.binaries) },
		func() error { return a.setSysctls(d.sysctls) },
		func() error { return a.enable(ctx, d.enables) },
		func() error { return a.daemonReload(ctx, d) },
		func() error { return takeNotice(ctx, a, d.changed) },
		func() error { return bootargs.Prove(a.root, c.KernelArguments) },
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

// startUnits starts the units up to containerd, then imports images, then places the programs that running units start, and then starts the other
// units, which may need them. If all images seem to be present (a prepared store), everything starts at once and containerd is asked afterwards.
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

// splitAtContainerd splits ops after containerd's place in the order of units.
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

// nextState returns the state of the host after all changes.
func (a *Agent) nextState(c machine.Config, st *state, d *diff) *state {
	next := &state{Machine: c.Machine, Paths: map[string]stPath{}, Units: map[string]stUnit{}, Sysctls: maps.Clone(st.Sysctls), Packages: slices.Clone(st.Packages), Adopted: st.Adopted, Held: st.Held}
	if st.Machine == "" && st.Adopted == "" { // the first apply
		next.Held = lookHeld(a.root)
		if d.states[containerdUnit].load == "not-found" { // the store came with the image, or has only lost+found
			delete(next.Held, machine.ContainerdRoot)
		}
	}
	next.Asked, next.Release, next.Kernel = c.Packages, c.Release, bootargs.Next(a.root, st.Kernel, c.KernelArguments)
	maps.DeleteFunc(next.Sysctls, func(key, _ string) bool { _, wanted := c.Sysctls[key]; return !wanted })
	for p, s := range d.managed {
		if old, ok := st.Paths[p]; ok { // only the first run knows how it was before
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
		if _, ok := next.Sysctls[s.key]; !ok && !s.back {
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

// intent returns the state during the work: it covers everything that is managed before and after, and lists changed paths as pending.
func intent(st, next *state, d *diff) *state {
	s := *next
	s.Paths, s.Units = maps.Clone(st.Paths), maps.Clone(st.Units)
	maps.Copy(s.Paths, next.Paths)
	maps.Copy(s.Units, next.Units)
	s.Asked, s.Release, s.Sysctls = st.Asked, st.Release, maps.Clone(st.Sysctls)
	maps.Copy(s.Sysctls, next.Sysctls)
	for p, was := range st.Paths {
		if now := s.Paths[p]; was.Secret { // until it is overwritten
			now.Secret = true
			s.Paths[p] = now
		}
	}
	s.Images, s.Blobs = st.Images, append(slices.Clone(st.Blobs), next.Blobs...)
	s.Pending = slices.Sorted(maps.Keys(d.changed))
	return &s
}
