package openstack

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

// removeMember takes a machine out of all pools, before it is destroyed. Where the last look shows no such member, nobody is asked.
func (p *Provider) removeMember(ctx context.Context, m provider.Machine) error {
	if !p.seenBalancer().serves(m) {
		return nil
	}
	c, err := p.balancing(ctx)
	if err != nil || c == nil {
		return err
	}
	p.fronts.mu.Lock()
	defer p.fronts.mu.Unlock()
	b, err := p.lookAtBalancer(ctx, c)
	if err != nil || !b.serves(m) {
		return err
	}
	for _, name := range p.frontNames() {
		f := b.front(name)
		for _, member := range f.members {
			if !isMachine(member, m) {
				continue
			}
			err := p.change(ctx, c, b.lb.ID, "take "+m.Name+" out of pool "+name, silent{}, func(ctx context.Context) error {
				return cloud.UnlessGone(pools.DeleteMember(ctx, c, f.pool.ID, member.ID).ExtractErr())
			})
			if err != nil {
				return err
			}
		}
	}
	_, err = p.lookAtBalancer(ctx, c)
	return err
}

// serves reports whether a machine is in a pool.
func (b *balancer) serves(m provider.Machine) bool {
	if b == nil {
		return false
	}
	for _, f := range b.fronts {
		for _, member := range f.members {
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

const destroyBalancerStep = "destroy-balancer"

// destroyBalancer returns the step that removes the load balancer; none where none was seen. Its floating IP is the core's business.
func (p *Provider) destroyBalancer() []*plan.Step {
	b := p.seenBalancer()
	if b == nil {
		return nil
	}
	return []*plan.Step{{
		ID: destroyBalancerStep, Action: plan.Destroy, Title: "remove load balancer " + b.lb.Name, Subject: "cluster", Reason: "the cluster is destroyed",
		Timeout: 2*p.opts.Timeouts.Delete + p.opts.Timeouts.Step,
		Run: func(ctx context.Context, progress plan.Progress) error {
			c, err := p.balancing(ctx)
			if err != nil || c == nil {
				return err
			}
			p.fronts.mu.Lock()
			defer p.fronts.mu.Unlock()
			return p.deleteBalancers(ctx, c, progress)
		},
	}}
}

// deleteBalancers deletes every load balancer of the cluster.
func (p *Provider) deleteBalancers(ctx context.Context, c *gophercloud.ServiceClient, progress plan.Progress) error {
	all, err := p.listBalancers(ctx, c)
	if err != nil {
		return err
	}
	for _, lb := range all {
		if err := p.deleteBalancer(ctx, c, lb.ID, progress); err != nil {
			return err
		}
	}
	p.known.floating.Invalidate() // the port that had one went, too
	p.known.reserved.Invalidate()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.balancer = nil
	return nil
}

// deleteBroken deletes a load balancer that Octavia gave up, and remembers its address for the one that is made in its place.
func (p *Provider) deleteBroken(ctx context.Context, c *gophercloud.ServiceClient, progress plan.Progress) error {
	if b := p.seenBalancer(); b != nil {
		p.fronts.lost = b.lb.VipAddress
	}
	return p.deleteBalancers(ctx, c, progress)
}

// deleteBalancer deletes a load balancer with all in it and waits until it is gone. One that is being changed can't be deleted; the
// change is waited for.
func (p *Provider) deleteBalancer(ctx context.Context, c *gophercloud.ServiceClient, id string, progress plan.Progress) error {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeouts.Delete)
	defer cancel()
	pause := min(p.opts.Timeouts.Poll, 300*time.Millisecond)
	asked := false
	var last *loadbalancers.LoadBalancer
	for {
		lb, err := loadbalancers.Get(ctx, c, id).Extract()
		switch {
		case cloud.Gone(err) || err == nil && lb.ProvisioningStatus == lbDeleted:
			return nil
		case cloud.Interrupted(err) && last != nil:
			return undeleted(ctx, last)
		case err != nil:
			return cloud.Wrap(err, "look at load balancer %s", id)
		case !asked || lb.ProvisioningStatus == lbActive || lb.ProvisioningStatus == lbError:
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
		pause = min(pause*3/2, p.opts.Timeouts.Poll)
	}
}

// undeleted says why a load balancer is still there when the wait for its end is over.
func undeleted(ctx context.Context, lb *loadbalancers.LoadBalancer) error {
	if err := context.Cause(ctx); fail.KindOf(err) == fail.Interrupted {
		return fail.Wrap(fail.Interrupted, err, "delete load balancer %s", lb.Name)
	}
	return fail.New(fail.NotReady, "it is still %s, and not gone", lb.ProvisioningStatus).At("load balancer " + lb.Name).
		Do("destroy again to go on waiting; if it stays so, ask the cloud's operator")
}
