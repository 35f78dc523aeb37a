package openstack

import (
	"context"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

const (
	networkStep = "network"
	routerStep  = "router"
)

// roleRouter marks the router's port in the machines' network. The port is created before the router takes it, so that it can be found after any interruption.
const roleRouter = "router"

// networkPlans returns the steps that create the machines' network and its way out: none if these exist, or if the document names an existing network.
func (p *Provider) networkPlans() ([]*plan.Step, error) {
	if p.spec().Network.Existing != "" {
		return nil, nil
	}
	if s, ok := p.known.subnets.Find(cache.Anything); ok && s.CIDR != p.spec().Network.CIDR {
		return nil, fail.New(fail.Refused, "the machines' network is %s, and can't become %s", s.CIDR, p.spec().Network.CIDR).
			At("spec.provider.openstack.network.cidr").Do("set it back; another network needs another cluster")
	}
	var out []*plan.Step
	if missing := p.missingNetwork(); len(missing) > 0 {
		s := &plan.Step{
			ID: networkStep, Action: plan.Create, Title: "create the machines' network", Subject: "cluster", Reason: "it does not exist",
			Details: missing, Timeout: p.opts.Timeouts.Step, Run: p.ensureNetwork,
		}
		if len(p.known.networks.All()) > 0 {
			s.Action, s.Title, s.Reason = plan.Change, "complete the machines' network", "it differs from the document"
		}
		out = append(out, s)
	}
	if missing := p.missingRouter(); len(missing) > 0 {
		out = append(out, &plan.Step{
			ID: routerStep, Action: plan.Create, Title: "connect the machines' network to the external network", Subject: "cluster",
			Reason: "its router or the connection to it is missing or incomplete", Details: missing, Needs: []string{networkStep}, Timeout: p.opts.Timeouts.Step,
			Run: p.ensureWayOut,
		})
	}
	return out, nil
}

// missing collects the deviations of a resource from the wanted state.
type missing []string

func (m *missing) add(is bool, what string) {
	if is {
		*m = append(*m, what)
	}
}

// missingNetwork lists the defects of the network and subnet.
func (p *Provider) missingNetwork() []string {
	var out missing
	net, haveNet := p.known.networks.Find(cache.Anything)
	sub, haveSub := p.known.subnets.Find(cache.Anything)
	out.add(!haveNet, "network "+p.n.Name())
	out.add(!haveSub, "subnet "+p.spec().Network.CIDR)
	out.add(haveSub && !sameDNS(sub.DNSNameservers, p.spec().Network.DNSServers), "name servers "+strings.Join(p.spec().Network.DNSServers, ", "))
	out.add(haveNet && !p.marked(net.Tags) || haveSub && !p.marked(sub.Tags), "tags")
	out.add(len(p.known.networks.All()) > 1 || len(p.known.subnets.All()) > 1, "remove duplicates")
	return out
}

// missingRouter lists the defects of the router, its external gateway and its interface in the network.
func (p *Provider) missingRouter() []string {
	var out missing
	rt, haveRouter := p.known.routers.Find(cache.Anything)
	port, havePort := p.known.ports.Find(p.isRouterPort)
	out.add(p.ownRouter() && !haveRouter, "router "+p.n.Name())
	out.add(p.ownRouter() && haveRouter && rt.GatewayInfo.NetworkID == "", "the router's external gateway")
	out.add(!havePort || port.DeviceID == "", "the router's interface in the network")
	out.add(haveRouter && !p.marked(rt.Tags) || havePort && !p.marked(port.Tags), "tags")
	out.add(len(p.known.routers.All()) > 1, "remove duplicates")
	return out
}

// marked reports whether tags carry the cluster's mark.
func (p *Provider) marked(tags []string) bool { return slices.Contains(tags, p.n.Mark()) }

// sameDNS compares name servers; if the document names none, it accepts any.
func sameDNS(have, want []string) bool { return len(want) == 0 || slices.Equal(have, want) }

// ownRouter reports whether the cluster has a router of its own.
func (p *Provider) ownRouter() bool { return p.spec().Network.Router == "" }

func (p *Provider) isRouterPort(o ports.Port) bool {
	return marks.Tagged(o.Tags, marks.KeyRole) == roleRouter || o.Name == p.n.Name(roleRouter)
}

// ensureNetwork creates the missing parts of the network and subnet.
func (p *Provider) ensureNetwork(ctx context.Context, progress plan.Progress) error {
	if err := cache.Fresh(ctx, p.known.networks, p.known.subnets); err != nil {
		return err
	}
	progress.Status("network")
	net, err := p.ensureNet(ctx)
	if err != nil {
		return err
	}
	progress.Status("subnet")
	_, err = p.ensureSubnet(ctx, net)
	return err
}

// ensureWayOut creates the missing parts of the router and of its port in the machines' network.
func (p *Provider) ensureWayOut(ctx context.Context, progress plan.Progress) error {
	if err := cache.Fresh(ctx, p.known.subnets, p.known.routers, p.known.ports); err != nil {
		return err
	}
	sub, err := p.subnet(ctx)
	if err != nil {
		return err
	}
	progress.Status("router")
	router, err := p.ensureRouter(ctx)
	if err != nil {
		return err
	}
	progress.Status("the router's interface in the network")
	return p.ensureRouterPort(ctx, router, sub)
}

func (p *Provider) ensureNet(ctx context.Context) (networks.Network, error) {
	c, err := p.network(ctx)
	if err != nil {
		return networks.Network{}, err
	}
	var net networks.Network
	if all := p.known.networks.All(); len(all) > 0 {
		var twice []networks.Network
		net, twice = cache.Best(all, func(n networks.Network) int { return len(n.Subnets) })
		for _, n := range twice {
			err := networks.Delete(ctx, c, n.ID).ExtractErr()
			if err := cache.Removed(p.known.networks, n.ID, err, "remove network %s, which was made twice", n.ID); err != nil {
				return net, err
			}
		}
	} else {
		up := true
		n, err := networks.Create(ctx, c, networks.CreateOpts{Name: p.n.Name(), Description: p.n.Mark(), AdminStateUp: &up}).Extract()
		if net, err = cache.Made(p.known.networks, n, err, "make network %s", p.n.Name()); err != nil {
			return net, err
		}
	}
	if net.Tags, err = p.tag(ctx, "networks", net.ID, net.Tags, p.n.Tags(provider.MachineSpec{})); err != nil {
		return net, err
	}
	p.known.networks.Keep(net)
	return net, nil
}

// makeSubnet creates the subnet, or returns the subnet that a killed run requested and that appeared only now.
func (p *Provider) makeSubnet(ctx context.Context, c *gophercloud.ServiceClient, net networks.Network) (subnets.Subnet, error) {
	s, err := subnets.Create(ctx, c, subnets.CreateOpts{
		NetworkID: net.ID, CIDR: p.spec().Network.CIDR, IPVersion: 4, Name: p.n.Name(), Description: p.n.Mark(),
		DNSNameservers: p.spec().Network.DNSServers,
	}).Extract()
	if there, ok, err := cache.Late(ctx, p.known.subnets, err, func(s subnets.Subnet) bool { return s.NetworkID == net.ID }); ok || err != nil {
		return there, err // a second subnet would overlap with it
	}
	return cache.Made(p.known.subnets, s, err, "make subnet %s in network %s", p.spec().Network.CIDR, net.Name)
}

func (p *Provider) ensureSubnet(ctx context.Context, net networks.Network) (subnets.Subnet, error) {
	c, err := p.network(ctx)
	if err != nil {
		return subnets.Subnet{}, err
	}
	var sub subnets.Subnet
	if all := p.known.subnets.All(); len(all) > 0 {
		sub, _ = cache.Best(all, func(s subnets.Subnet) int {
			if s.NetworkID == net.ID {
				return 1
			}
			return 0
		}) // a duplicate in the same network is impossible: Neutron refuses overlapping subnets
	} else if sub, err = p.makeSubnet(ctx, c, net); err != nil {
		return sub, err
	}
	if want := p.spec().Network.DNSServers; !sameDNS(sub.DNSNameservers, want) {
		s, err := subnets.Update(ctx, c, sub.ID, subnets.UpdateOpts{DNSNameservers: &want}).Extract()
		if sub, err = cache.Made(p.known.subnets, s, err, "set the name servers of subnet %s", p.n.Name()); err != nil {
			return sub, err
		}
	}
	if sub.Tags, err = p.tag(ctx, "subnets", sub.ID, sub.Tags, p.n.Tags(provider.MachineSpec{})); err != nil {
		return sub, err
	}
	p.known.subnets.Keep(sub)
	return sub, nil
}

// ensureRouter returns the ID of the router: the one that the document names, or the cluster's own.
func (p *Provider) ensureRouter(ctx context.Context) (string, error) {
	if !p.ownRouter() {
		return p.existing.Router(ctx)
	}
	c, err := p.network(ctx)
	if err != nil {
		return "", err
	}
	external, err := p.existing.External(ctx)
	if err != nil {
		return "", err
	}
	var router routers.Router
	if all := p.known.routers.All(); len(all) > 0 {
		var twice []routers.Router
		port, _ := p.known.ports.Find(p.isRouterPort)
		router, twice = cache.Best(all, func(r routers.Router) int {
			if r.ID == port.DeviceID {
				return 1
			}
			return 0
		})
		for _, r := range twice {
			err := routers.Delete(ctx, c, r.ID).ExtractErr()
			if err := cache.Removed(p.known.routers, r.ID, err, "remove router %s, which was made twice", r.ID); err != nil {
				return "", err
			}
		}
	} else {
		up := true
		r, err := routers.Create(ctx, c, routers.CreateOpts{
			Name: p.n.Name(), Description: p.n.Mark(), AdminStateUp: &up, GatewayInfo: &routers.GatewayInfo{NetworkID: external},
		}).Extract()
		if router, err = cache.Made(p.known.routers, r, err, "make router %s", p.n.Name()); err != nil {
			return "", err
		}
	}
	if router.GatewayInfo.NetworkID == "" {
		r, err := routers.Update(ctx, c, router.ID, routers.UpdateOpts{GatewayInfo: &routers.GatewayInfo{NetworkID: external}}).Extract()
		if router, err = cache.Made(p.known.routers, r, err, "lead router %s to the external network", p.n.Name()); err != nil {
			return "", err
		}
	}
	if router.Tags, err = p.tag(ctx, "routers", router.ID, router.Tags, p.n.Tags(provider.MachineSpec{})); err != nil {
		return "", err
	}
	p.known.routers.Keep(router)
	return router.ID, nil
}

// routerPort finds or creates the port with the subnet's gateway address.
func (p *Provider) routerPort(ctx context.Context, sub subnets.Subnet) (ports.Port, error) {
	if port, ok := p.known.ports.Find(p.isRouterPort); ok {
		return port, nil
	}
	made, err := p.createPorts(ctx, []newPort{{
		Name: p.n.Name(roleRouter), Description: p.n.Mark(), NetworkID: sub.NetworkID, Tags: p.n.RoleTags(roleRouter),
		FixedIPs: []ports.IP{{SubnetID: sub.ID, IPAddress: sub.GatewayIP}},
	}})
	if err != nil {
		return ports.Port{}, err
	}
	return made[0], nil
}

// ensureRouterPort creates the port with the subnet's gateway address, and attaches it to the router.
func (p *Provider) ensureRouterPort(ctx context.Context, router string, sub subnets.Subnet) error {
	port, err := p.routerPort(ctx, sub)
	if err != nil {
		return err
	}
	if port.Tags, err = p.tag(ctx, "ports", port.ID, port.Tags, p.n.RoleTags(roleRouter)); err != nil {
		return err
	}
	if port.DeviceID == "" {
		c, err := p.network(ctx)
		if err != nil {
			return err
		}
		if _, err := routers.AddInterface(ctx, c, router, routers.AddInterfaceOpts{PortID: port.ID}).Extract(); err != nil {
			_, ok, again := cache.Late(ctx, p.known.ports, err, func(o ports.Port) bool { return o.ID == port.ID && o.DeviceID == router })
			if again != nil {
				return again
			}
			if !ok {
				p.known.ports.Invalidate()
				return cloud.Wrap(err, "attach subnet %s to router %s", sub.CIDR, router)
			}
		}
		port.DeviceID = router
	}
	p.known.ports.Keep(port)
	return nil
}
