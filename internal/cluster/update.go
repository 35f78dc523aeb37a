package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/upkeep"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
)

// The machines' operating system is updated machine by machine: each is drained, updated, rebooted if necessary, and must become as healthy as
// before. A fact records that a reboot was begun, with the boot ID before it.

// UpdateOptions selects the machines and the kind of an update.
type UpdateOptions struct {
	RebootOnly bool   // no packages: machines are rebooted
	Pool       string // the workers of this pool alone
	Machine    string // this machine alone
	Now        bool   // also outside of the window
}

// Updating is a roll of the machines' operating system as it was planned.
type Updating struct {
	Plan   *plan.Plan
	Closed error             // why no machine may begin now; nil if one may
	begins map[string]string // by machine: the boot ID that it is to get away from
}

// PlanUpdate plans to bring the operating system of machines up to date, one machine at a time, and nothing else.
func (c *Cluster) PlanUpdate(ctx context.Context, opts UpdateOptions) (*Updating, error) {
	if !c.Facts.Bootstrapped() {
		return nil, env.ErrNotBootstrapped(c.Name())
	}
	if err := c.Underway(ctx); err != nil {
		return nil, err
	}
	if c.Moving() || c.Rotating() {
		return nil, fail.New(fail.Refused, "update %s: an upgrade or a rotation is not finished", c.Name()).Do("naupegos apply continues it; then update")
	}
	o, err := c.ObserveInventory(ctx, c.Decided())
	if err != nil {
		return nil, err
	}
	if err := c.ObserveControlPlane(ctx, o, "update"); err != nil {
		return nil, err
	}
	slots, err := c.chosen(o, opts)
	if err != nil {
		return nil, err
	}
	u, err := c.planUpdate(o, slots, c.lookForUpdates(ctx, o, slots, opts), opts, time.Now())
	if err == nil {
		c.WarnOfBudgets(ctx, u.Plan, nil)
	}
	return u, err
}

// BeginUpdate remembers, before the first step of an agreed roll, which machines the operator wants rebooted.
func (c *Cluster) BeginUpdate(ctx context.Context, u *Updating) error {
	for name, boot := range u.begins {
		if err := c.Facts.SetOf(ctx, memory.Rebooting, name, boot); err != nil {
			return err
		}
	}
	return nil
}

// chosen returns the selected machines, with the machine of etcd's leader last.
func (c *Cluster) chosen(o *observe.Observed, opts UpdateOptions) ([]wanted.Slot, error) {
	slots := o.LeaderLast()
	names := wanted.Names(slots)
	slots = slices.DeleteFunc(slots, func(s wanted.Slot) bool {
		return o.Machine(s.Name) == nil || opts.Machine != "" && s.Name != opts.Machine || opts.Pool != "" && s.Pool != opts.Pool
	})
	switch {
	case len(slots) > 0:
		return slots, nil
	case opts.Machine != "":
		return nil, env.ErrNoSuchMachine(opts.Machine, c.Name(), names)
	}
	return nil, fail.New(fail.NotFound, "cluster %s has no machines of pool %q", c.Name(), opts.Pool).Do("naupegos status %s names the machines", c.Name())
}

// look is a machine's report about its packages.
type look struct {
	machine.Updates
	newer provider.Newer // system that it is to have; zero: it has it
	err   error          // why it could not be asked
}

// lookForUpdates asks machines side by side. They refresh their package lists, and change nothing else.
func (c *Cluster) lookForUpdates(ctx context.Context, o *observe.Observed, slots []wanted.Slot, opts UpdateOptions) map[string]look {
	ctx, cancel := context.WithTimeout(ctx, c.Doc.Spec.Timeouts.Step.Duration)
	defer cancel()
	found := make(map[string]look, len(slots))
	newer, unknown := c.outdated(ctx, opts)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, s := range slots {
		wg.Go(func() {
			l := look{newer: newer[s.Name]}
			h, err := c.Host(ctx, s.Name)
			switch m := o.Machine(s.Name); {
			case unknown != nil:
				l.err = unknown
			case err != nil:
				l.err = err
			case l.newer.Never != nil:
				l.err = l.newer.Never
			case !m.MayRun():
				l.err = fail.New(fail.NotReady, "it is %s", m.State).At(s.Name)
			case opts.RebootOnly:
				l.Updates, l.err = c.Dialer.RebootReasons(ctx, h)
			default:
				l.Updates, l.err = c.Dialer.Updates(ctx, h, c.Doc.Spec.Updates.OS.Hold)
			}
			mu.Lock()
			defer mu.Unlock()
			found[s.Name] = l
		})
	}
	wg.Wait()
	return found
}

// updating is a roll while it is planned.
type updating struct {
	*applying
	opts   UpdateOptions
	window upkeep.Window
	seen   map[string]look
	only   bool // continue reboots that were begun, and begin no others
	begins map[string]string
}

