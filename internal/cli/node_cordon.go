package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/kube"
)

func newNodeCordonCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:     "cordon NAME MACHINE...",
		Short:   "Keep new pods away from nodes",
		Example: "  naupegos node cordon demo demo-general-1",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachNode(cmd.Context(), "cordon", args, "cordoned", func(ctx context.Context, s *session, node string) error {
				return s.cluster.Cordon(ctx, node, true)
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
			return a.eachNode(cmd.Context(), "uncordon", args, "open for new pods", func(ctx context.Context, s *session, node string) error {
				return s.cluster.Cordon(ctx, node, false)
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
			o.Log = func(line string) { fmt.Fprintln(a.Err, line) }
			return a.eachNode(cmd.Context(), "drain", args, "drained", func(ctx context.Context, s *session, node string) error {
				return s.cluster.Drain(ctx, node, o)
			})
		},
	}
	c.Flags().DurationVar(&o.Timeout, "timeout", 0, "for each node's pods together (default: the document's spec.timeouts.drain)")
	c.Flags().BoolVar(&o.DeleteEmptyDir, "delete-emptydir-data", false, "evict pods with emptyDir volumes too: their content is lost")
	c.Flags().BoolVar(&o.Force, "force", false, "evict pods too that no controller starts elsewhere: they are lost")
	c.Flags().DurationVar(&o.GracePeriod, "grace-period", 0*time.Second, "for each pod, in place of its own")
	return c
}

// eachNode does something with every node that is named after the cluster, one after another, under the cluster's lease.
func (a *App) eachNode(ctx context.Context, verb string, args []string, done string, do func(context.Context, *session, string) error) error {
	s, _, err := a.openNamed(ctx, args[0], sessionOptions{verb: "node " + verb})
	if err != nil {
		return err
	}
	defer s.Close()
	for _, node := range args[1:] {
		if err := do(ctx, s, node); err != nil {
			return err
		}
		fmt.Fprintf(a.Out, "%s is %s\n", node, done)
	}
	return nil
}
