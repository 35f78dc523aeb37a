package cluster

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
)

// joins reports whether a wanted control-plane machine has yet to become a voting member of the existing etcd cluster.
func (c *Cluster) joins(o *observe.Observed, s wanted.Slot) bool {
	if !c.Facts.Bootstrapped() || o.EtcdErr != nil {
		return false
	}
	m, ok := o.Member(s.Name)
	return !ok || m.Learner || !m.Started || c.lost(o, s.Name)
}

// lost reports whether a member's machine, and its data with it, does not exist any more.
func (c *Cluster) lost(o *observe.Observed, name string) bool {
	s := o.Machines[name]
	return s == nil || s.Machine.State == provider.Partial || observe.RemovedFrom(o, name)
}

// planJoins brings new control-plane machines in, one after another.
func (a *applying) planJoins() {
	var previous []plan.Need
	for _, s := range a.o.Want {
		if s.IsControlPlane() && a.joins(a.o, s) && a.o.Replaced[s.Name] == nil {
			previous = a.chain(stageJoin, a.joining(s), previous...)
		}
	}
}

// joining lists the steps that make a machine a member of the control plane: learner, configuration, vote.
func (a *applying) joining(s wanted.Slot) []*plan.Step {
	return []*plan.Step{
		a.addMemberStep(s), a.ConfigureStep(s, plan.Create, "it joins the control plane", observe.Details(a.o.Machines[s.Name])), a.promoteStep(s.Name),
	}
}

// planStale removes members whose machine is gone, one after another, so that they no longer count against the quorum. It returns their IDs.
func (a *applying) planStale() []string {
	var stale []*plan.Step
	for _, m := range a.o.Members {
		if m.Name == "" || a.o.Machines[m.Name] != nil && !a.lost(a.o, m.Name) {
			continue
		}
		if a.o.Machines[m.Name] == nil && !a.ours(a.o, m.Name) {
			continue // somebody joined a control plane of their own with kubeadm
		}
		if observe.RemovedFrom(a.o, m.Name) || a.o.Replaced[m.Name] != nil {
			continue // its node is drained first
		}
		stale = append(stale, a.removeMemberStep(m.Name, "its machine is gone", etcd.Gone))
	}
	a.chain(stageRepair, stale)
	return ids(stale)
}

// ours reports whether a node or member of this name is one that Naupegos made: it is wanted, it was an initial member or
// joined through Naupegos, or its node carries our marks.
func (c *Cluster) ours(o *observe.Observed, name string) bool {
	for _, s := range o.Want {
		if s.Name == name {
			return true
		}
	}
	_, initial := c.InitialMembers()[name]
	return initial || c.Facts.Of(memory.EtcdJoin, name) != "" || o.Nodes[name].Annotations[kube.OwnedLabels] != ""
}

// addMemberStep adds the machine's member as a learner and remembers with which initial cluster it starts.
func (c *Cluster) addMemberStep(s wanted.Slot) *plan.Step {
	return &plan.Step{
		ID: "etcd/add/" + s.Name, Action: plan.Create, Subject: s.Name, Title: "add " + s.Name + " to etcd as a learner",
		Reason: "a learner can't disturb the quorum while it catches up",
		Run: func(ctx context.Context, p plan.Progress) error {
			addr, err := c.Address(ctx, s.Name)
			if err != nil {
				return err
			}
			return c.WithEtcd(ctx, func(e *etcd.Client) error {
				m, err := e.AddLearner(ctx, s.Name, connect.PeerURL(addr))
				if err != nil {
					return err
				}
				if m.Started && c.Facts.Of(memory.EtcdJoin, s.Name) != "" {
					return nil
				}
				members, err := e.Members(ctx)
				if err != nil {
					return err
				}
				return c.Facts.SetOf(ctx, memory.EtcdJoin, s.Name, etcd.InitialCluster(members, etcd.Endpoint{Name: s.Name, URL: connect.PeerURL(addr)}))
			})
		},
	}
}

// promoteStep gives the machine's member its vote once it has caught up.
func (c *Cluster) promoteStep(name string) *plan.Step {
	return &plan.Step{
		ID: "etcd/promote/" + name, Action: plan.Change, Subject: name, Title: "promote " + name + " to a voting etcd member",
		Reason: "it has caught up",
		Run: func(ctx context.Context, p plan.Progress) error {
			p.Status("waiting until the learner has caught up")
			return c.WithEtcd(ctx, func(e *etcd.Client) error {
				members, err := e.Members(ctx)
				if err != nil {
					return err
				}
				for _, m := range members {
					if m.Name == name {
						if err := e.Promote(ctx, m.ID); err != nil {
							return err
						}
						return c.WaitServer(ctx, name)
					}
				}
				return fail.New(fail.NotReady, "the etcd member of %s has not started yet", name)
			})
		},
	}
}

// removeMemberStep removes the machine's member; seen is what is known of the machine by then.
func (c *Cluster) removeMemberStep(name, reason string, seen etcd.MachineView) *plan.Step {
	return &plan.Step{
		ID: "etcd/remove/" + name, Action: plan.Destroy, Subject: name, Title: "remove " + name + " from etcd", Reason: reason,
		Run: func(ctx context.Context, _ plan.Progress) error {
			err := c.WithEtcd(ctx, func(e *etcd.Client) error {
				members, err := e.Members(ctx)
				if err != nil {
					return err
				}
				for _, m := range members {
					if m.Name == name {
						return e.Remove(ctx, m.ID, seen)
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			return c.Facts.SetOf(ctx, memory.EtcdJoin, name, "")
		},
	}
}

func stoppable(members []etcd.Member, health []etcd.Health, name string) error {
	i := slices.IndexFunc(members, func(m etcd.Member) bool { return m.Name == name })
	if i < 0 || etcd.Now(members, health).Voters == 1 {
		return nil
	}
	if _, err := etcd.Project(members, health, etcd.Change{Action: etcd.Stop, ID: members[i].ID}); err != nil {
		return fail.Wrap(fail.NotReady, err, "restart %s", name).At(name).
			Do("bring the other control-plane machines back, or replace them: naupegos status shows which don't answer; then apply continues")
	}
	return nil
}

// handOver has another voter lead before a member stops, while the API servers are paused: asked to stop, it would do so by itself, and drop what
// they write meanwhile.
func handOver(ctx context.Context, e *etcd.Client, members []etcd.Member, name string) error {
	i := slices.IndexFunc(members, func(m etcd.Member) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return e.MoveLeader(ctx, members[i].ID)
}

// registrationPause is how long a kubelet may take to register before it is restarted: it doubles its pauses between attempts
// up to seven seconds, so one that began long before its API server is sooner there when it begins again.
const registrationPause = 1500 * time.Millisecond

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