// planUpdate plans an update from the machines' reports.
func (c *Cluster) planUpdate(o *observe.Observed, slots []wanted.Slot, seen map[string]look, opts UpdateOptions, now time.Time) (*Updating, error) {
	u := &updating{applying: c.applying(o, nil), opts: opts, seen: seen, begins: map[string]string{}}
	out := &Updating{Plan: &plan.Plan{Verb: "update", Cluster: c.Name()}, begins: u.begins}
	if w := c.Doc.Spec.Updates.OS.Window; w != nil && !opts.Now {
		var err error
		if u.window, err = upkeep.ParseWindow(w.Days, w.From, w.To); err != nil {
			return nil, err
		}
	}
	out.Closed = u.closed(now)
	if out.Closed != nil {
		out.Plan.Warnings = append(out.Plan.Warnings, out.Closed.Error())
	}
	if err := u.fit(slots); err != nil {
		return nil, err
	}
	if opts.RebootOnly {
		if on := u.goingOn(slots); len(on) > 0 {
			u.only = true
			out.Plan.Warnings = append(out.Plan.Warnings, "reboots that were begun continue: "+strings.Join(on, ", ")+"; run the same command again to reboot all")
		}
	}
	previous := map[plan.Stage][]plan.Need{}
	for _, s := range slots {
		stage := map[provider.Role]plan.Stage{provider.Gateway: stage.RollGateways, provider.ControlPlane: stage.RollControlPlane, provider.Worker: stage.RollWorkers}[s.Role]
		if unit := u.unit(s); len(unit) > 0 {
			previous[stage] = u.chain(stage, unit, previous[stage]...)
		}
	}
	if len(previous[stage.RollControlPlane]) > 0 {
		u.add(stage.Prepare, c.BackupStep("control-plane machines are updated", nil))
	}
	var err error
	out.Plan.Steps, err = u.graph.Seal(stage.UpdateRules)
	return out, err
}

// closed returns an error while the maintenance window is closed.
func (u *updating) closed(now time.Time) error {
	if u.window.Open(now) {
		return nil
	}
	w := u.Doc.Spec.Updates.OS.Window
	return fail.New(fail.Refused, "machines of cluster %s may be disturbed only from %s to %s UTC (%s)", u.Name(), w.From, w.To, daysOf(w.Days)).
		Do("wait until %s, or give --now", u.window.Next(now).UTC().Format(time.DateTime+" MST"))
}

func daysOf(days []string) string {
	if len(days) == 0 {
		return "every day"
	}
	return strings.Join(days, ", ")
}

// begun reports whether an interrupted update left a machine in the middle of its work, or just before it.
func (u *updating) begun(name string) bool {
	return u.Facts.Of(memory.Rebooting, name) != "" || u.o.Nodes[name].Annotations[kube.OwnedCordon] != ""
}

// goingOn returns the machines whose reboot was begun.
func (u *updating) goingOn(slots []wanted.Slot) (names []string) {
	for _, s := range slots {
		if u.Facts.Of(memory.Rebooting, s.Name) != "" {
			names = append(names, s.Name)
		}
	}
	return names
}

