package balancer

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// State is the last seen state of the cluster's load balancer.
type State struct {
	LB      loadbalancers.LoadBalancer
	Fronts  map[string]Front // by name of the cluster's pools and listeners
	Ports   map[int]string   // listeners' IDs by port, under any name
	Surplus []string         // IDs of further load balancers of this cluster, from create calls whose answers were lost
}

// Front is one port of the load balancer with the pool behind it. Parts whose ID is empty are missing.
type Front struct {
	Listener listeners.Listener
	Pool     pools.Pool
	Monitor  monitors.Monitor
	Members  []pools.Member
}

// Front returns the seen front with this name, or the zero value.
func (b *State) Front(name string) Front {
	if b == nil {
		return Front{}
	}
	return b.Fronts[name]
}

// Observe finds the cluster's load balancer and its parts. It makes no call if the cloud has no load-balancing service, one call if there is
// no load balancer, and otherwise three more plus one for each of its own pools, at most three.
func (k *Keeper) Observe(ctx context.Context) error {
	k.setUnavailable("")
	c, err := k.Client(ctx)
	if err != nil {
		return err
	}
	if c == nil {
		k.setUnavailable("the cloud has no load-balancer service")
		return nil
	}
	_, err = k.look(ctx, c)
	if cloud.Status(err) == http.StatusForbidden {
		if k.opts.Octavia == nil { // without permission to list load balancers, the cluster has none
			k.setUnavailable("the credentials lack the role " + cloud.BalancerRole)
			return nil
		}
		cloud, cloudErr := k.opts.Cloud(ctx)
		if cloudErr != nil {
			return cloudErr
		}
		return forbidden(err, cloud)
	}
	return err
}

// Client returns the client of Octavia; nil if the cloud has no Octavia: then there is nothing to find, and Preflight refuses documents that
// need it.
func (k *Keeper) Client(ctx context.Context) (*gophercloud.ServiceClient, error) {
	cloud, err := k.opts.Cloud(ctx)
	if err != nil {
		return nil, err
	}
	c, err := cloud.LoadBalancer()
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	return c, nil
}

// needed returns the client of Octavia, or an error if the cloud has none.
func (k *Keeper) needed(ctx context.Context) (*gophercloud.ServiceClient, error) {
	cloud, err := k.opts.Cloud(ctx)
	if err != nil {
		return nil, err
	}
	return cloud.LoadBalancer()
}

// look reads the load balancer and remembers it; it returns nil if there is none.
func (k *Keeper) look(ctx context.Context, c *gophercloud.ServiceClient) (*State, error) {
	all, err := k.list(ctx, c)
	if err != nil {
		return nil, err
	}
	var b *State
	if len(all) > 0 {
		b = &State{LB: all[0], Fronts: map[string]Front{}, Ports: map[int]string{}}
		for _, lb := range all[1:] {
			b.Surplus = append(b.Surplus, lb.ID)
		}
		if err := k.lookInside(ctx, c, b); err != nil {
			return nil, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = b
	return b, nil
}

// Seen returns the last seen state; nil if there is no load balancer.
func (k *Keeper) Seen() *State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen
}

// list lists the cluster's load balancers by tag, oldest first, with one call.
func (k *Keeper) list(ctx context.Context, c *gophercloud.ServiceClient) ([]loadbalancers.LoadBalancer, error) {
	mark := k.opts.Names.Mark()
	all, err := cloud.Pages(ctx, loadbalancers.List(c, loadbalancers.ListOpts{Tags: []string{mark}}), loadbalancers.ExtractLoadBalancers)
	if err != nil {
		return nil, cloud.Wrap(err, "list load balancers")
	}
	all = slices.DeleteFunc(all, func(lb loadbalancers.LoadBalancer) bool {
		return !slices.Contains(lb.Tags, mark) || lb.ProvisioningStatus == Deleted
	})
	slices.SortFunc(all, func(a, b loadbalancers.LoadBalancer) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// lookInside lists the load balancer's listeners, pools and monitors, then the members of its pools.
func (k *Keeper) lookInside(ctx context.Context, c *gophercloud.ServiceClient, b *State) error {
	var ls []listeners.Listener
	var ps []pools.Pool
	var ms []monitors.Monitor
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		ls, err = cloud.Pages(gctx, listeners.List(c, listeners.ListOpts{LoadbalancerID: b.LB.ID}), listeners.ExtractListeners)
		return cloud.Wrap(err, "list listeners of load balancer %s", b.LB.Name)
	})
	g.Go(func() (err error) {
		ps, err = cloud.Pages(gctx, pools.List(c, pools.ListOpts{LoadbalancerID: b.LB.ID}), pools.ExtractPools)
		return cloud.Wrap(err, "list pools of load balancer %s", b.LB.Name)
	})
	g.Go(func() (err error) {
		ms, err = cloud.Pages(gctx, monitors.List(c, monitors.ListOpts{Tags: []string{k.opts.Names.Mark()}}), monitors.ExtractMonitors)
		return cloud.Wrap(err, "list health monitors")
	})
	if err := g.Wait(); err != nil {
		return err
	}
	for _, l := range ls {
		b.Ports[l.ProtocolPort] = l.ID
		b.update(l.Name, func(f *Front) { f.Listener = l })
	}
	for _, pool := range ps {
		b.update(pool.Name, func(f *Front) {
			f.Pool = pool
			if i := slices.IndexFunc(ms, func(m monitors.Monitor) bool { return m.ID == pool.MonitorID }); i >= 0 {
				f.Monitor = ms[i]
			}
		})
	}
	return k.lookAtMembers(ctx, c, b)
}

// lookAtMembers lists the members of the cluster's own pools.
func (k *Keeper) lookAtMembers(ctx context.Context, c *gophercloud.ServiceClient, b *State) error {
	found := map[string]*[]pools.Member{}
	g, gctx := errgroup.WithContext(ctx)
	for name, f := range b.Fronts {
		if f.Pool.ID == "" || !slices.Contains(k.frontNames(), name) {
			continue
		}
		to := new([]pools.Member)
		found[name] = to
		g.Go(func() (err error) {
			*to, err = cloud.Pages(gctx, pools.ListMembers(c, f.Pool.ID, pools.ListMembersOpts{}), pools.ExtractMembers)
			return cloud.Wrap(err, "list members of pool %s", name)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for name, members := range found {
		b.update(name, func(f *Front) { f.Members = *members })
	}
	return nil
}

func (b *State) update(name string, change func(*Front)) {
	f := b.Fronts[name]
	change(&f)
	b.Fronts[name] = f
}

// forbidden explains Octavia's 403: by the missing role or, if the user has it, by the cloud's policy. It returns other errors unchanged.
func forbidden(err error, c *cloud.Cloud) error {
	if cloud.Status(err) != http.StatusForbidden {
		return err
	}
	me, whoErr := c.WhoAmI()
	if whoErr != nil {
		return errors.Join(err, whoErr)
	}
	said := new(cloud.Fault)
	errors.As(err, &said)
	if me.Has(cloud.BalancerRole) {
		return fail.Wrap(fail.Refused, said, "the load-balancer service refuses the credentials of %s, which have the role %s in project %s",
			c.Login.Source, cloud.BalancerRole, me.Project.Name).
			Do("ask the cloud's operator what its policy demands, or use another kind of spec.endpoint, such as gateways")
	}
	return fail.Wrap(fail.Refused, said, "the credentials of %s lack the role %s in project %s (they have %s)",
		c.Login.Source, cloud.BalancerRole, me.Project.Name, me.RoleNames()).
		Do("have the cloud's operator grant it, or use another kind of spec.endpoint, such as gateways")
}
