package agent

import (
	"context"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
)

// starts lists the programs that running units start, in order.
func (d *diff) starts(units []machine.Unit) (list []machine.Start) {
	for _, u := range units {
		if u.Active && d.states[u.Name].up() {
			list = append(list, u.Starts...)
		}
	}
	return list
}

// atOnce returns the files that are placed first: all except those from which running units start programs.
func (d *diff) atOnce(units []machine.Unit) []*op {
	started := d.starts(units)
	return slices.DeleteFunc(slices.Clone(d.files), func(o *op) bool {
		return slices.ContainsFunc(started, func(s machine.Start) bool { return s.File == o.path })
	})
}

// startsAgain reports whether a running unit has to restart a program, because the program's file changes (or changed in an interrupted run), or
// because the unit forgets the program.
func (d *diff) startsAgain(units []machine.Unit) bool {
	changed := func(s machine.Start) bool { return d.changed[s.File] }
	return slices.ContainsFunc(d.starts(units), changed) || d.forgets(units)
}

// forgets reports whether a running unit is about to forget the programs that it has started.
func (d *diff) forgets(units []machine.Unit) bool {
	return slices.ContainsFunc(units, func(u machine.Unit) bool {
		return u.Forgets != "" && d.changed[u.Forgets] && u.Active && d.states[u.Name].up()
	})
}

// ended returns the programs that running units should run and do not run, each with its unit and file.
func ended(a *Agent, d *diff, units []machine.Unit) (list []endedProgram, err error) {
	var runs map[string]time.Time
	for _, u := range units {
		if !u.Active || !d.states[u.Name].up() {
			continue
		}
		for _, s := range u.Starts {
			if runs == nil {
				if runs, err = a.root.Programs(time.Now()); err != nil {
					return nil, err
				}
			}
			_, ok := runs[programOf(s.File)]
			f, err := a.look(s.File)
			if err != nil {
				return nil, err
			}
			if !ok && f != nil {
				list = append(list, endedProgram{unit: u.Name, file: s.File})
			}
		}
	}
	return list, nil
}

// endedProgram is a program that does not run although a unit starts it from a file.
type endedProgram struct{ unit, file string }

// restartsFor returns the program because of which a unit restarts: it does not run, and its file changes. A kubelet that restarted while its own API
// server was down waits for that server before it forgets the server's ended pod, and so never starts the pod of a changed file; a restarted kubelet
// starts it.
func restartsFor(unit string, ended []endedProgram, changed map[string]bool) string {
	for _, e := range ended {
		if e.unit == unit && changed[e.file] {
			return programOf(e.file)
		}
	}
	return ""
}

// programOf returns the name of the program that a unit starts from a file.
func programOf(file string) string { return strings.TrimSuffix(path.Base(file), path.Ext(file)) }

// restarting is the state of the programs that running units restart.
type restarting struct {
	*Agent
	list    []machine.Start
	ops     map[string]*op       // files not yet in place, by path
	changed map[string]bool      // files placed in this run or in an interrupted one
	ran     map[string]time.Time // the programs before the first change
	taken   []machine.Start      // programs whose files were removed
	end     time.Time            // do not wait any longer: a program that does not start may need a later change
	unit    bool                 // the unit itself restarts afterwards
}

// startAgain places the files from which running units start programs, and carries out the following operations on units. It first stops programs
// that depend on a changing one, and starts them once that one serves. A unit that must restart does so only after it has restarted all of these
// programs: if it restarted earlier, it would find unknown programs and kill them (kubelet: after a second). For the same reason, if the unit forgets
// its programs, startAgain stops them before the unit restarts and starts them afterwards. It does the same if all programs change and one needs
// another, because kubelet takes ten seconds for each program that it restarts itself. It does not wait for programs that did not run before.
func (a *Agent) startAgain(ctx context.Context, units []machine.Unit, d *diff, next []unitOp) (err error) {
	r := &restarting{Agent: a, list: d.starts(units), ops: map[string]*op{}, end: time.Now().Add(a.startWait), changed: maps.Clone(d.changed)}
	for _, u := range units {
		r.unit = r.unit || len(u.Starts) > 0 && slices.ContainsFunc(next, func(o unitOp) bool { return o.name == u.Name })
	}
	for _, s := range r.list {
		if i := slices.IndexFunc(d.files, func(o *op) bool { return o.path == s.File }); i >= 0 {
			r.ops[s.File] = d.files[i]
		}
	}
	if r.ran, err = a.root.Programs(time.Now()); err != nil {
		return err
	}
	defer func() { // on an interruption no program stays stopped. Programs with their old files keep running until the next run, because others may still need them
		for _, s := range r.taken {
			if e := r.place(s); err == nil {
				err = e
			}
		}
	}()
	together := r.unit && r.allChange() && slices.ContainsFunc(r.list, r.needsWhatChanges)
	if !together && !d.forgets(units) {
		if err := r.stop(ctx, r.needsWhatChanges); err != nil {
			return err
		}
		if err := r.placeInOrder(ctx); err != nil {
			return err
		}
		return a.runUnitOps(ctx, next)
	}
	r.unit = false // the unit has restarted before they start
	for _, which := range []func(machine.Start) bool{func(s machine.Start) bool { return s.Needs != "" }, func(machine.Start) bool { return true }} {
		if err := r.stop(ctx, which); err != nil {
			return err
		}
	}
	if err := a.runUnitOps(ctx, next); err != nil {
		return err
	}
	return r.placeInOrder(ctx)
}

