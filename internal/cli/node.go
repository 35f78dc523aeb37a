package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
)

func newNodeCmd(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:   "node",
		Short: "List, add, remove, replace, cordon and drain a cluster's nodes",
		Long: `Machines and the nodes on them. add and remove change the number that the document wants and then do what apply does; the
document stays the only place where intent is written.`,
	}
	c.AddCommand(newNodeListCmd(a), newNodeAddCmd(a), newNodeRemoveCmd(a), newNodeReplaceCmd(a),
		newNodeCordonCmd(a), newNodeUncordonCmd(a), newNodeDrainCmd(a))
	return c
}

func newNodeListCmd(a *App) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:     "list NAME",
		Short:   "List machines and nodes",
		Long:    `List the cluster's machines with the nodes on them, and nodes that somebody else joined.`,
		Example: "  naupegos node list demo\n  naupegos node list demo -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(cmd.Context(), args[0], sessionOptions{readOnly: true}, func(s *session) error {
				list, err := s.Cluster.NodeList(cmd.Context())
				if err != nil {
					return err
				}
				if list.Problem != "" {
					fmt.Fprintf(a.Err, "naupegos: nodes can't be told: %s\n", list.Problem)
				}
				return out.Print(a.Out, list.Nodes, func(w io.Writer) error { return nodeTable(w, list.Nodes, time.Now()) })
			})
		},
	}
	out.Bind(c)
	return c
}

func nodeTable(w io.Writer, nodes []cluster.NodeRow, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tROLE\tPOOL\tADDRESS\tSTATE\tNODE\tVERSION\tAGE")
	for _, n := range nodes {
		age := "-"
		if !n.Created.IsZero() {
			age = shortAge(now.Sub(n.Created))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Name, output.Dash(n.Role), output.Dash(n.Pool), output.Dash(n.Address), output.Dash(n.State), output.Dash(n.Node), output.Dash(n.Version), age)
	}
	return t.Flush()
}

// shortAge renders an age by its largest unit: 45s, 12m, 7h, 90d.
func shortAge(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func newNodeCordonCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:     "cordon NAME MACHINE...",
		Short:   "Keep new pods away from nodes",
		Example: "  naupegos node cordon demo demo-general-1",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onNodes(cmd.Context(), "node cordon", args, "cordoned", func(c *cluster.Cluster) *plan.Plan {
				return c.PlanCordon("node cordon", args[1:], true)
			})
		},
	}
}

func newNodeUncordonCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:     "uncordon NAME MACHINE...",
		Short:   "Let new pods onto nodes again",
		Example: "  naupegos node uncordon demo demo-general-1",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onNodes(cmd.Context(), "node uncordon", args, "open for new pods", func(c *cluster.Cluster) *plan.Plan {
				return c.PlanCordon("node uncordon", args[1:], false)
			})
		},
	}
}

func newNodeDrainCmd(a *App) *cobra.Command {
	var o kube.DrainOptions
	c := &cobra.Command{
		Use:   "drain NAME MACHINE...",
		Short: "Move the pods of nodes elsewhere",
		Long: `Cordon nodes, one after another, and evict their pods, all but those of DaemonSets, with respect to disruption budgets. The
nodes stay cordoned: naupegos node uncordon lets pods in again.`,
		Example: "  naupegos node drain demo demo-general-1\n  naupegos node drain demo demo-general-1 --timeout 2m --delete-emptydir-data",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onNodes(cmd.Context(), "node drain", args, "drained", func(c *cluster.Cluster) *plan.Plan {
				return c.PlanDrain("node drain", args[1:], o)
			})
		},
	}
	c.Flags().DurationVar(&o.Timeout, "timeout", 0, "for each node's pods together (default: the document's spec.timeouts.drain)")
	c.Flags().BoolVar(&o.DeleteEmptyDir, "delete-emptydir-data", false, "evict pods with emptyDir volumes too: their content is lost")
	c.Flags().BoolVar(&o.Force, "force", false, "evict pods too that no controller starts elsewhere: they are lost")
	c.Flags().DurationVar(&o.GracePeriod, "grace-period", 0*time.Second, "for each pod, in place of its own")
	return c
}

// onNodes carries out what a verb does with the nodes that are named after the cluster, without asking, and says what they are then.
func (a *App) onNodes(ctx context.Context, verb string, args []string, done string, p func(*cluster.Cluster) *plan.Plan) error {
	s, doc, err := a.openNamed(ctx, args[0], sessionOptions{verb: verb})
	if err != nil {
		return err
	}
	defer s.Close()
	t := a.terms(&runFlags{}, doc)
	t.Plain = true
	if err := s.CarryOut(ctx, p(s.Cluster), t); err != nil {
		return err
	}
	for _, node := range args[1:] {
		fmt.Fprintf(a.Out, "%s is %s\n", node, done)
	}
	return nil
}

func newNodeReplaceCmd(a *App) *cobra.Command {
	n := &nodeChange{app: a, verb: "node replace"}
	c := &cobra.Command{
		Use:   "replace NAME MACHINE...",
		Short: "Put a new machine of the same name in a machine's place",
		Long: `Take a machine out and bring a new one in under the same name. A machine that answers is drained first; one that is dead is
given up, and so are its pods. For a control-plane machine a backup is made first, the quorum is foreseen before anything
is begun, and the new member joins as a learner until it has caught up. Several machines are replaced one after another.

Interrupted, the same command or naupegos apply goes on.`,
		Example: "  naupegos node replace demo demo-general-2\n  naupegos node replace demo demo-cp-1 --yes",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n.name = args[0]
			machines := unique(args[1:])
			n.plan = func(ctx context.Context, c *cluster.Cluster) (*cluster.Applied, error) {
				return c.PlanReplace(ctx, machines...)
			}
			n.decide = func(ctx context.Context, c *cluster.Cluster) error {
				return c.Decide(ctx, wanted.Replace, machines...)
			}
			return n.carryOut(cmd.Context())
		},
	}
	n.bindRun(c)
	return c
}