// fit refuses a roll while something else is unhealthy, because another machine away would be one too many. Machines in the middle of an update
// do not count.
func (u *updating) fit(slots []wanted.Slot) error {
	for _, s := range u.o.Want {
		if n := u.o.Nodes[s.Name]; s.Role != provider.Gateway && !n.Ready && !u.begun(s.Name) {
			return fail.New(fail.NotReady, "node %s is not Ready: no other machine is taken away meanwhile", s.Name).
				Do("naupegos repair %s, or naupegos apply, brings it back; then update", u.Name())
		}
	}
	var all []error
	for _, s := range slots {
		if err := u.seen[s.Name].err; err != nil && !u.begun(s.Name) {
			all = append(all, err)
		}
		if err := u.keepsQuorum(s); err != nil {
			all = append(all, err)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fail.Wrap(fail.KindOf(all[0]), errors.Join(all...), "update %s: nothing was begun", u.Name()).Do("mend this first, or leave the machine out by --machine or --pool")
}

// keepsQuorum checks etcd without a machine's member. If it is the only one, the API is briefly unavailable.
func (u *updating) keepsQuorum(s wanted.Slot) error {
	if !s.IsControlPlane() {
		return nil
	}
	return nodes.Stoppable(u.o.Members, u.o.Health, s.Name)
}

// unit lists the steps for one machine in order: drain, update, reboot, uncordon; none if nothing is to do.
func (u *updating) unit(s wanted.Slot) []*plan.Step {
	seen, m := u.seen[s.Name], u.o.Machine(s.Name)
	boot := u.Facts.Of(memory.Rebooting, s.Name)
	rebooted := boot != "" && seen.err == nil && seen.BootID != boot
	system := seen.err == nil && seen.newer.Why != "" // which has packages of its own
	packages := !u.opts.RebootOnly && seen.err == nil && !system && (len(seen.Packages) > 0 || seen.Unfinished)
	asked := u.opts.RebootOnly && !u.only
	reboots := boot != "" || asked || !u.opts.RebootOnly && !system && len(seen.Reboot) > 0
	ours := u.o.Nodes[s.Name].Annotations[kube.OwnedCordon] != ""
	if !system && !packages && !reboots && !ours {
		return nil
	}
	var unit []*plan.Step
	drains := s.Role != provider.Gateway && ((packages || reboots) && !rebooted || system) && seen.err == nil && u.elsewhere(s)
	if drains {
		unit = append(unit, u.DrainStep(*m))
	}
	switch {
	case system:
		unit = append(unit, u.systemStep(s, seen))
	case packages:
		unit = append(unit, u.packagesStep(s, seen.Updates))
	}
	if packages || reboots && !rebooted && !system {
		unit = append(unit, u.rebootStep(s, seen.Updates, asked))
	}
	if asked {
		u.begins[s.Name] = seen.BootID
	}
	switch s.Role {
	case provider.Gateway:
		unit = append(unit, u.GatewayGate(s.Name))
	case provider.ControlPlane:
		unit = append(unit, u.Gate(s.Name, "one control-plane machine at a time"))
	}
	if s.Role != provider.Gateway {
		unit = append(unit, u.NodeStep(s, true))
	}
	if drains || ours {
		unit = append(unit, u.uncordonSteps(s)...)
	}
	if s.Role != provider.Gateway {
		unit = append(unit, u.CheckSteps(s.Name)...)
	}
	first, last := unit[0], unit[len(unit)-1]
	begin, end := first.Run, last.Run
	last.Run = func(ctx context.Context, p plan.Progress) error {
		if err := end(ctx, p); err != nil {
			return err
		}
		return u.Facts.SetOf(ctx, memory.Rebooting, s.Name, "")
	}
	if first == last {
		begin = last.Run
	}
	resumed := ours || rebooted || seen.err != nil
	first.Run = func(ctx context.Context, p plan.Progress) error {
		if err := u.mayBegin(ctx, s, resumed, p); err != nil {
			return err
		}
		return begin(ctx, p)
	}
	return unit
}

// mayBegin lets a machine begin only while the window is open and the others are healthy. A machine in the middle of its update always continues.
func (u *updating) mayBegin(ctx context.Context, s wanted.Slot, resumed bool, p plan.Progress) error {
	if resumed {
		return nil
	}
	if err := u.closed(time.Now()); err != nil {
		return fail.Wrap(fail.Refused, err, "the window has closed: %s and the following steps were not run", s.Name).Do("the same command continues when it is open again")
	}
	if !s.IsControlPlane() {
		return nil
	}
	p.Status("waiting until the other control-plane machines are ready")
	for _, other := range u.o.Want {
		if other.IsControlPlane() && other.Name != s.Name && u.o.Serves(other.Name) {
			if err := u.Settled(ctx, other.Name); err != nil {
				return err
			}
		}
	}
	if err := u.WaitEtcd(ctx); err != nil {
		return err
	}
	return u.MayStop(ctx, s.Name, true)
}

// packagesStep brings packages to the versions that were shown.
func (u *updating) packagesStep(s wanted.Slot, want machine.Updates) *plan.Step {
	step := &plan.Step{
		ID: "update/" + s.Name, Action: plan.Change, Subject: s.Name, Rolling: true, Title: "upgrade " + words.Count(len(want.Packages), "package", "packages") + " on " + s.Name,
		Reason: "newer versions are available",
	}
	if want.Unfinished {
		step.Title, step.Reason = "finish the installation of packages on "+s.Name, "it was interrupted"
	}
	for _, p := range want.Packages {
		step.Details = append(step.Details, p.String())
	}
	want.Held = u.Doc.Spec.Updates.OS.Hold
	step.Run = func(ctx context.Context, p plan.Progress) error {
		h, err := u.Host(ctx, s.Name)
		if err != nil {
			return err
		}
		p.Status("running apt")
		_, err = u.Dialer.Update(ctx, h, want)
		return err
	}
	return step
}

// rebootStep reboots a machine if that was requested or begun, or else if the machine reports that it is necessary.
func (u *updating) rebootStep(s wanted.Slot, seen machine.Updates, asked bool) *plan.Step {
	step := &plan.Step{ID: "reboot/" + s.Name, Action: plan.Change, Subject: s.Name, Rolling: true, Title: "reboot " + s.Name, Reason: strings.Join(seen.Reboot, "; ")}
	switch {
	case u.Facts.Of(memory.Rebooting, s.Name) != "":
		step.Reason = "it was begun before"
	case asked:
		step.Reason = "as requested"
	case len(seen.Reboot) == 0:
		step.Title, step.Reason = "reboot "+s.Name+" if needed", "upgraded packages may require it"
	}
	step.Run = func(ctx context.Context, p plan.Progress) error { return u.Reboot(ctx, s.Name, p) }
	return step
}
