package openstack

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
)

const (
	vipRole = "vip" // of the port with the gateways' virtual address, and of its floating IP
	vipStep = "vip"
)

// VIP returns the virtual address of the API: the load balancer's, or the one that the gateways share. It returns fail.NotFound if there is none (yet).
func (p *Provider) VIP(context.Context) (string, error) {
	if p.octavia() != nil {
		if b := p.balancer.Seen(); b != nil && b.LB.VipAddress != "" {
			return b.LB.VipAddress, nil
		}
	} else if a := p.vipAddress(); a != "" {
		return a, nil
	}
	return "", fail.New(fail.NotFound, "cluster %s has no virtual address yet", p.n.Cluster)
}

// PublicVIP returns the floating IP of the virtual address, or fail.NotFound if there is none (yet).
func (p *Provider) PublicVIP(context.Context) (string, error) {
	port := ""
	if p.octavia() != nil {
		if b := p.balancer.Seen(); b != nil {
			port = b.LB.VipPortID
		}
	} else if o, ok := p.vipPort(); ok {
		port = o.ID
	}
	if f, ok := p.floating.Front(port); ok {
		return f.FloatingIP, nil
	}
	return "", fail.New(fail.NotFound, "cluster %s has no floating virtual address", p.n.Cluster)
}

// sharesVIP reports whether the document asks for gateways that share an address.
func (p *Provider) sharesVIP() bool {
	return p.opts.Cluster.Spec.Endpoint.Kind == v1alpha1.EndpointGateways
}

// vipSteps returns the step that creates or corrects the port with the gateways' shared address, and its floating IP; none if nothing differs.
func (p *Provider) vipSteps(want provider.Wanted) []*plan.Step {
	if !p.sharesVIP() || !want.VIP {
		return nil
	}
	s := &plan.Step{
		ID: vipStep, Action: plan.Create, Title: "reserve the gateways' virtual address", Subject: "cluster", Reason: "it does not exist",
		Needs: []string{networkStep, routerStep}, Timeout: p.opts.Timeouts.Step,
		Run: func(ctx context.Context, progress plan.Progress) error {
			port, err := p.ensureVIPPort(ctx)
			if err != nil {
				return err
			}
			progress.Status("floating IP for %s", p.address(port))
			return p.floating.EnsureFront(ctx, port.ID, vipRole)
		},
	}
	if port, ok := p.vipPort(); ok {
		if s.Reason = p.floating.FrontLack(port.ID); s.Reason == "" && len(p.vipPorts()) > 1 {
			s.Action, s.Title, s.Reason = plan.Change, "give back the gateways' second virtual address", "it was reserved twice"
		}
		if s.Reason == "" {
			return nil
		}
		p.floating.AskConsent(s, port.ID)
	}
	return []*plan.Step{s}
}

// vipPort returns the port with the gateways' virtual address. It is never attached to a machine: it reserves the address, and its floating IP
// leads to the gateway that currently holds the address.
func (p *Provider) vipPort() (ports.Port, bool) {
	all := p.vipPorts()
	if len(all) == 0 {
		return ports.Port{}, false
	}
	port, _ := cache.Best(all, p.inUse)
	return port, true
}

// vipPorts lists the ports with a virtual address: one, or more if Neutron answered a killed run's request too late.
func (p *Provider) vipPorts() []ports.Port {
	return p.known.ports.Filter(func(o ports.Port) bool { return o.Name == p.n.Name(vipRole) })
}

// inUse ranks ports with a virtual address: clients use the one with a floating IP, and gateways serve the one that their own ports allow.
func (p *Provider) inUse(o ports.Port) int {
	if _, ok := p.floating.Front(o.ID); ok {
		return 2
	}
	_, allowed := p.known.ports.Find(func(of ports.Port) bool {
		return slices.ContainsFunc(of.AllowedAddressPairs, func(a ports.AddressPair) bool { return a.IPAddress == p.address(o) })
	})
	if allowed {
		return 1
	}
	return 0
}

// vipAddress returns the address of that port; empty if there is none (yet).
func (p *Provider) vipAddress() string {
	port, _ := p.vipPort()
	return p.address(port)
}

// frontPort returns the ID of the port that holds the API's virtual address; empty before it exists.
func (p *Provider) frontPort() string {
	if p.octavia() == nil {
		port, _ := p.vipPort()
		return port.ID
	}
	if b := p.balancer.Seen(); b != nil {
		return b.LB.VipPortID
	}
	return ""
}

// ensureVIPPort finds or creates the port, and removes duplicates.
func (p *Provider) ensureVIPPort(ctx context.Context) (ports.Port, error) {
	if err := cache.Fresh(ctx, p.known.ports, p.known.floating, p.known.reserved); err != nil {
		return ports.Port{}, err
	}
	if all := p.vipPorts(); len(all) > 0 {
		c, err := p.network(ctx)
		if err != nil {
			return ports.Port{}, err
		}
		port, twice := cache.Best(all, p.inUse)
		return port, p.removeTwice(ctx, c, twice, "the virtual address")
	}
	subnet, err := p.subnet(ctx)
	if err != nil {
		return ports.Port{}, err
	}
	made, err := p.createPorts(ctx, []newPort{{
		Name: p.n.Name(vipRole), Description: p.n.Mark(), NetworkID: subnet.NetworkID, FixedIPs: []ports.IP{{SubnetID: subnet.ID}},
		SecurityGroups: &[]string{}, Tags: p.n.RoleTags(vipRole),
	}})
	if err != nil {
		return ports.Port{}, err
	}
	return made[0], nil
}
