package cluster

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"time"

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
	"github.com/naupegos/naupegos/internal/pki"
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
		a.AddMemberStep(s), a.ConfigureStep(s, plan.Create, "it joins the control plane", observe.Details(a.o.Machines[s.Name])), a.PromoteStep(s.Name),
	}
}

// planStale removes members whose machine is gone, one after another, so that they no longer count against the quorum. It returns their IDs.
func (a *applying) planStale() []string {
	var stale []*plan.Step
	for _, m := range a.o.Members {
		if m.Name == "" || a.o.Machines[m.Name] != nil && !a.Lost(a.o, m.Name) {
			continue
		}
		if a.o.Machines[m.Name] == nil && !a.Ours(a.o, m.Name) {
			continue // somebody joined a control plane of their own with kubeadm
		}
		if observe.RemovedFrom(a.o, m.Name) || a.o.Replaced[m.Name] != nil {
			continue // its node is drained first
		}
		stale = append(stale, a.RemoveMemberStep(m.Name, "its machine is gone", etcd.Gone))
	}
	a.chain(stage.Repair, stale)
	return nodes.IDs(stale)
}

// Pools lists the pools that scale, with their machines as the provider has them.
func (c *Cluster) Pools(ctx context.Context) ([]scaling.Pool, error) {
	inv, err := c.Prov.Observe(ctx)
	if err != nil {
		return nil, err
	}
	want, gone := wanted.Assign(c.Doc, inv.Machines, c.Decided())
	have := map[string]provider.Machine{}
	for _, m := range inv.Machines {
		have[m.Name] = m
	}
	var pools []scaling.Pool
	for _, p := range c.Doc.Spec.Workers {
		if !p.Scales() {
			continue
		}
		out := scaling.Pool{Name: p.Name, Changes: scaling.Changes(c.Facts, p), Min: p.Least(), Max: p.MaxReplicas, Size: p.Count(), Shape: scaling.ShapeOf(c.Facts, p.Name)}
		if out.Shape != nil {
			out.Shape.Labels, out.Shape.Taints = c.Marks(wanted.Slot{Role: provider.Worker, Pool: p.Name}).Labels, p.Taints
		}
		for _, s := range want {
			if m, exists := have[s.Name]; s.Pool == p.Name {
				m.Name = s.Name
				out.Machines = append(out.Machines, scaling.Machine{Name: s.Name, ProviderID: c.ProviderID(m), Exists: exists, Runs: m.State == provider.Running})
			}
		}
		for _, m := range gone {
			if m.Pool == p.Name {
				out.Machines = append(out.Machines, scaling.Machine{Name: m.Name, ProviderID: c.ProviderID(m), Exists: true, Runs: m.State == provider.Running, Leaves: true})
			}
		}
		pools = append(pools, out)
	}
	return pools, nil
}

// AutoscalerName is the common name of an autoscaler's client certificate. To the Kubernetes API it is a user without rights.
const AutoscalerName = "naupegos:autoscaler"

// autoscaleValidity is how long certificates for autoscaling are valid.
const autoscaleValidity = 365 * 24 * time.Hour

// AutoscaleAuthorities returns the authorities that the cluster's autoscaler and its server come from.
func (c *Cluster) AutoscaleAuthorities(ctx context.Context) ([]byte, error) {
	return c.PKI.CABundle(ctx, pki.KubernetesCA)
}

// AutoscaleServer issues the certificate of a server for this cluster's autoscaler, which reaches it by these names and addresses, and returns
// the authorities that its clients come from.
func (c *Cluster) AutoscaleServer(ctx context.Context, reached []string) (pair pki.Pair, ca []byte, err error) {
	s := pki.LeafSpec{Name: "autoscale", Authority: pki.KubernetesCA, CommonName: "naupegos:autoscale", Server: true}
	for _, r := range reached {
		if ip := net.ParseIP(r); ip != nil {
			s.IPs = append(s.IPs, ip)
		} else {
			s.DNSNames = append(s.DNSNames, r)
		}
	}
	return c.autoscaleIdentity(ctx, s)
}

// AutoscaleClient issues the certificate of this cluster's autoscaler, and returns the authorities that its server comes from.
func (c *Cluster) AutoscaleClient(ctx context.Context) (pair pki.Pair, ca []byte, err error) {
	return c.autoscaleIdentity(ctx, pki.LeafSpec{Name: "autoscaler", Authority: pki.KubernetesCA, CommonName: AutoscalerName, Client: true})
}

func (c *Cluster) autoscaleIdentity(ctx context.Context, s pki.LeafSpec) (pair pki.Pair, ca []byte, err error) {
	if pair, err = c.PKI.Issue(ctx, s, autoscaleValidity); err != nil {
		return pair, nil, err
	}
	ca, err = c.AutoscaleAuthorities(ctx)
	return pair, ca, err
}

// rememberShapes remembers what the nodes of pools that scale have.
func (c *Cluster) rememberShapes(ctx context.Context, o *observe.Observed) error {
	for _, s := range o.Want {
		n := o.Nodes[s.Name]
		if s.Role != provider.Worker || scaling.Find(c.Doc, s.Pool) == nil || !n.Ready || len(n.Allocatable) == 0 {
			continue
		}
		if err := scaling.RememberShape(ctx, c.Facts, s.Pool, scaling.Shape{Capacity: n.Capacity, Allocatable: n.Allocatable}); err != nil {
			return err
		}
	}
	return nil
}

// SizeOf returns how many machines a pool of a record's cluster is to have, which of one that scales the document does not say.
func SizeOf(rec *store.Cluster, p v1alpha1.Pool) int {
	return scaling.SizeOf(memory.NewFacts(rec, nil), p)
}

// Resize has a pool that scales be of another size from the next plan on. fail.Refused where the document's bounds don't allow it.
func (c *Cluster) Resize(ctx context.Context, pool string, size int) error {
	return scaling.Resize(ctx, c.Facts, c.Doc, pool, size)
}

// PlanScale is the plan of apply where that has nothing to do but that a pool gets another size, with these machines going where there are
// too many, and what was asked before. It is for nobody who watches: where apply would do something whatever the pool's size is, it is fail.Refused.
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
			Do("naupegos apply brings what is down back")
	}
	if err := c.nothingElse(after, "pools that scale", c.ofPools(before, after)); err != nil {
		return nil, err
	}
	return after, nil
}

// planFormer plans for the sizes that pools had before changes that are not done yet, with none of their machines told to go: what other
// machines hold of a pool may still be of then.
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
