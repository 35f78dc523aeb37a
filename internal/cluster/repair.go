package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/stage"

	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/cluster/support"
	"github.com/naupegos/naupegos/internal/cluster/upkeep"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
)

// A machine whose node stays not Ready climbs a ladder, one rung per round: a reboot, a power cycle, a new installation if its provider supports
// that, and replacement. A fact records each attempt before it begins.

// Repair is one round of repair as it was planned.
type Repair struct {
	upkeep.Round
	Applied *Applied // the plan of the round; nil if there is nothing to do
}

// PlanRepair plans one round of repair: one rung for one machine, the named one if there is a name. It runs unattended: a replacement is fail.Refused if apply
// would change more than that machine, and nothing happens that would leave etcd without its quorum.
func (c *Cluster) PlanRepair(ctx context.Context, machine string) (*Repair, error) {
	o, sick, r, err := c.diagnose(ctx, machine)
	if err != nil || r.Machine == "" {
		return &Repair{Round: r}, err
	}
	k := sick[slices.IndexFunc(sick, func(k upkeep.Sick) bool { return k.Name == r.Machine })]
	out := &Repair{Round: r}
	if r.Rung.Replaces() {
		out.Applied, err = c.planReplacement(ctx, r, k, sick)
		return out, err
	}
	p := &plan.Plan{Verb: "repair", Cluster: c.Name()}
	out.Applied = &Applied{Plan: p, Observed: o}
	p.Steps, err = c.rungSteps(o, r, k)
	return out, err
}

// Decision returns the decision about the machine that this round replaces.
func (r *Repair) Decision() wanted.Decision { return decisionOf(r.Rung) }

func decisionOf(r upkeep.Rung) wanted.Decision {
	if r == upkeep.Reinstall {
		return wanted.Reinstall
	}
	return wanted.Replace
}

// LookForSick returns the next action of a repair without planning it.
func (c *Cluster) LookForSick(ctx context.Context, machine string) (upkeep.Round, error) {
	_, _, r, err := c.diagnose(ctx, machine)
	return r, err
}

// diagnose observes nodes and etcd and selects the machine to repair.
func (c *Cluster) diagnose(ctx context.Context, machine string) (*observe.Observed, []upkeep.Sick, upkeep.Round, error) {
	if !c.Facts.Bootstrapped() {
		return nil, nil, upkeep.Round{}, env.ErrNotBootstrapped(c.Name())
	}
	if err := c.Underway(ctx); err != nil {
		return nil, nil, upkeep.Round{}, err
	}
	o, err := c.ObserveInventory(ctx, c.Decided().InPlace())
	if err != nil {
		return nil, nil, upkeep.Round{}, err
	}
	if err := c.ObserveControlPlane(ctx, o, "repair"); err != nil {
		return nil, nil, upkeep.Round{}, err
	}
	sick, total, err := c.sickOf(ctx, o, time.Now())
	if err != nil {
		return nil, nil, upkeep.Round{}, err
	}
	if machine != "" && !slices.ContainsFunc(o.Want, func(s wanted.Slot) bool { return s.Name == machine && s.Role != provider.Gateway }) {
		return nil, nil, upkeep.Round{}, env.ErrNoSuchMachine(machine, c.Name(), wanted.Names(o.Want))
	}
	r := c.Doc.Spec.Repair
	round, err := upkeep.Next(sick, total, upkeep.Rules{After: r.After.Duration, Patience: r.Patience.Duration, MaxUnhealthy: r.MaxUnhealthy}, machine, time.Now())
	return o, sick, round, err
}

// sickOf lists the machines that are off or whose nodes are not Ready, and how many machines should have nodes. It forgets attempts on machines that recovered.
func (c *Cluster) sickOf(ctx context.Context, o *observe.Observed, now time.Time) (sick []upkeep.Sick, total int, _ error) {
	for _, s := range wanted.Own(o.Want) {
		if s.Role == provider.Gateway {
			continue
		}
		total++
		n, known := o.Nodes[s.Name]
		l, err := upkeep.ParseLadder(c.Facts.Of(memory.Repair, s.Name))
		if err != nil {
			return nil, 0, err
		}
		m := o.Machine(s.Name)
		off := m != nil && m.State == provider.Stopped
		if n.Ready && !off {
			if len(l.Tries) == 0 || l.Over(n.Changed, now, c.Doc.Spec.Repair.Patience.Duration) {
				err = c.Facts.SetOf(ctx, memory.Repair, s.Name, "")
			}
			if err != nil {
				return nil, 0, err
			}
			continue
		}
		k := upkeep.Sick{Name: s.Name, ControlPlane: s.IsControlPlane(), Since: n.Changed, Why: n.Reason, Ladder: l, Cannot: c.cannot(ctx, o, s)}
		_, k.Reinstalls = c.Prov.(provider.Reinstaller)
		k.Off = off
		switch {
		case n.Ready: // the API has not missed it yet
			k.Why, k.Since = isOff, time.Time{}
		case !known:
			k.Why = "it is not registered"
		}
		if k.Since.IsZero() || k.Since.After(now) { // no other source has the time
			if k.Since = l.Since; l.Since.IsZero() {
				k.Since, k.Ladder.Since = now, now
				if err := c.Facts.SetOf(ctx, memory.Repair, s.Name, k.Ladder.String()); err != nil {
					return nil, 0, err
				}
			}
		}
		if n.Unschedulable && n.Annotations[kube.OwnedCordon] == "" {
			k.Leave = "not Ready, but a user has cordoned it: it is left alone; --machine repairs it anyway"
		}
		if s.IsControlPlane() && o.Machine(s.Name) != nil {
			if _, err := nodes.QuorumWithout(o, []string{s.Name}); err != nil {
				k.Never = err.Error()
			}
		}
		sick = append(sick, k)
	}
	return sick, total, nil
}

