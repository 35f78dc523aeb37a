package nodes

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// Joins reports whether a wanted control-plane machine has yet to become a voting member of the existing etcd cluster.
func (c *Nodes) Joins(o *observe.Observed, s wanted.Slot) bool {
	if !c.Facts.Bootstrapped() || o.EtcdErr != nil {
		return false
	}
	m, ok := o.Member(s.Name)
	return !ok || m.Learner || !m.Started || c.Lost(o, s.Name)
}

// Lost reports whether a member's machine, and its data with it, does not exist any more.
func (c *Nodes) Lost(o *observe.Observed, name string) bool {
	s := o.Machines[name]
	return s == nil || s.Machine.State == provider.Partial || observe.RemovedFrom(o, name)
}

// Ours reports whether a node or member of this name is one that Naupegos made: it is wanted, it was an initial member or
// joined through Naupegos, or its node carries our marks.
func (c *Nodes) Ours(o *observe.Observed, name string) bool {
	for _, s := range o.Want {
		if s.Name == name {
			return true
		}
	}
	_, initial := c.InitialMembers()[name]
	return initial || c.Facts.Of(memory.EtcdJoin, name) != "" || o.Nodes[name].Annotations[kube.OwnedLabels] != ""
}

// AddMemberStep adds the machine's member as a learner and remembers with which initial cluster it starts.
func (c *Nodes) AddMemberStep(s wanted.Slot) *plan.Step {
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

// PromoteStep gives the machine's member its vote once it has caught up.
func (c *Nodes) PromoteStep(name string) *plan.Step {
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

// RemoveMemberStep removes the machine's member from etcd; seen is the view of the machine at that time.
func (c *Nodes) RemoveMemberStep(name, reason string, seen etcd.MachineView) *plan.Step {
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

// Stoppable returns fail.NotReady while etcd would lose its quorum without a machine's member.
func Stoppable(members []etcd.Member, health []etcd.Health, name string) error {
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

// handOver makes another voter the leader before a member stops, while the API servers are paused. On its own, a stopping member would hand over
// as well, but drop their writes.
func handOver(ctx context.Context, e *etcd.Client, members []etcd.Member, name string) error {
	i := slices.IndexFunc(members, func(m etcd.Member) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return e.MoveLeader(ctx, members[i].ID)
}

// EtcdProjection describes how many voters work and how many more may fail.
func EtcdProjection(o *observe.Observed) string { return etcd.Now(o.Members, o.Health).String() }

// QuorumWithout projects etcd without some machines. It returns an error if etcd then lacks a quorum, or if that is unknown.
func QuorumWithout(o *observe.Observed, machines []string) (etcd.Projection, error) {
	if o.EtcdErr != nil {
		return etcd.Projection{}, fail.Wrap(fail.Refused, o.EtcdErr, "it can't be foreseen whether etcd keeps its quorum")
	}
	health := slices.Clone(o.Health)
	after := etcd.Now(o.Members, health)
	for _, name := range machines {
		m, ok := o.Member(name)
		if !ok {
			continue
		}
		var err error
		if after, err = etcd.Project(o.Members, health, etcd.Change{Action: etcd.Stop, ID: m.ID}); err != nil {
			return after, err
		}
		health = slices.DeleteFunc(health, func(h etcd.Health) bool { return h.ID == m.ID }) // only members known to be healthy count
	}
	return after, nil
}
