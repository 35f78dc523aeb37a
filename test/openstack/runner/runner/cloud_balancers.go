package runner

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/naupegos/naupegos/internal/fail"
)

// carried reports whether Octavia's amphorae would serve a load balancer by now. A balancer in ERROR keeps its last configuration.
func carried(status string) bool { return status != "PENDING_CREATE" && !deleted(status) }

// deleted is the only status check for a load balancer's children: if one call created them all, they stay in PENDING_CREATE until an amphora
// reports, and the bed's Octavia has no amphorae.
func deleted(status string) bool { return status == "PENDING_DELETE" || status == "DELETED" }

// balancerHeads returns the load balancers and a fingerprint that changes whenever a balancer or one of its children changes. Reading all
// children costs Octavia a call for each pool.
func (c *cloud) balancerHeads(ctx context.Context) (heads []loadbalancers.LoadBalancer, print string, err error) {
	page, err := loadbalancers.List(c.balance, loadbalancers.ListOpts{SortKey: "id", SortDir: "asc"}).AllPages(ctx)
	if err != nil {
		return nil, "", fail.Wrap(fail.Unreachable, err, "list Octavia's load balancers")
	}
	all, err := loadbalancers.ExtractLoadBalancers(page)
	if err != nil {
		return nil, "", err
	}
	var b strings.Builder
	for _, l := range all {
		fmt.Fprintln(&b, l.ID, l.ProvisioningStatus, l.VipAddress, l.AdminStateUp, l.UpdatedAt.Unix(), len(l.Listeners), len(l.Pools))
		if carried(l.ProvisioningStatus) && l.AdminStateUp {
			heads = append(heads, l)
		}
	}
	return heads, b.String(), nil
}

// balancers reads all children of the given load balancers.
func (c *cloud) balancers(ctx context.Context, heads []loadbalancers.LoadBalancer) ([]balancer, error) {
	if len(heads) == 0 {
		return nil, nil
	}
	page, err := listeners.List(c.balance, listeners.ListOpts{SortKey: "id", SortDir: "asc"}).AllPages(ctx)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "list Octavia's listeners")
	}
	ls, err := listeners.ExtractListeners(page)
	if err != nil {
		return nil, err
	}
	ps, err := c.pools(ctx, ls)
	if err != nil {
		return nil, err
	}
	var out []balancer
	for _, h := range heads {
		vip, err := netip.ParseAddr(h.VipAddress)
		if err != nil {
			continue // it has no VIP yet
		}
		b := balancer{ID: h.ID, Name: h.Name, Network: h.VipNetworkID, VIP: vip}
		for _, l := range ls {
			on := slices.ContainsFunc(l.Loadbalancers, func(id listeners.LoadBalancerID) bool { return id.ID == h.ID })
			if on && !deleted(l.ProvisioningStatus) && l.AdminStateUp {
				b.Listeners = append(b.Listeners, listenerOf(l, ps[l.DefaultPoolID]))
			}
		}
		out = append(out, b)
	}
	return out, nil
}

func listenerOf(l listeners.Listener, p *pool) listener {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	return listener{
		ID: l.ID, Protocol: l.Protocol, Port: l.ProtocolPort, Limit: l.ConnLimit, Allowed: l.AllowedCIDRs, Pool: p,
		Client: ms(l.TimeoutClientData), Connect: ms(l.TimeoutMemberConnect), Member: ms(l.TimeoutMemberData),
	}
}

// pools reads the pools that listeners use, by ID.
func (c *cloud) pools(ctx context.Context, ls []listeners.Listener) (map[string]*pool, error) {
	page, err := pools.List(c.balance, pools.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "list Octavia's pools")
	}
	all, err := pools.ExtractPools(page)
	if err != nil {
		return nil, err
	}
	checks, err := c.monitors(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]*pool{}
	for _, p := range all {
		used := slices.ContainsFunc(ls, func(l listeners.Listener) bool { return l.DefaultPoolID == p.ID })
		if !used || deleted(p.ProvisioningStatus) || !p.AdminStateUp {
			continue
		}
		one := &pool{ID: p.ID, Protocol: p.Protocol, Method: p.LBMethod, Persistence: p.Persistence.Type, Monitor: checks[p.MonitorID]}
		if one.Members, err = c.members(ctx, p.ID); err != nil {
			return nil, err
		}
		out[p.ID] = one
	}
	return out, nil
}

func (c *cloud) members(ctx context.Context, pool string) ([]member, error) {
	page, err := pools.ListMembers(c.balance, pool, pools.ListMembersOpts{SortKey: "id", SortDir: "asc"}).AllPages(ctx)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "list the members of Octavia's pool %s", pool)
	}
	all, err := pools.ExtractMembers(page)
	if err != nil {
		return nil, err
	}
	var out []member
	for _, m := range all {
		if !deleted(m.ProvisioningStatus) && m.AdminStateUp {
			out = append(out, member{
				ID: m.ID, Address: m.Address, Port: m.ProtocolPort, Weight: m.Weight, Backup: m.Backup,
				MonitorAddress: m.MonitorAddress, MonitorPort: m.MonitorPort,
			})
		}
	}
	return out, nil
}

func (c *cloud) monitors(ctx context.Context) (map[string]*monitor, error) {
	page, err := monitors.List(c.balance, monitors.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "list Octavia's health monitors")
	}
	all, err := monitors.ExtractMonitors(page)
	if err != nil {
		return nil, err
	}
	out := map[string]*monitor{}
	for _, m := range all {
		if !deleted(m.ProvisioningStatus) && m.AdminStateUp {
			out[m.ID] = &monitor{
				Type: m.Type, Delay: time.Duration(m.Delay) * time.Second, Timeout: time.Duration(m.Timeout) * time.Second,
				Up: m.MaxRetries, Down: m.MaxRetriesDown, Method: m.HTTPMethod, Path: m.URLPath, Version: m.HTTPVersion,
				Codes: m.ExpectedCodes, Domain: m.DomainName,
			}
		}
	}
	return out, nil
}
