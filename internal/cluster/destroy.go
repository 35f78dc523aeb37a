package cluster

import (
	"context"

	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// drainedView is what is known of a machine whose node was drained just before.
const drainedView = etcd.Drained

// resetStep cleans a machine that outlives the cluster.
func (c *Cluster) resetStep(m provider.Machine) *plan.Step {
	return &plan.Step{
		ID: "reset/" + m.Name, Action: plan.Destroy, Subject: m.Name, Title: "clean " + m.Name,
		Reason: "the machine stays, what Naupegos put on it goes",
		Run: func(ctx context.Context, _ plan.Progress) error {
			h, err := c.Host(ctx, m.Name)
			if err != nil {
				return err
			}
			_, err = c.dialer.Agent(ctx, h, nil, "reset")
			return err
		},
	}
}

// DestroyOptions says how a cluster is destroyed.
type DestroyOptions struct {
	KeepVolumes bool                        // leave the volumes of PersistentVolumeClaims in the cloud
	Forget      func(context.Context) error // runs last, when nothing of the cluster is left
}

// PlanDestroy removes everything of the cluster and, last, forgets it.
func (c *Cluster) PlanDestroy(ctx context.Context, opts DestroyOptions) (*plan.Plan, error) {
	inv, err := c.prov.Observe(ctx)
	if err != nil {
		return nil, err
	}
	want, _ := assign(c.doc, inv.Machines, c.decided())
	c.settleOn(want)
	b := newBuilder()
	if k, ok := c.prov.(provider.Keeper); ok && k.KeepsMachines() {
		for _, m := range inv.Machines {
			s := c.resetStep(m)
			if m.Role == provider.Gateway {
				// the others are reached through it
				for _, other := range inv.Machines {
					if other.Role != provider.Gateway {
						s.Needs = append(s.Needs, "reset/"+other.Name)
					}
				}
			}
			b.add(s)
		}
	}
	g := c.planFree(ctx, b, opts)
	before := append(b.with("reset/"), b.with("cloud/")...)
	steps, err := c.planLeftovers(ctx, c.prov.Destroy(inv), inv.Machines, g, opts)
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		s.Needs = append(s.Needs, before...)
	}
	b.add(steps...)
	last := &plan.Step{
		ID: "forget", Action: plan.Destroy, Subject: "cluster", Title: "forget the cluster and its keys", Reason: "nothing of it is left",
		Run: func(ctx context.Context, _ plan.Progress) error { return opts.Forget(ctx) },
	}
	for _, s := range b.steps {
		last.Needs = append(last.Needs, s.ID)
	}
	b.add(last)
	for _, m := range inv.Machines {
		for _, id := range []string{"reset/" + m.Name, provider.DestroyStep(m.Name)} {
			if s := b.ids[id]; s != nil {
				s.Removes = true
			}
		}
	}
	p := &plan.Plan{Verb: "destroy", Cluster: c.Name(), Steps: b.steps, Final: true}
	return p, p.Check()
}

// errNoSuchMachine names the machines that there are.
func errNoSuchMachine(name, cluster string, known []string) error {
	err := fail.New(fail.NotFound, "cluster %s has no machine %s", cluster, name)
	if len(known) == 0 {
		return err.Do("it has no machines yet; naupegos apply creates them")
	}
	return err.Do("it has %s", join(known))
}

// etcdProjection says how many voters work and how many more may fail.
func etcdProjection(o *Observed) string { return etcd.Now(o.Members, o.Health).String() }