// cannot returns the rungs that a machine can't climb, with the reasons.
func (c *Cluster) cannot(ctx context.Context, o *observe.Observed, s wanted.Slot) map[upkeep.Rung]string {
	no := map[upkeep.Rung]string{}
	switch t := c.Prov.Traits(); {
	case o.Machine(s.Name) == nil:
		for _, r := range []upkeep.Rung{upkeep.Reboot, upkeep.Cycle, upkeep.Reinstall} {
			no[r] = "the machine does not exist"
		}
	case !c.Switches(ctx, s.Name):
		no[upkeep.Cycle] = c.Unswitched()
		ctx, cancel := context.WithTimeout(ctx, env.ObserveTime(c.Doc))
		defer cancel()
		if _, err := c.Life(ctx, s.Name); err != nil {
			no[upkeep.Reboot] = "it does not answer"
			switch {
			case t.Keeps:
				no[upkeep.Replace] = "it does not answer, and can't be cleaned"
			case t.Stock:
				no[upkeep.Reinstall], no[upkeep.Replace] = "it does not answer", "it does not answer, and can neither be cleaned nor powered off from here"
			}
		}
	}
	return no
}

// rungSteps are the steps of a reboot or a power cycle: the machine shuts down and comes back, and its node is Ready again.
func (c *Cluster) rungSteps(o *observe.Observed, r upkeep.Round, k upkeep.Sick) ([]*plan.Step, error) {
	s := o.Want[slices.IndexFunc(o.Want, func(s wanted.Slot) bool { return s.Name == r.Machine })]
	title, by := "reboot "+s.Name, "off"
	if r.Rung == upkeep.Cycle {
		title, by = "power-cycle "+s.Name, "kill"
	}
	var graph plan.Graph
	graph.Add(stage.Repair, &plan.Step{
		ID: string(r.Rung) + "/" + s.Name, Action: plan.Change, Subject: s.Name, Title: title, Rolling: true,
		Reason: because(k), Details: append(k.Ladder.Words(), r.Skipped...),
		Run: c.onRung(r, true, func(ctx context.Context, p plan.Progress) error {
			if s.IsControlPlane() {
				if err := c.MayStop(ctx, s.Name, true); err != nil {
					return err
				}
			}
			return c.Restart(ctx, s.Name, by, p)
		}),
	})
	_, known := o.Nodes[s.Name]
	back := c.NodeStep(s, known)
	back.Reason, back.Timeout = "it has "+c.Doc.Spec.Repair.Patience.String()+" to become Ready; otherwise the next round tries something else", c.Doc.Spec.Repair.Patience.Duration+support.LookTime
	if s.IsControlPlane() {
		gate := c.Gate(s.Name, "its etcd member and API server must work again")
		gate.Timeout = back.Timeout
		graph.Add(stage.Nodes, gate)
		back.Needs = []string{gate.ID}
	}
	graph.Add(stage.Nodes, back)
	return graph.Seal(stage.RepairRules)
}

// isOff is the reason for repairing a machine whose node still counts as Ready.
const isOff = "the machine is off"

// because returns the reason for repairing a machine.
func because(k upkeep.Sick) string {
	if k.Why == isOff {
		return k.Why
	}
	return "its node is not Ready: " + k.Why
}

// onRung makes a step remember that a rung was begun, before it does anything, and, with ends, that the rung was climbed.
func (c *Cluster) onRung(r upkeep.Round, ends bool, run func(context.Context, plan.Progress) error) func(context.Context, plan.Progress) error {
	begun := false // an attempt that is repeated is the same one
	return func(ctx context.Context, p plan.Progress) error {
		if !begun {
			if err := c.climb(ctx, r.Machine, func(l upkeep.Ladder) upkeep.Ladder { return l.Begin(r.Rung, time.Now()) }); err != nil {
				return err
			}
			begun = true
		}
		if err := run(ctx, p); err != nil || !ends {
			return err
		}
		return c.climb(ctx, r.Machine, func(l upkeep.Ladder) upkeep.Ladder { return l.Finish(time.Now()) })
	}
}

