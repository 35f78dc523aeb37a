package agent

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
)

// startedBy are the files by which units that run now start programs.
func (d *diff) startedBy(units []machine.Unit) map[string]bool {
	files := map[string]bool{}
	for _, u := range units {
		for _, f := range u.Starts {
			files[f] = u.Active && d.states[u.Name].up()
		}
	}
	return files
}

// atOnce returns the files that are put in place first: all but those by which running units start programs.
func (d *diff) atOnce(units []machine.Unit) []*op {
	started := d.startedBy(units)
	return slices.DeleteFunc(slices.Clone(d.files), func(o *op) bool { return started[o.path] })
}

// startsAgain reports whether a running unit has to start something again: by a file that changes, or changed in a run that was cut short.
func (d *diff) startsAgain(units []machine.Unit) bool {
	for f, runs := range d.startedBy(units) {
		if runs && d.changed[f] {
			return true
		}
	}
	return false
}

// startAgain puts files in place by which running units start programs, and waits, where such a unit is to restart after that, until it has
// started them again: one that restarts in between finds programs that it does not know, and kills them (kubelet: after a second). What did
// not run before is not waited for, and what does not come up within startWait is not waited for any longer: the unit's restart may be what
// it needs.
func (a *Agent) startAgain(ctx context.Context, units []machine.Unit, d *diff, next []unitOp) error {
	started := d.startedBy(units)
	ran, err := a.root.Programs(time.Now())
	if err != nil {
		return err
	}
	if err := a.placeFiles(slices.DeleteFunc(slices.Clone(d.files), func(o *op) bool { return !started[o.path] })); err != nil {
		return err
	}
	programs := map[string]string{}
	for _, u := range units {
		if !slices.ContainsFunc(next, func(o unitOp) bool { return o.name == u.Name }) {
			continue
		}
		for _, f := range u.Starts {
			name := strings.TrimSuffix(path.Base(f), path.Ext(f))
			if _, runs := ran[name]; runs && started[f] && d.changed[f] {
				programs[name] = f
			}
		}
	}
	const pause = 100 * time.Millisecond
	for end := time.Now().Add(a.startWait); len(programs) > 0 && time.Now().Before(end); {
		if a.Settled(programs, a.startWait) == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return interrupted(ctx.Err())
		case <-time.After(pause):
		}
	}
	return nil
}
