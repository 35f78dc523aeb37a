package cluster

import (
	"context"

	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// drainedView is what is known of a machine whose node was drained just before.
const drainedView = etcd.Drained

func resetID(name string) string { return "reset/" + name }

// resetStep cleans a machine that outlives the cluster.
func (c *Cluster) resetStep(m provider.Machine) *plan.Step {
	return &plan.Step{
		ID: resetID(m.Name), Action: plan.Destroy, Subject: m.Name, Title: "clean " + m.Name,
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

// The stages of a destruction.
const (
	stageClean  plan.Stage = "clean"  // machines that stay are cleaned
	stageFree   plan.Stage = "free"   // the cluster gives back to its cloud what it took
	stageRemove plan.Stage = "remove" // the provider's steps
)

var destroyRules = []plan.Rule{
	{Stage: stageClean}, {Stage: stageFree},
	{Stage: stageRemove, Waits: []plan.Stage{stageClean, stageFree}}, {Stage: stageForget, Waits: []plan.Stage{stageRemove}},
}

// PlanDestroy removes everything of the cluster and, last, forgets it.
func (c *Cluster) PlanDestroy(ctx context.Context, opts DestroyOptions) (*plan.Plan, error) {
	inv, err := c.prov.Observe(ctx)
	if err != nil {
		return nil, err
	}
	want, _ := wanted.Assign(c.doc, inv.Machines, c.decided())
	c.setTarget(want)
	var graph plan.Graph
	if c.prov.Traits().Keeps {
		c.planClean(&graph, inv.Machines)
	}
	g := c.planFree(ctx, &graph, opts)
	steps, err := c.planLeftovers(ctx, c.prov.Destroy(ctx, inv), inv.Machines, g, opts)
	if err != nil {
		return nil, err
	}
	machines := map[string]bool{}
	for _, m := range inv.Machines {
		machines[provider.DestroyStep(m.Name)] = true
	}
	for _, s := range steps {
		s.Removes = s.Removes || machines[s.ID]
		graph.Add(stageRemove, s)
	}
	graph.Add(stageForget, &plan.Step{
		ID: "forget", Action: plan.Destroy, Subject: "cluster", Title: "forget the cluster and its keys", Reason: "nothing of it is left",
		Run: func(ctx context.Context, _ plan.Progress) error { return opts.Forget(ctx) },
	})
	steps, err = graph.Seal(destroyRules)
	return &plan.Plan{Verb: "destroy", Cluster: c.Name(), Steps: steps, Final: true}, err
}

// planClean cleans machines that outlive the cluster: gateways last, for the others are reached through them.
func (c *Cluster) planClean(graph *plan.Graph, machines []provider.Machine) {
	var others []string
	for _, m := range machines {
		if m.Role != provider.Gateway {
			others = append(others, resetID(m.Name))
		}
	}
	for _, m := range machines {
		var needs []plan.Need
		if m.Role == provider.Gateway {
			needs = plan.After(others...)
		}
		s := c.resetStep(m)
		s.Removes = true
		graph.Add(stageClean, s, needs...)
	}
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