// climb remembers another state of a machine's ladder.
func (c *Cluster) climb(ctx context.Context, machine string, next func(upkeep.Ladder) upkeep.Ladder) error {
	l, err := upkeep.ParseLadder(c.Facts.Of(memory.Repair, machine))
	if err != nil {
		return err
	}
	return c.Facts.SetOf(ctx, memory.Repair, machine, next(l).String())
}

// planReplacement plans to replace a sick machine by another one, or to reinstall it.
func (c *Cluster) planReplacement(ctx context.Context, r upkeep.Round, k upkeep.Sick, sick []upkeep.Sick) (*Applied, error) {
	if c.Current == nil { // it was another machine's turn, or another rung's, when the session was opened
		return nil, fail.New(fail.NotReady, "replace %s: the bundle of Kubernetes %s is not at hand", r.Machine, c.Doc.Spec.Kubernetes.Version).
			Do("the same command again gets it; naupegos bundle list shows what is here")
	}
	decided := c.Decided().InPlace()
	rest, err := c.planApply(ctx, "repair", decided)
	if err == nil {
		err = c.nothingElse(rest, whatIsSick, ofRepair(sick, k.Ladder.Resumes(r.Rung)))
	}
	if err != nil {
		return nil, err
	}
	decided = maps.Clone(decided)
	decided[r.Machine] = decisionOf(r.Rung)
	ap, err := c.planApply(ctx, "repair", decided)
	if err != nil {
		return nil, err
	}
	c.asReplacement(ap.Plan, r, k, sick)
	ap.Again = func(ctx context.Context) (*Applied, error) {
		ap, err := c.planApply(ctx, "repair", c.Decided())
		if err == nil {
			err = c.nothingElse(ap, whatIsSick, ofRepair(sick, true))
		}
		if err != nil {
			return nil, err
		}
		ap.Plan.Steps = withoutOthers(ap.Plan.Steps, r.Machine, sick)
		return ap, nil
	}
	return ap, nil
}

// nothingElse refuses a single change if apply has more to do: a step outside of that change. apart describes the change in words; it may be empty.
func (c *Cluster) nothingElse(rest *Applied, apart string, of func(*plan.Step) bool) error {
	if rest.Unready != nil {
		return rest.Unready
	}
	more := slices.DeleteFunc(slices.Clone(rest.Plan.Steps), func(s *plan.Step) bool { return of(s) || s.ID == addons.UnseenSets })
	if len(more) == 0 {
		return nil
	}
	if apart != "" {
		apart = "apart from " + apart + ", "
	}
	return fail.New(fail.Refused, "cluster %s is not as its document says: %sapply has %s to do (%s, …)",
		c.Name(), apart, words.Count(len(more), "step", "steps"), more[0].Title).Do("look at naupegos plan, and apply; then try again")
}

// whatIsSick describes the subject of a repair in words.
const whatIsSick = "what is sick"

// ofRepair returns a filter for the steps about sick machines and, once a replacement was begun, for the steps that follow it without a restart.
func ofRepair(sick []upkeep.Sick, begun bool) func(*plan.Step) bool {
	return func(s *plan.Step) bool {
		return isSick(sick, s.Subject) || begun && !s.Disruption().AtLeast(plan.Rolling)
	}
}

func isSick(sick []upkeep.Sick, name string) bool {
	return slices.ContainsFunc(sick, func(k upkeep.Sick) bool { return k.Name == name })
}

// withoutOthers removes the steps for other sick machines.
func withoutOthers(steps []*plan.Step, machine string, sick []upkeep.Sick) []*plan.Step {
	return parts.Without(steps, func(s *plan.Step) bool { return s.Subject != machine && isSick(sick, s.Subject) })
}

// asReplacement turns a plan that replaces a machine into a round of repair: other sick machines stay as they are, the attempt is remembered, and the consent
// comes from the operator or the document.
func (c *Cluster) asReplacement(p *plan.Plan, r upkeep.Round, k upkeep.Sick, sick []upkeep.Sick) {
	p.Steps = withoutOthers(p.Steps, r.Machine, sick)
	first := true
	for _, s := range p.Steps {
		if s.Subject != r.Machine {
			continue
		}
		if first {
			s.Details = slices.Concat(s.Details, []string{because(k)}, k.Ladder.Words(), r.Skipped)
		}
		switch {
		case c.Doc.Spec.Repair.Replace: // the document consents to the loss of the machine with its volumes
			s.Consent = ""
		case (s.Action == plan.Destroy || s.Action == plan.Replace) && !strings.HasPrefix(s.ID, "node/") && s.Consent == "":
			s.Consent = nodes.ConsentReplace
		}
		if last := s.ID == nodes.NodeID(r.Machine); first || last {
			s.Run = c.onRung(r, last, s.Run)
		}
		first = false
	}
}
