package balancer

import (
	"context"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// RemoveMember removes a machine from all pools, before it is destroyed. It makes no call if the last observation shows no such member.
func (k *Keeper) RemoveMember(ctx context.Context, m provider.Machine, progress plan.Progress) error {
	if !k.Seen().Serves(m) {
		return nil
	}
	c, err := k.Client(ctx)
	if err != nil || c == nil {
		return err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	b, err := k.look(ctx, c)
	if err != nil || !b.Serves(m) {
		return err
	}
	for _, name := range k.frontNames() {
		f := b.Front(name)
		for _, member := range f.Members {
			if !isMachine(member, m) {
				continue
			}
			err := k.Change(ctx, c, b.LB.ID, "take "+m.Name+" out of pool "+name, progress, func(ctx context.Context) error {
				return cloud.UnlessGone(pools.DeleteMember(ctx, c, f.Pool.ID, member.ID).ExtractErr())
			})
			if err != nil {
				return err
			}
		}
	}
	_, err = k.look(ctx, c)
	return err
}

// Serves reports whether a machine is in a pool.
func (b *State) Serves(m provider.Machine) bool {
	if b == nil {
		return false
	}
	for _, f := range b.Fronts {
		for _, member := range f.Members {
			if isMachine(member, m) {
				return true
			}
		}
	}
	return false
}

func isMachine(member pools.Member, m provider.Machine) bool {
	return member.Name == m.Name || m.Address != "" && member.Address == m.Address
}

const destroyStep = "destroy-balancer"

// Destroy returns the step that removes the load balancer; none if none was seen. It does not remove the floating IP.
func (k *Keeper) Destroy() []*plan.Step {
	b := k.Seen()
	if b == nil {
		return nil
	}
	return []*plan.Step{{
		ID: destroyStep, Action: plan.Destroy, Title: "remove load balancer " + b.LB.Name, Subject: "cluster", Reason: "the cluster is destroyed",
		Timeout: 2*k.opts.Timeouts.Delete + k.opts.Timeouts.Step,
		Run: func(ctx context.Context, progress plan.Progress) error {
			c, err := k.Client(ctx)
			if err != nil || c == nil {
				return err
			}
			k.changing.Lock()
			defer k.changing.Unlock()
			return k.removeAll(ctx, c, progress)
		},
	}}
}

// removeAll deletes every load balancer of the cluster.
func (k *Keeper) removeAll(ctx context.Context, c *gophercloud.ServiceClient, progress plan.Progress) error {
	all, err := k.list(ctx, c)
	if err != nil {
		return err
	}
	for _, lb := range all {
		if err := k.remove(ctx, c, lb.ID, progress); err != nil {
			return err
		}
	}
	k.opts.Floating.Forget() // its port is gone
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = nil
	return nil
}

// deleteBroken deletes all load balancers of the cluster because one is in ERROR, and remembers the address of the seen one for its replacement.
func (k *Keeper) deleteBroken(ctx context.Context, c *gophercloud.ServiceClient, progress plan.Progress) error {
	if b := k.Seen(); b != nil {
		k.lost = b.LB.VipAddress
	}
	return k.removeAll(ctx, c, progress)
}

// remove deletes a load balancer with all its parts and waits until it is gone. It first waits for a change in progress, which blocks the
// deletion.
func (k *Keeper) remove(ctx context.Context, c *gophercloud.ServiceClient, id string, progress plan.Progress) error {
	ctx, cancel := context.WithTimeout(ctx, k.opts.Timeouts.Delete)
	defer cancel()
	pause := min(k.opts.Timeouts.Poll, 300*time.Millisecond)
	asked := false
	var last *loadbalancers.LoadBalancer
	for {
		lb, err := loadbalancers.Get(ctx, c, id).Extract()
		switch {
		case cloud.Gone(err) || err == nil && lb.ProvisioningStatus == Deleted:
			return nil
		case cloud.Interrupted(err) && last != nil:
			return undeleted(ctx, last)
		case err != nil:
			return cloud.Wrap(err, "look at load balancer %s", id)
		case !asked || lb.ProvisioningStatus == Active || lb.ProvisioningStatus == Broken:
			err := loadbalancers.Delete(ctx, c, id, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr()
			if err != nil && !cloud.Gone(err) && !immutable(err) && !cloud.Interrupted(err) {
				return cloud.Wrap(err, "delete load balancer %s", lb.Name)
			}
			asked = err == nil
		}
		last = lb
		progress.Status("load balancer %s is %s", lb.Name, lb.ProvisioningStatus)
		if cloud.Sleep(ctx, pause) != nil {
			return undeleted(ctx, last)
		}
		pause = min(pause*3/2, k.opts.Timeouts.Poll)
	}
}

// undeleted returns the error for a load balancer that outlasted the wait for its deletion.
func undeleted(ctx context.Context, lb *loadbalancers.LoadBalancer) error {
	if err := context.Cause(ctx); fail.KindOf(err) == fail.Interrupted {
		return fail.Wrap(fail.Interrupted, err, "delete load balancer %s", lb.Name)
	}
	return fail.New(fail.NotReady, "it is still %s, and not gone", lb.ProvisioningStatus).At("load balancer " + lb.Name).
		Do("destroy again to go on waiting; if it stays so, ask the cloud's operator")
}
