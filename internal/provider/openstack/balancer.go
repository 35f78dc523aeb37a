package openstack

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// balancer is what was last seen of the cluster's load balancer.
type balancer struct {
	lb      loadbalancers.LoadBalancer
	fronts  map[string]front // by name; what the names of the cluster's pools and listeners tell
	ports   map[int]string   // listeners' IDs by port, whatever they are called
	surplus []string         // IDs of further load balancers of this cluster: from creates whose answers never came
}

// fronts guards the load balancer against two changes at once: Octavia takes one at a time.
type fronts struct {
	mu   sync.Mutex
	lost string // address of a load balancer that was deleted because Octavia had given it up: the next one gets it
}

// front is one port of the load balancer with the pool behind it. Parts whose ID is empty are missing.
type front struct {
	listener listeners.Listener
	pool     pools.Pool
	monitor  monitors.Monitor
	members  []pools.Member
}

// front returns what was seen under a name: nothing, where there is nothing.
func (b *balancer) front(name string) front {
	if b == nil {
		return front{}
	}
	return b.fronts[name]
}

// observeBalancer finds the cluster's load balancer and what is in it: one call where there is none or the cloud has no load
// balancing (then none at all), else three more, and one for each of its own pools, of which there are three at most.
func (p *Provider) observeBalancer(ctx context.Context) error {
	p.setNoBalancing("")
	c, err := p.balancing(ctx)
	if err != nil {
		return err
	}
	if c == nil {
		p.setNoBalancing("the cloud has no load-balancer service")
		return nil
	}
	_, err = p.lookAtBalancer(ctx, c)
	if cloud.Status(err) == http.StatusForbidden {
		if p.octavia() == nil { // who may not look at load balancers has made none
			p.setNoBalancing("the credentials lack the role " + cloud.BalancerRole)
			return nil
		}
		cloud, cloudErr := p.cloud(ctx)
		if cloudErr != nil {
			return cloudErr
		}
		return balancerForbidden(err, cloud)
	}
	return err
}

// balancing returns the client of Octavia; nil where the cloud has none: then there is nothing to look for, and Preflight refuses what
// needs it.
func (p *Provider) balancing(ctx context.Context) (*gophercloud.ServiceClient, error) {
	cloud, err := p.cloud(ctx)
	if err != nil {
		return nil, err
	}
	c, err := cloud.LoadBalancer()
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	return c, nil
}

// checkBalancing refuses to go on where something of the cluster exists and its load balancer can't be seen: nobody could tell whether
// that is gone.
func (p *Provider) checkBalancing(ctx context.Context) error {
	if p.octavia() == nil {
		return nil
	}
	_, err := p.neededBalancing(ctx)
	if err != nil && len(p.machines())+len(p.others()) == 0 {
		return nil // Preflight tells
	}
	return err
}

// neededBalancing returns the client of Octavia for what can't be made without it.
func (p *Provider) neededBalancing(ctx context.Context) (*gophercloud.ServiceClient, error) {
	cloud, err := p.cloud(ctx)
	if err != nil {
		return nil, err
	}
	return cloud.LoadBalancer()
}

// lookAtBalancer reads the load balancer and remembers it; nil where there is none.
func (p *Provider) lookAtBalancer(ctx context.Context, c *gophercloud.ServiceClient) (*balancer, error) {
	all, err := p.listBalancers(ctx, c)
	if err != nil {
		return nil, err
	}
	var b *balancer
	if len(all) > 0 {
		b = &balancer{lb: all[0], fronts: map[string]front{}, ports: map[int]string{}}
		for _, lb := range all[1:] {
			b.surplus = append(b.surplus, lb.ID)
		}
		if err := p.lookInside(ctx, c, b); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.balancer = b
	return b, nil
}

// seenBalancer returns what was last seen; nil: there is none.
func (p *Provider) seenBalancer() *balancer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.balancer
}

// listBalancers lists the cluster's load balancers by their tag, the oldest first: one call.
func (p *Provider) listBalancers(ctx context.Context, c *gophercloud.ServiceClient) ([]loadbalancers.LoadBalancer, error) {
	mark := p.n.Mark()
	all, err := cloud.Pages(ctx, loadbalancers.List(c, loadbalancers.ListOpts{Tags: []string{mark}}), loadbalancers.ExtractLoadBalancers)
	if err != nil {
		return nil, cloud.Wrap(err, "list load balancers")
	}
	all = slices.DeleteFunc(all, func(lb loadbalancers.LoadBalancer) bool {
		return !slices.Contains(lb.Tags, mark) || lb.ProvisioningStatus == lbDeleted
	})
	slices.SortFunc(all, func(a, b loadbalancers.LoadBalancer) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// lookInside lists listeners, pools and monitors of the load balancer, then the members of its pools.
func (p *Provider) lookInside(ctx context.Context, c *gophercloud.ServiceClient, b *balancer) error {
	var ls []listeners.Listener
	var ps []pools.Pool
	var ms []monitors.Monitor
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		ls, err = cloud.Pages(gctx, listeners.List(c, listeners.ListOpts{LoadbalancerID: b.lb.ID}), listeners.ExtractListeners)
		return cloud.Wrap(err, "list listeners of load balancer %s", b.lb.Name)
	})
	g.Go(func() (err error) {
		ps, err = cloud.Pages(gctx, pools.List(c, pools.ListOpts{LoadbalancerID: b.lb.ID}), pools.ExtractPools)
		return cloud.Wrap(err, "list pools of load balancer %s", b.lb.Name)
	})
	g.Go(func() (err error) {
		ms, err = cloud.Pages(gctx, monitors.List(c, monitors.ListOpts{Tags: []string{p.n.Mark()}}), monitors.ExtractMonitors)
		return cloud.Wrap(err, "list health monitors")
	})
	if err := g.Wait(); err != nil {
		return err
	}
	for _, l := range ls {
		b.ports[l.ProtocolPort] = l.ID
		b.update(l.Name, func(f *front) { f.listener = l })
	}
	for _, pool := range ps {
		b.update(pool.Name, func(f *front) {
			f.pool = pool
			if i := slices.IndexFunc(ms, func(m monitors.Monitor) bool { return m.ID == pool.MonitorID }); i >= 0 {
				f.monitor = ms[i]
			}
		})
	}
	return p.lookAtMembers(ctx, c, b)
}

// lookAtMembers lists the members of the cluster's own pools.
func (p *Provider) lookAtMembers(ctx context.Context, c *gophercloud.ServiceClient, b *balancer) error {
	found := map[string]*[]pools.Member{}
	g, gctx := errgroup.WithContext(ctx)
	for name, f := range b.fronts {
		if f.pool.ID == "" || !slices.Contains(p.frontNames(), name) {
			continue
		}
		to := new([]pools.Member)
		found[name] = to
		g.Go(func() (err error) {
			*to, err = cloud.Pages(gctx, pools.ListMembers(c, f.pool.ID, pools.ListMembersOpts{}), pools.ExtractMembers)
			return cloud.Wrap(err, "list members of pool %s", name)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for name, members := range found {
		b.update(name, func(f *front) { f.members = *members })
	}
	return nil
}

func (b *balancer) update(name string, change func(*front)) {
	f := b.fronts[name]
	change(&f)
	b.fronts[name] = f
}
