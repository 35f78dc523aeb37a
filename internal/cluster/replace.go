package cluster

import (
	"cmp"
	"context"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// PlanRemove plans for a document whose groups are smaller by these machines: exactly these are removed, whatever their index.
func (c *Cluster) PlanRemove(ctx context.Context, machines ...string) (*Applied, error) {
	return c.planDecision(ctx, "remove", wanted.Remove, machines)
}

// PlanReplace plans to replace each machine by another one of the same name: the old machine is drained if it answers, removed from etcd and
// Kubernetes, and destroyed before the new one is created.
func (c *Cluster) PlanReplace(ctx context.Context, machines ...string) (*Applied, error) {
	return c.planDecision(ctx, "replace", wanted.Replace, machines)
}

func (c *Cluster) planDecision(ctx context.Context, verb string, decision wanted.Decision, machines []string) (*Applied, error) {
	if !c.Facts.Bootstrapped() {
		return nil, env.ErrNotBootstrapped(c.Name())
	}
	inv, err := c.Prov.Observe(ctx)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	var names []string
	for _, m := range inv.Machines {
		have[m.Name] = true
		names = append(names, m.Name)
	}
	decided := c.Decided()
	for _, m := range machines {
		if !have[m] {
			return nil, env.ErrNoSuchMachine(m, c.Name(), names)
		}
		decided[m] = decision
	}
	ap, err := c.planApply(ctx, verb, decided)
	if err != nil {
		return nil, err
	}
	if c.ControlPlaneUnseen(ap.Observed) {
		return nil, fail.Wrap(fail.NotReady, cmp.Or(ap.Observed.EtcdErr, ap.Observed.APIErr),
			"%s %s: it can't be foreseen whether the others carry on", verb, strings.Join(machines, ",")).
			Do("naupegos apply repairs it; see naupegos status %s", c.Name())
	}
	return ap, nil
}

// planRepairs repairs the control plane, and replaces control-plane machines one after another while the others are healthy.
func (a *applying) planRepairs() error {
	for _, s := range a.o.Want {
		if old := a.o.Replaced[s.Name]; old != nil {
			if err := a.CheckLeaves(a.o, old.Machine, "replace"); err != nil {
				return err
			}
		}
	}
	well := a.planStale()
	a.planOrphans()
	for _, s := range a.o.Want {
		if s.IsControlPlane() && a.o.Mute(s.Name) && a.o.Replaced[s.Name] == nil {
			well = append(well, nodes.HealthID(s.Name))
		}
	}
	var previous []plan.Need
	for _, s := range a.o.Want {
		if !s.IsControlPlane() || a.o.Replaced[s.Name] == nil {
			continue
		}
		if previous == nil {
			a.add(stage.Prepare, a.BackupStep("a control-plane machine is replaced", nil))
			previous = plan.IfPlanned(well...)
		}
		unit := append(append(a.replacement(s), a.joining(s)...), a.NodeStep(s, false))
		previous = a.chain(stage.Repair, unit, previous...)
	}
	return nil
}

// replacement returns the steps that replace a machine; none if there is no such decision.
func (a *applying) replacement(s wanted.Slot) []*plan.Step {
	old := a.o.Replaced[s.Name]
	if old == nil {
		return nil
	}
	unit := a.Retire(a.o, old.Machine, "it is replaced")
	if made := a.made[s.Name]; made != nil { // else the machine outlives its replacement
		other := *made
		other.Action, other.Reason = plan.Replace, "it replaces the old machine"
		unit = append(unit, &other)
	}
	return unit
}

// Consents lists the names of all consents that plans ask for.
func Consents() []string {
	return []string{provider.ConsentAddresses, nodes.ConsentLeave, ConsentLost, staged.ConsentObstacles, env.ConsentBundle, nodes.ConsentReplace, addons.ConsentVolumes, addons.ConsentDefinitions}
}
