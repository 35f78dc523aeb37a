package balancer

import (
	"context"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/naupegos/naupegos/internal/plan"
)

// Retag replaces the tags of the load balancer; nothing happens if there is none.
func (k *Keeper) Retag(ctx context.Context, tags []string, progress plan.Progress) error {
	c, err := k.needed(ctx)
	if err != nil {
		return err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	b := k.Seen()
	if b == nil {
		return nil
	}
	err = k.Change(ctx, c, b.LB.ID, "tag load balancer "+b.LB.Name, progress, func(ctx context.Context) error {
		return loadbalancers.Update(ctx, c, b.LB.ID, loadbalancers.UpdateOpts{Tags: &tags}).Err
	})
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		b.LB.Tags = tags
	}
	return err
}
