package cluster

import (
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// planRepairs puts right what is broken, and replaces control-plane machines one after another, when the other ones are well.
func (a *applying) planRepairs() error {
	for _, s := range a.o.Want {
		if old := a.o.Replaced[s.Name]; old != nil {
			if err := a.checkReplace(a.o, old.Machine); err != nil {
				return err
			}
		}
	}
	well := a.planStale()
	a.planOrphans()
	for _, s := range a.o.Want {
		if s.IsControlPlane() && a.o.mute(s.Name) && a.o.Replaced[s.Name] == nil {
			well = append(well, healthID(s.Name))
		}
	}
	var previous []plan.Need
	for _, s := range a.o.Want {
		if !s.IsControlPlane() || a.o.Replaced[s.Name] == nil {
			continue
		}
		if previous == nil {
			a.add(stagePrepare, a.snapshotStep())
			previous = plan.IfPlanned(well...)
		}
		unit := append(append(a.replacement(s), a.joining(s)...), a.nodeStep(s, false))
		previous = a.chain(stageRepair, unit, previous...)
	}
	return nil
}

// replacement lists the steps that take a machine out and put another one in its place; none where that was not decided.
func (a *applying) replacement(s wanted.Slot) []*plan.Step {
	old := a.o.Replaced[s.Name]
	if old == nil {
		return nil
	}
	unit := a.retire(a.o, old.Machine, "it is replaced")
	if made := a.made[s.Name]; made != nil { // else the machine outlives its replacement
		other := *made
		other.Action, other.Reason = plan.Replace, "it takes the place of the old one"
		unit = append(unit, &other)
	}
	return unit
}

// checkReplace foresees etcd while a machine is replaced, before anything is begun.
func (c *Cluster) checkReplace(o *Observed, m provider.Machine) error {
	member, ok := o.member(m.Name)
	if !ok || m.Role != provider.ControlPlane {
		return nil
	}
	if len(o.Members) == 1 {
		return fail.New(fail.Refused, "replace %s: it is the only control-plane machine, and the cluster's data is on it", m.Name).
			Do("set spec.controlPlane.replicas to 3 and apply, then replace it")
	}
	_, err := etcd.CheckReplace(o.Members, o.Health, member.ID, c.viewOf(o, m), true)
	return err
}

// viewOf is what is known of a machine whose member is about to be removed.
func (c *Cluster) viewOf(o *Observed, m provider.Machine) etcd.MachineView {
	if o.running(m.Name) {
		return drainedView
	}
	return etcd.Gone
}
