package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
)

func newNodeReplaceCmd(a *App) *cobra.Command {
	n := &nodeChange{app: a, verb: "node replace"}
	c := &cobra.Command{
		Use:   "replace NAME MACHINE...",
		Short: "Put a new machine of the same name in a machine's place",
		Long: `Take a machine out and bring a new one in under the same name. A machine that answers is drained first; one that is dead is
given up, and so are its pods. For a control-plane machine a snapshot of etcd is taken first, the quorum is foreseen before anything
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