// allChange reports whether all programs run and have changing files.
func (r *restarting) allChange() bool {
	return !slices.ContainsFunc(r.list, func(s machine.Start) bool {
		_, runs := r.ran[programOf(s.File)]
		return !runs || r.ops[s.File] == nil || !r.ops[s.File].write
	})
}

// needsWhatChanges reports whether a program depends on one whose file changes.
func (r *restarting) needsWhatChanges(s machine.Start) bool {
	needed := r.ops[s.Needs]
	return s.Needs != "" && needed != nil && needed.write
}

// stop removes the files of running programs and waits until the programs have ended.
func (r *restarting) stop(ctx context.Context, which func(machine.Start) bool) error {
	var stopped []string
	for _, s := range r.list {
		if _, runs := r.ran[programOf(s.File)]; !runs || !which(s) {
			continue
		}
		if r.ops[s.File] == nil {
			o, err := r.asItIs(s.File)
			if err != nil {
				return err
			}
			if o == nil {
				continue
			}
			r.ops[s.File] = o
		}
		r.taken = append(r.taken, s)
		if err := removePath(r.path(s.File), s.File); err != nil {
			return err
		}
		stopped = append(stopped, programOf(s.File))
	}
	return r.wait(ctx, func() bool {
		now, err := r.root.Programs(time.Now())
		return err == nil && !slices.ContainsFunc(stopped, func(name string) bool { _, runs := now[name]; return runs })
	})
}

// asItIs returns a function that restores a file's present state, or nil if there is no such file.
func (r *restarting) asItIs(file string) (*op, error) {
	f, err := r.look(file)
	if err != nil || f == nil {
		return nil, err
	}
	content, err := os.ReadFile(r.path(file))
	if err != nil {
		return nil, fileError(err, "read", file)
	}
	return &op{path: file, content: content, write: true, mode: f.info.Mode().Perm(), uid: f.uid, gid: f.gid}, nil
}

// placeInOrder places the files: first those of programs that others need, which must serve before placeInOrder places the rest, all at once.
func (r *restarting) placeInOrder(ctx context.Context) error {
	needed := func(s machine.Start) bool {
		return slices.ContainsFunc(r.list, func(other machine.Start) bool { return other.Needs == s.File && r.ops[other.File] != nil })
	}
	for _, s := range r.list {
		if r.ops[s.File] == nil || !needed(s) {
			continue
		}
		if err := r.place(s); err != nil {
			return err
		}
		serves := func() bool { return r.startedAgain(s) && (s.Port == 0 || r.listens(s.Port)) }
		if err := r.wait(ctx, serves); err != nil {
			return err
		}
	}
	for _, s := range r.list {
		if err := r.place(s); err != nil {
			return err
		}
	}
	for _, s := range r.list {
		if !r.unit || !r.changed[s.File] {
			continue
		}
		if err := r.wait(ctx, func() bool { return r.startedAgain(s) }); err != nil {
			return err
		}
	}
	return nil
}

// place places a program's file if it is not yet in place.
func (r *restarting) place(s machine.Start) error {
	o := r.ops[s.File]
	if o == nil {
		return nil
	}
	r.changed[s.File] = true
	delete(r.ops, s.File)
	return r.placeFiles([]*op{o})
}

// startedAgain reports whether a program has restarted since its file was placed. A program that did not run before counts, too.
func (r *restarting) startedAgain(s machine.Start) bool {
	name := programOf(s.File)
	_, ran := r.ran[name]
	return !ran || r.Settled(map[string]string{name: s.File}, r.startWait) == nil
}

func (r *restarting) listens(port int) bool {
	return slices.ContainsFunc(r.root.Listeners(), func(l machine.Listener) bool { return l.Port == port })
}

// wait waits until a condition is true or the time is up.
func (r *restarting) wait(ctx context.Context, so func() bool) error {
	const pause = 100 * time.Millisecond
	for !so() && time.Now().Before(r.end) {
		select {
		case <-ctx.Done():
			return interrupted(ctx.Err())
		case <-time.After(pause):
		}
	}
	return nil
}
