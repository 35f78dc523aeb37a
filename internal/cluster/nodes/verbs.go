package nodes

import (
	"context"
	"fmt"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// oneByOne is a plan of steps that follow each other.
func (c *Nodes) oneByOne(verb string, steps []*plan.Step) *plan.Plan {
	for i, s := range steps {
		if i > 0 {
			s.Needs = append(s.Needs, steps[i-1].ID)
		}
	}
	return &plan.Plan{Verb: verb, Cluster: c.Name(), Steps: steps}
}

// checkNodes refuses work on nodes of a cluster that never came up, whose API does not answer, or that lacks the nodes. A step would wait for the
// API until its timeout.
func (c *Nodes) checkNodes(ctx context.Context, verb string, nodes []string) error {
	for _, name := range nodes {
		if wanted.RoleOf(c.Doc, name) == provider.Gateway {
			return fail.New(fail.Invalid, "%s: a gateway is no node: no pod runs on it", verb).At(name).
				Do("naupegos machine stop or reboot works on gateways; another gateway takes over the address meanwhile")
		}
	}
	if !c.Facts.Bootstrapped() {
		return env.ErrNotBootstrapped(c.Name())
	}
	ctx, cancel := context.WithTimeout(ctx, env.ObserveTime(c.Doc))
	defer cancel()
	for _, name := range nodes {
		client, err := c.Kube(ctx)
		if err == nil {
			_, err = client.Node(ctx, name)
		}
		switch kind := fail.KindOf(err); {
		case err == nil:
		case kind == fail.NotFound:
			return fail.Wrap(kind, err, "cluster %s has no node %s", c.Name(), name).Do("%s", c.nodesThere(ctx, client, name))
		case kind == fail.Unreachable, kind == fail.NotReady:
			return fail.Wrap(kind, err, "%s: the API of cluster %s does not answer", verb, c.Name()).
				Do("naupegos status %s shows the reason, and naupegos apply repairs it", c.Name())
		default:
			return err
		}
	}
	return nil
}

// nodesThere lists the nodes of the cluster, for an error about an unknown one.
func (c *Nodes) nodesThere(ctx context.Context, client *kube.Client, name string) string {
	all, err := client.Nodes(ctx)
	if err != nil || len(all) == 0 {
		return fmt.Sprintf("naupegos node list %s shows them", c.Name())
	}
	var names []string
	for _, n := range all {
		names = append(names, n.Name)
	}
	return env.Among(name, names)
}

// PlanCordon keeps new pods away from nodes, or lets them in again.
func (c *Nodes) PlanCordon(ctx context.Context, verb string, nodes []string, on bool) (*plan.Plan, error) {
	if err := c.checkNodes(ctx, verb, nodes); err != nil {
		return nil, err
	}
	var steps []*plan.Step
	for _, name := range nodes {
		s := c.UncordonStep(name, "as requested")
		if on {
			s.ID, s.Title = "cordon/"+name, "cordon node "+name
			s.Run = c.onNode(name, (*kube.Client).Cordon)
		}
		steps = append(steps, s)
	}
	return c.oneByOne(verb, steps), nil
}

// UncordonStep lets new pods onto a node.
func (c *Nodes) UncordonStep(name, reason string) *plan.Step {
	return &plan.Step{
		ID: "uncordon/" + name, Action: plan.Change, Subject: name, Title: "uncordon node " + name, Reason: reason,
		Run: c.onNode(name, (*kube.Client).Uncordon),
	}
}

// onNode is a step that does something with a node.
func (c *Nodes) onNode(name string, do func(*kube.Client, context.Context, string) error) func(context.Context, plan.Progress) error {
	return func(ctx context.Context, _ plan.Progress) error {
		client, err := c.Kube(ctx)
		if err != nil {
			return err
		}
		return do(client, ctx, name)
	}
}

// PlanDrain moves the pods of nodes elsewhere, one node after another, with respect to disruption budgets; the nodes stay cordoned.
func (c *Nodes) PlanDrain(ctx context.Context, verb string, nodes []string, o kube.DrainOptions) (*plan.Plan, error) {
	if err := c.checkNodes(ctx, verb, nodes); err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = c.Doc.Spec.Timeouts.Drain.Duration
	}
	var steps []*plan.Step
	for _, name := range nodes {
		steps = append(steps, &plan.Step{
			ID: drainPrefix + name, Action: plan.Change, Subject: name, Rolling: true, Title: "drain node " + name, Reason: "as requested",
			Timeout: o.Timeout + env.ObserveTime(c.Doc),
			Run: func(ctx context.Context, p plan.Progress) error {
				client, err := c.Kube(ctx)
				if err != nil {
					return err
				}
				if _, err := client.Node(ctx, name); err != nil { // draining a node that does not exist would succeed
					return err
				}
				return drainOnce(ctx, client, name, o, p)
			},
		})
	}
	p := c.oneByOne(verb, steps)
	c.WarnOfBudgets(ctx, p, nil)
	return p, nil
}
