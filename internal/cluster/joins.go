package cluster

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/naupegos/naupegos/internal/cluster/stage"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
)

// planJoins brings new control-plane machines in, one after another.
func (a *applying) planJoins() {
	var previous []plan.Need
	for _, s := range a.o.Want {
		if s.IsControlPlane() && a.Joins(a.o, s) && a.o.Replaced[s.Name] == nil {
			previous = a.chain(stage.Join, a.joining(s), previous...)
		}
	}
}

// joining lists the steps that make a machine a member of the control plane: learner, configuration, vote.
func (a *applying) joining(s wanted.Slot) []*plan.Step {
	return []*plan.Step{
		a.AddMemberStep(s), a.ConfigureStep(s, plan.Create, "it joins the control plane", a.o.Machines[s.Name]), a.PromoteStep(s.Name),
	}
}

// planStale removes the members whose machines no longer exist, one after another, so that they no longer count for the quorum. It returns their
// IDs.
func (a *applying) planStale() []string {
	var stale []*plan.Step
	for _, m := range a.o.Members {
		if m.Name == "" || a.o.Machines[m.Name] != nil && !a.Lost(a.o, m.Name) {
			continue
		}
		if a.o.Machines[m.Name] == nil && !a.Ours(a.o, m.Name) {
			continue // a user joined another control-plane node with kubeadm
		}
		if observe.RemovedFrom(a.o, m.Name) || a.o.Replaced[m.Name] != nil {
			continue // its node is drained first
		}
		stale = append(stale, a.RemoveMemberStep(m.Name, "its machine is gone", etcd.Gone))
	}
	a.chain(stage.Repair, stale)
	return nodes.IDs(stale)
}

// SizeOf returns the wanted number of machines in a pool of a record's cluster; for scaling pools, the document does not contain it.
func SizeOf(rec *store.Cluster, p v1alpha1.Pool) int {
	return scaling.SizeOf(memory.NewFacts(rec, nil), p)
}

// PlanScale plans only that a pool gets another size, with these machines leaving if there are too many, and earlier changes of sizes. It runs unattended: it
// returns fail.Refused if apply would do more, whatever the pool's size.
func (c *Cluster) PlanScale(ctx context.Context, pool string, size int, gone ...string) (*Applied, error) {
	if !c.Facts.Bootstrapped() {
		return nil, env.ErrNotBootstrapped(c.Name())
	}
	decided := c.Decided()
	before, err := c.planFormer(ctx, decided)
	if err != nil {
		return nil, err
	}
	if err := c.Resize(ctx, pool, size); err != nil {
		return nil, err
	}
	for _, m := range gone {
		decided[m] = wanted.Remove
	}
	after, err := c.planApply(ctx, "autoscale", decided)
	switch {
	case err != nil:
		return nil, err
	case after.Unready == nil && c.ControlPlaneUnseen(after.Observed):
		return nil, fail.Wrap(fail.NotReady, cmp.Or(after.Observed.APIErr, after.Observed.EtcdErr), "cluster %s can't be seen as a whole", c.Name()).
			Do("naupegos apply repairs it")
	}
	if err := c.nothingElse(after, "pools that scale", c.ofPools(before, after)); err != nil {
		return nil, err
	}
	return after, nil
}

// planFormer plans for the pool sizes before changes that are not complete yet, without removing machines: the configuration of other machines
// may still be of that time.
func (c *Cluster) planFormer(ctx context.Context, decided wanted.Decisions) (*Applied, error) {
	former := maps.Clone(decided)
	for name := range decided {
		if g, err := wanted.GroupOf(c.Doc, name); err == nil && decided[name] != wanted.Surge && scaling.Find(c.Doc, g.Pool) != nil {
			delete(former, name)
		}
	}
	now := slices.Clone(c.Doc.Spec.Workers)
	defer func() { c.Doc.Spec.Workers = now }()
	c.Doc.Spec.Workers = scaling.Former(c.Facts, now)
	return c.planApply(ctx, "apply", former)
}

// ofPools are the steps that are about machines of pools that scale, or come of their sizes alone.
func (c *Cluster) ofPools(before, after *Applied) func(*plan.Step) bool {
	ours := map[string]bool{}
	for _, ap := range []*Applied{before, after} {
		for _, s := range ap.Observed.Want {
			ours[s.Name] = ours[s.Name] || s.Role == provider.Worker && scaling.Find(c.Doc, s.Pool) != nil
		}
		for _, m := range ap.Observed.Remove {
			ours[m.Name] = ours[m.Name] || m.Role == provider.Worker && scaling.Find(c.Doc, m.Pool) != nil
		}
	}
	return func(s *plan.Step) bool {
		return ours[s.Subject] || !slices.ContainsFunc(before.Plan.Steps, func(b *plan.Step) bool { return b.ID == s.ID })
	}
}
