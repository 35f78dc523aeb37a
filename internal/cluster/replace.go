package cluster

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// planReplacements takes machines out that others of the same name replace, and makes what brings those in wait for it.
// It returns the first step of each machine's chain.
func (c *Cluster) planReplacements(b *builder, o *Observed) ([]*plan.Step, error) {
	var firsts []*plan.Step
	for _, s := range o.Want {
		old := o.Replaced[s.Name]
		if old == nil {
			continue
		}
		if err := c.checkReplace(o, old.Machine); err != nil {
			return nil, err
		}
		chain := c.retire(o, old.Machine, "it is replaced")
		if s.isControlPlane() && !b.has(snapshotID) {
			b.add(c.snapshotStep())
		}
		if s.isControlPlane() {
			b.after(chain[0], snapshotID)
		}
		for i, st := range chain {
			if i > 0 {
				b.after(st, chain[i-1].ID)
			}
			b.add(st)
		}
		if made := b.ids[provider.MachineStep(s.Name)]; made != nil {
			made.Action, made.Reason = plan.Replace, "it takes the place of the old one"
			made.Run = c.remake(o.Want, s.Name)
			b.after(made, chain[len(chain)-1].ID)
		}
		firsts = append(firsts, chain[0])
	}
	return firsts, nil
}

// orderReplacements replaces one machine after another, control-plane machines when the other ones are settled, and lets a
// machine that outlives its replacement be configured when it is clean.
func orderReplacements(b *builder, firsts []*plan.Step) {
	replaced := map[string]bool{}
	for _, s := range firsts {
		replaced[s.Subject] = true
	}
	for i, s := range firsts {
		if st := b.ids["reset/"+s.Subject]; st != nil {
			for _, id := range []string{configureID(s.Subject), "etcd/add/" + s.Subject} {
				if later := b.ids[id]; later != nil {
					b.after(later, st.ID, "node/delete/"+s.Subject)
				}
			}
		}
		if i > 0 {
			before := firsts[i-1].Subject
			b.after(s, nodeID(before), configureID(before), provider.MachineStep(before), "health/"+before)
		}
		if s.Needs == nil || !slices.Contains(s.Needs, snapshotID) {
			continue
		}
		for _, other := range b.steps {
			if !replaced[other.Subject] && (other.ID == "etcd/remove/"+other.Subject || other.ID == "health/"+other.Subject) {
				b.after(s, other.ID)
			}
		}
	}
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

// remake makes a machine again where the provider knew another one when the plan was made: it is asked again.
func (c *Cluster) remake(slots []slot, name string) func(context.Context, plan.Progress) error {
	return func(ctx context.Context, p plan.Progress) error {
		want, err := c.wantedMachines(slots)
		if err != nil {
			return err
		}
		inv, err := c.prov.Observe(ctx)
		if err != nil {
			return err
		}
		steps, err := c.prov.Steps(want, inv)
		if err != nil {
			return err
		}
		return runWith(ctx, p, steps, provider.MachineStep(name))
	}
}

// runWith runs the step of an ID after those that it needs. It does nothing where there is no such step.
func runWith(ctx context.Context, p plan.Progress, steps []*plan.Step, id string) error {
	for _, s := range steps {
		if s.ID != id {
			continue
		}
		for _, need := range s.Needs {
			if err := runWith(ctx, p, steps, need); err != nil {
				return err
			}
		}
		return s.Run(ctx, p)
	}
	return nil
}
