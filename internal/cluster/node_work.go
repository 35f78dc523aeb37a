package cluster

import (
	"context"

	"github.com/naupegos/naupegos/internal/kube"
)

// Cordon keeps new pods away from a machine's node, or lets them in again.
func (c *Cluster) Cordon(ctx context.Context, machine string, on bool) error {
	client, err := c.Kube(ctx)
	if err != nil {
		return err
	}
	if on {
		return client.Cordon(ctx, machine)
	}
	return client.Uncordon(ctx, machine)
}

// Drain moves a node's pods elsewhere, with respect to their disruption budgets; the node stays cordoned.
func (c *Cluster) Drain(ctx context.Context, machine string, o kube.DrainOptions) error {
	client, err := c.Kube(ctx)
	if err != nil {
		return err
	}
	if _, err := client.Node(ctx, machine); err != nil { // draining a node that does not exist would succeed
		return err
	}
	if o.Timeout == 0 {
		o.Timeout = c.doc.Spec.Timeouts.Drain.Duration
	}
	return client.Drain(ctx, machine, o)
}
