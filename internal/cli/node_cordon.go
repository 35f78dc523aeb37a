package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
)

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
