package floating

import (
	"context"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack/balancer"
)

// ofBalancer manages the floating IP of the load balancer's address; an internal load balancer has none.
type ofBalancer struct{ k *Keeper }

// OfBalancer returns what manages the floating IP of the load balancer's address.
func (k *Keeper) OfBalancer() balancer.Floating { return ofBalancer{k} }

// Lack describes how the floating IP of a port differs from the wanted state; empty if it does not.
func (a ofBalancer) Lack(portID string) string {
	if !a.k.opts.Cluster.Spec.Endpoint.LoadBalancer().Internal {
		return a.k.FrontLack(portID)
	}
	if a.k.Has(portID) || len(a.k.former) > 0 {
		return "its floating IP is no longer wanted"
	}
	return ""
}

// AskConsent makes a step require consent if it releases or detaches an address.
func (a ofBalancer) AskConsent(s *plan.Step, portID string) { a.k.AskConsent(s, portID) }

// Ensure attaches the wanted floating IP to a port, or removes it if none is wanted.
func (a ofBalancer) Ensure(ctx context.Context, portID string) error {
	if !a.k.opts.Cluster.Spec.Endpoint.LoadBalancer().Internal {
		return a.k.EnsureFront(ctx, portID, balancer.FrontAPI)
	}
	if err := a.k.takeOffFormer(ctx, portID); err != nil {
		return err
	}
	f, ok := a.k.Of(portID)
	if !ok {
		return nil
	}
	return a.k.Remove(ctx, []floatingips.FloatingIP{f})
}

// Forget makes the caches of floating IPs uncertain, because a port that one may have led to is gone.
func (a ofBalancer) Forget() {
	a.k.opts.Known.Invalidate()
	a.k.reserved.Invalidate()
}
