package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// unitState is systemd's state of a unit.
type unitState struct {
	load, active, sub, file, fragment string
	stale                             bool      // its files changed since systemd read them
	began                             time.Time // when its process began; zero without a process
	flushed                           bool      // its packet filter table has no rules although it is active
}

// running counts a unit that systemd keeps restarting as running: starting it again would change nothing.
func (s unitState) running() bool {
	return s.active == "active" || s.active == "reloading" || s.active == "activating"
}

// up reports whether the unit has started completely.
func (s unitState) up() bool { return s.active == "active" || s.active == "reloading" }

// words returns the unit's state as systemctl prints it.
func (s unitState) words() string { return s.active + " (" + s.sub + ")" }

func (s unitState) enabled() bool { return s.file == "enabled" }

// systemctl runs one systemctl command with a time limit.
func (a *Agent) systemctl(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, a.unitWait)
	defer cancel()
	return a.run.Run(ctx, nil, append([]string{"systemctl"}, args...)...)
}

// unitStates asks systemd about all names at once.
func (a *Agent) unitStates(ctx context.Context, names []string) (map[string]unitState, error) {
	if len(names) == 0 {
		return nil, nil
	}
	args := []string{"show", "--property=Id,LoadState,ActiveState,SubState,UnitFileState,FragmentPath,NeedDaemonReload,ExecMainPID,ExecMainStartTimestamp,ExecMainStartTimestampMonotonic", "--"}
	out, err := a.systemctl(ctx, append(args, names...)...)
	if err != nil {
		return nil, fail.Wrap(kindOr(err, fail.Internal), err, "ask systemd about units").Do("the machine must be booted with systemd")
	}
	blocks := strings.Split(strings.TrimSpace(string(out)), "\n\n")
	if len(blocks) != len(names) {
		return nil, fail.New(fail.Internal, "systemd described %d units of %d", len(blocks), len(names))
	}
	states := map[string]unitState{}
	now, uptime := time.Now(), monotonic()
	for i, block := range blocks { // in the order of the names
		v := map[string]string{}
		for line := range strings.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			v[key] = value
		}
		states[names[i]] = unitState{ //nolint:gosec // there are as many names as blocks
			load: v["LoadState"], active: v["ActiveState"], sub: v["SubState"], file: v["UnitFileState"],
			fragment: v["FragmentPath"], stale: v["NeedDaemonReload"] == "yes", began: began(v, now, uptime),
		}
	}
	return states, nil
}

// unitOp is one operation on a unit of the running system.
type unitOp struct {
	name, verb, why string
	reset           bool // it failed before: reset its counters first
}

// unitOps returns the operations on units, in the units' order, from their states, the changed paths (also of an interrupted run), and the programs
// of running units that do not run.
func unitOps(units []machine.Unit, states map[string]unitState, changed map[string]bool, ended []endedProgram) []unitOp {
	var out []unitOp
	for _, u := range units {
		s := states[u.Name]
		own, watched, dead := ownChange(u, changed), watchedChange(u, changed), restartsFor(u.Name, ended, changed)
		op := unitOp{name: u.Name, reset: s.active == "failed"}
		switch {
		case u.OnDemand:
			continue
		case !u.Active && s.running():
			op.verb, op.why = "stop", "is to be inactive"
		case !u.Active:
			continue
		case !s.running():
			op.verb, op.why = "start", "is "+s.active
		case own != "":
			op.verb, op.why = "restart", own+" changed"
		case s.flushed && u.Reload:
			op.verb, op.why = "reload", "table "+u.Table+" of nftables has no rules"
		case s.flushed:
			op.verb, op.why = "restart", "table "+u.Table+" of nftables has no rules"
		case dead != "":
			op.verb, op.why = "restart", dead+", whose file changed, does not run"
		case watched != "" && u.Reload:
			op.verb, op.why = "reload", watched+" changed"
		case watched != "":
			op.verb, op.why = "restart", watched+" changed"
		default:
			continue
		}
		out = append(out, op)
	}
	return out
}

// ownChange returns the unit's file or drop-in among the changed paths.
func ownChange(u machine.Unit, changed map[string]bool) string {
	if p := machine.UnitPath(u.Name); changed[p] {
		return p
	}
	for p := range changed {
		if strings.HasPrefix(p, machine.UnitPath(u.Name)+".d/") {
			return p
		}
	}
	return ""
}

// watchedChange returns the first watched path, or path in a watched directory, among the changed ones.
func watchedChange(u machine.Unit, changed map[string]bool) string {
	for _, w := range u.Watches {
		if changed[w] {
			return w
		}
		for p := range changed {
			if strings.HasPrefix(p, strings.TrimSuffix(w, "/")+"/") {
				return p
			}
		}
	}
	return ""
}

// runUnitOps carries out ops. It passes consecutive units with the same verb to one call, so that systemd works on them in parallel, as far as their
// own ordering permits, and starts them in this order.
func (a *Agent) runUnitOps(ctx context.Context, ops []unitOp) error {
	for len(ops) > 0 {
		n := slices.IndexFunc(ops, func(o unitOp) bool { return o.verb != ops[0].verb })
		if n < 0 {
			n = len(ops)
		}
		var names, failed []string
		for _, o := range ops[:n] {
			names = append(names, o.name)
			if o.reset {
				failed = append(failed, o.name)
			}
		}
		if len(failed) > 0 {
			// A unit that was never loaded can't be reset; only its start counts.
			_, _ = a.systemctl(ctx, append([]string{"reset-failed", "--"}, failed...)...)
		}
		if _, err := a.systemctl(ctx, append([]string{ops[0].verb, "--"}, names...)...); err != nil {
			return a.unitError(ctx, ops[0].verb, names, err)
		}
		ops = ops[n:]
	}
	return nil
}

// unitError finds the unit that failed and its last log lines.
func (a *Agent) unitError(ctx context.Context, verb string, names []string, err error) error {
	if ctx.Err() != nil {
		return fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "%s %s", verb, strings.Join(names, " "))
	}
	culprit := names[0]
	if states, serr := a.unitStates(ctx, names); serr == nil {
		for _, n := range names {
			if !states[n].running() {
				culprit = n
				break
			}
		}
	}
	e := fail.Wrap(kindOr(err, fail.Internal), err, "%s %s", verb, culprit).At(culprit)
	log, jerr := journal(ctx, a.run, "--unit="+culprit)
	if jerr != nil || len(strings.TrimSpace(string(log))) == 0 {
		return e.Do("`systemctl status %s` on the machine has details", culprit)
	}
	return e.Do("its last log lines:\n%s", tail(string(log), 3000))
}

// journal returns the last lines of the system's journal that match, after the journal has read what the machine's programs have printed so far.
func journal(ctx context.Context, host Runner, match string) ([]byte, error) {
	if _, err := host.Run(ctx, nil, "journalctl", "--sync"); err != nil {
		return nil, err
	}
	return host.Run(ctx, nil, "journalctl", match, "--lines=20", "--no-pager", "--output=cat")
}

// kindOr returns the kind of err, or k if it has none.
func kindOr(err error, k fail.Kind) fail.Kind {
	if got := fail.KindOf(err); got != fail.Internal {
		return got
	}
	var ce *CommandError
	if errors.As(err, &ce) {
		return k
	}
	return fail.Internal
}
