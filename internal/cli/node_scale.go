package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

func newNodeAddCmd(a *App) *cobra.Command {
	n := &nodeChange{app: a, verb: "node add"}
	var pool string
	var controlPlane bool
	var count int
	c := &cobra.Command{
		Use:   "add NAME",
		Short: "Add machines to a pool of workers or to the control plane",
		Long: `Raise the number of machines that the document wants, and do what apply does. Without -f the stored document is changed;
with it that file, whose comments stay. The control plane has 1, 3 or 5 machines, so it grows by two.`,
		Example: `  naupegos node add demo
  naupegos node add demo --pool general --count 2 -f cluster.yaml
  naupegos node add demo --control-plane --count 2
  naupegos node add demo --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if controlPlane && pool != "" {
				return fail.New(fail.Invalid, "--pool and --control-plane exclude each other")
			}
			if count < 1 {
				return fail.New(fail.Invalid, "--count %d", count).Do("give a number from 1 on")
			}
			n.name = args[0]
			n.edit = func(doc *v1alpha1.Cluster, data []byte) ([]byte, error) {
				g, err := groupToGrow(doc, pool, controlPlane)
				if err != nil {
					return nil, err
				}
				return resize(doc, data, g, count)
			}
			n.plan = func(ctx context.Context, c *cluster.Cluster) (*cluster.Applied, error) { return c.PlanApply(ctx) }
			return n.carryOut(cmd.Context())
		},
	}
	c.Flags().StringVar(&pool, "pool", "", "the pool of workers (default: the only one)")
	c.Flags().BoolVar(&controlPlane, "control-plane", false, "add control-plane machines")
	c.Flags().IntVar(&count, "count", 1, "how many")
	n.bind(c)
	return c
}

func newNodeRemoveCmd(a *App) *cobra.Command {
	n := &nodeChange{app: a, verb: "node remove"}
	c := &cobra.Command{
		Use:     "remove NAME MACHINE...",
		Aliases: []string{"rm"},
		Short:   "Remove machines: drained, taken out of etcd and Kubernetes, destroyed",
		Long: `Lower the number of machines that the document wants by those named, and let exactly those go: their pods move elsewhere,
control-plane machines leave etcd (the quorum is foreseen before anything is begun), and the machines are destroyed. Without -f the
stored document is changed; with it that file, whose comments stay. The control plane has 1, 3 or 5 machines, so two go together.`,
		Example: "  naupegos node remove demo demo-general-2\n  naupegos node remove demo demo-general-2 --dry-run\n  naupegos node remove demo demo-cp-4 demo-cp-5 -f cluster.yaml",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n.name = args[0]
			machines := unique(args[1:])
			n.edit = func(doc *v1alpha1.Cluster, data []byte) ([]byte, error) { return shrink(doc, data, machines) }
			n.plan = func(ctx context.Context, c *cluster.Cluster) (*cluster.Applied, error) {
				return c.PlanRemove(ctx, machines...)
			}
			n.decide = func(ctx context.Context, c *cluster.Cluster) error { return c.Decide(ctx, wanted.Remove, machines...) }
			return n.carryOut(cmd.Context())
		},
	}
	n.bind(c)
	return c
}

func (n *nodeChange) bind(c *cobra.Command) {
	c.Flags().StringVarP(&n.file, "file", "f", "", "the Cluster document to change too (default: the stored one only)")
	n.bindRun(c)
}

// bindRun adds what all verbs have that change machines.
func (n *nodeChange) bindRun(c *cobra.Command) {
	n.run.bind(c)
	n.out.bind(c)
	c.Flags().BoolVar(&n.dry, "dry-run", false, "show the plan and change nothing, with the output and exit status of naupegos plan")
}

// groupToGrow finds the group that the flags name.
func groupToGrow(doc *v1alpha1.Cluster, pool string, controlPlane bool) (wanted.Group, error) {
	if controlPlane {
		return wanted.Group{Role: provider.ControlPlane, Replicas: doc.Spec.ControlPlane.Replicas}, nil
	}
	if pool == "" && len(doc.Spec.Workers) != 1 {
		return wanted.Group{}, fail.New(fail.Invalid, "cluster %s has %d pools of workers", doc.Metadata.Name, len(doc.Spec.Workers)).
			Do("name one with --pool: %s", poolNames(doc))
	}
	for _, w := range doc.Spec.Workers {
		if pool == "" || w.Name == pool {
			return wanted.Group{Role: provider.Worker, Pool: w.Name, Replicas: w.Count()}, nil
		}
	}
	return wanted.Group{}, fail.New(fail.NotFound, "cluster %s has no pool %s", doc.Metadata.Name, pool).Do("it has %s", poolNames(doc))
}

// shrink lowers the numbers of the groups that machines belong to.
func shrink(doc *v1alpha1.Cluster, data []byte, machines []string) ([]byte, error) {
	less := map[wanted.Group]int{}
	var order []wanted.Group
	for _, m := range machines {
		g, err := wanted.GroupOf(doc, m)
		if err != nil {
			return nil, err
		}
		if less[g] == 0 {
			order = append(order, g)
		}
		less[g]++
	}
	for _, g := range order {
		var err error
		if data, err = resize(doc, data, g, -less[g]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// resize changes the number of machines of one group in the document.
func resize(doc *v1alpha1.Cluster, data []byte, g wanted.Group, by int) ([]byte, error) {
	n := g.Replicas + by
	switch {
	case doc.Spec.Provider.Hosts != nil:
		return nil, fail.New(fail.Refused, "the document itself names the machines of %s", g).
			Do("edit spec.provider.hosts.machines and apply")
	case g.Role == provider.Gateway:
		return nil, fail.New(fail.Refused, "gateways come in pairs").Do("edit spec.endpoint.gateways.replicas and apply, or use naupegos node replace")
	case g.Role == provider.ControlPlane && n != 1 && n != 3 && n != 5:
		return nil, fail.New(fail.Refused, "%d control-plane machines %s %d make %d, and etcd needs an odd number: 1, 3 or 5", g.Replicas, moreOrLess(by), max(by, -by), n).
			Do("%s", oddHint(g, by))
	case n < 0:
		return nil, fail.New(fail.Refused, "%s has %d machines, %d are to go", g, g.Replicas, -by)
	}
	return wanted.SetReplicas(data, g.Role, g.Pool, n)
}

func moreOrLess(by int) string {
	if by < 0 {
		return "less"
	}
	return "and"
}

func oddHint(g wanted.Group, by int) string {
	if by > 0 {
		return "add two at a time, up to five: --count 2"
	}
	if g.Replicas == 1 {
		return "a cluster without a control plane is none: naupegos destroy"
	}
	return "remove two together, or put another machine in its place with naupegos node replace"
}

func unique(names []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, n := range names {
		if !seen[n] {
			out = append(out, n)
		}
		seen[n] = true
	}
	return out
}
