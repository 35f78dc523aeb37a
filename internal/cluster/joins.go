package cluster

import (
	"context"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// joins reports whether a wanted control-plane machine has yet to become a voting member of the existing etcd cluster.
func (c *Cluster) joins(o *Observed, s wanted.Slot) bool {
	if !c.facts.Bootstrapped() || o.EtcdErr != nil {
		return false
	}
	m, ok := o.member(s.Name)
	return !ok || m.Learner || !m.Started || c.lost(o, s.Name)
}

// lost reports whether a member's machine, and its data with it, does not exist any more.
func (c *Cluster) lost(o *Observed, name string) bool {
	s := o.Machines[name]
	return s == nil || s.Machine.State == provider.Partial || removedFrom(o, name)
}

func removedFrom(o *Observed, name string) bool {
	for _, m := range o.Remove {
		if m.Name == name {
			return true
		}
	}
	return false
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
		a.addMemberStep(s), a.configureStep(s, plan.Create, "it joins the control plane", details(a.o.Machines[s.Name])), a.promoteStep(s.Name),
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
		if removedFrom(a.o, m.Name) || a.o.Replaced[m.Name] != nil {
			continue // its node is drained first
		}
		stale = append(stale, a.removeMemberStep(m.Name, "its machine is gone", etcd.Gone))
	}
	a.chain(stageRepair, stale)
	return ids(stale)
}

// ours reports whether a node or member of this name is one that Naupegos made: it is wanted, it was an initial member or
// joined through Naupegos, or its node carries our marks.
func (c *Cluster) ours(o *Observed, name string) bool {
	for _, s := range o.Want {
		if s.Name == name {
			return true
		}
	}
	_, initial := c.initialMembers()[name]
	return initial || c.facts.Of(memory.EtcdJoin, name) != "" || o.Nodes[name].Annotations[kube.OwnedLabels] != ""
}

// addMemberStep adds the machine's member as a learner and remembers with which initial cluster it starts.
func (c *Cluster) addMemberStep(s wanted.Slot) *plan.Step {
	return &plan.Step{
		ID: "etcd/add/" + s.Name, Action: plan.Create, Subject: s.Name, Title: "add " + s.Name + " to etcd as a learner",
		Reason: "a learner can't disturb the quorum while it catches up",
		Run: func(ctx context.Context, p plan.Progress) error {
			addr, err := c.address(ctx, s.Name)
			if err != nil {
				return err
			}
			return c.withEtcd(ctx, func(e *etcd.Client) error {
				m, err := e.AddLearner(ctx, s.Name, peerURL(addr))
				if err != nil {
					return err
				}
				if m.Started && c.facts.Of(memory.EtcdJoin, s.Name) != "" {
					return nil
				}
				members, err := e.Members(ctx)
				if err != nil {
					return err
				}
				return c.facts.SetOf(ctx, memory.EtcdJoin, s.Name, etcd.InitialCluster(members, etcd.Endpoint{Name: s.Name, URL: peerURL(addr)}))
			})
		},
	}
}

// promoteStep gives the machine's member its vote once it has caught up.
func (c *Cluster) promoteStep(name string) *plan.Step {
	return &plan.Step{
		ID: "etcd/promote/" + name, Action: plan.Change, Subject: name, Title: "give " + name + " its vote in etcd",
		Reason: "it has caught up",
		Run: func(ctx context.Context, p plan.Progress) error {
			p.Status("waiting until the learner has caught up")
			return c.withEtcd(ctx, func(e *etcd.Client) error {
				members, err := e.Members(ctx)
				if err != nil {
					return err
				}
				for _, m := range members {
					if m.Name == name {
						if err := e.Promote(ctx, m.ID); err != nil {
							return err
						}
						return c.waitServer(ctx, name)
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
			err := c.withEtcd(ctx, func(e *etcd.Client) error {
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
			return c.facts.SetOf(ctx, memory.EtcdJoin, name, "")
		},
	}
}

// withEtcd calls do with a client of the members that run now.
func (c *Cluster) withEtcd(ctx context.Context, do func(*etcd.Client) error) error {
	inv, err := c.prov.Observe(ctx)
	if err != nil {
		return err
	}
	e, err := c.etcdClient(ctx, &Observed{Inventory: inv})
	if err != nil {
		return err
	}
	defer e.Close()
	return do(e)
}

// lookAnew is how long members are waited for before it is asked again which machines there are: others may join meanwhile.
const lookAnew = 15 * time.Second

// waitEtcd waits, for a while, until every member that has a vote is healthy.
func (c *Cluster) waitEtcd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookAnew)
	defer cancel()
	return c.withEtcd(ctx, func(e *etcd.Client) error { return e.WaitHealthy(ctx, 1) })
}

// waitServer waits until the API server on one machine is ready.
func (c *Cluster) waitServer(ctx context.Context, name string) error {
	client, err := c.kubeAt(ctx, name)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.WaitReady(ctx)
}

// registrationPause is how long a kubelet may take to register before it is restarted: it doubles its pauses between attempts
// up to seven seconds, so one that began long before its API server is sooner there when it begins again.
const registrationPause = 1500 * time.Millisecond
