package openstack

import (
	"context"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

const (
	vipRole = "vip" // of the port that holds the gateways' virtual address, and of its floating IP
	vipStep = "vip"
)

// VIP returns the virtual address of the API: the load balancer's, or the one that the gateways share. fail.NotFound where
// there is none (yet).
func (p *Provider) VIP(context.Context) (string, error) {
	if p.octavia() != nil {
		if b := p.seenBalancer(); b != nil && b.lb.VipAddress != "" {
			return b.lb.VipAddress, nil
		}
	} else if a := p.vipAddress(); a != "" {
		return a, nil
	}
	return "", fail.New(fail.NotFound, "cluster %s has no virtual address yet", p.n.Cluster)
}

// PublicVIP returns the floating IP of the virtual address. fail.NotFound where there is none (yet).
func (p *Provider) PublicVIP(context.Context) (string, error) {
	port := ""
	if p.octavia() != nil {
		if b := p.seenBalancer(); b != nil {
			port = b.lb.VipPortID
		}
	} else if o, ok := p.vipPort(); ok {
		port = o.ID
	}
	if f, ok := p.frontIP(port); ok {
		return f.FloatingIP, nil
	}
	return "", fail.New(fail.NotFound, "cluster %s has no floating virtual address", p.n.Cluster)
}

// sharesVIP reports whether the document wants gateways that share an address.
func (p *Provider) sharesVIP() bool {
	return p.opts.Cluster.Spec.Endpoint.Kind == v1alpha1.EndpointGateways
}

// vipSteps returns the step that makes the port whose address the gateways share, and its floating IP; none where they are there.
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
			progress.Status("floating IP for %s", address(port))
			return p.ensureFrontIP(ctx, port.ID, vipRole)
		},
	}
	if port, ok := p.vipPort(); ok {
		if s.Reason = p.frontIPLack(port.ID); s.Reason == "" {
			return nil
		}
		p.askForAddress(s, port.ID)
	}
	return []*plan.Step{s}
}

// vipPort returns the port that holds the gateways' virtual address. No machine is ever bound to it: it reserves the address, and its
// floating IP leads to whichever gateway holds that.
func (p *Provider) vipPort() (ports.Port, bool) {
	return p.known.ports.Find(func(o ports.Port) bool { return o.Name == p.n.Name(vipRole) })
}

// vipAddress is the address of that port; empty where there is none (yet).
func (p *Provider) vipAddress() string {
	port, _ := p.vipPort()
	return address(port)
}

// ensureVIPPort finds or makes the port.
func (p *Provider) ensureVIPPort(ctx context.Context) (ports.Port, error) {
	if err := p.known.ports.Fresh(ctx); err != nil {
		return ports.Port{}, err
	}
	if port, ok := p.vipPort(); ok {
		return port, nil
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

// ensureBalancerIP sees that the load balancer's address has a floating IP, or none where it is internal.
func (p *Provider) ensureBalancerIP(ctx context.Context, progress plan.Progress) error {
	b := p.seenBalancer()
	if b == nil {
		return fail.New(fail.NotReady, "the load balancer does not exist").At(p.n.Name(frontAPI))
	}
	if !p.octavia().Internal {
		progress.Status("floating IP for %s", b.lb.VipAddress)
		return p.ensureFrontIP(ctx, b.lb.VipPortID, frontAPI)
	}
	if err := p.takeOffFormer(ctx, b.lb.VipPortID); err != nil {
		return err
	}
	f, ok := p.floatingOf(b.lb.VipPortID)
	if !ok {
		return nil
	}
	return p.removeFloating(ctx, []floatingips.FloatingIP{f})
}

// hasFloatingIP reports whether a port has a floating IP of the cluster.
func (p *Provider) hasFloatingIP(portID string) bool {
	_, ok := p.floatingOf(portID)
	return ok
}
