package openstack

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// The API's floating IP is made for the cluster, or is one of the user's, who has told others of it already: that one carries no mark,
// is led to the API, and is left to the user when the cluster goes.

const reservedField = "spec.endpoint.floatingIP"

// reservedIP is the address of the user's own floating IP for the API; empty: one is made.
func (p *Provider) reservedIP() string { return p.opts.Cluster.Spec.Endpoint.FloatingIP }

// listReserved looks for the user's floating IP; it asks nobody where the document names none.
func (p *Provider) listReserved(ctx context.Context) ([]floatingips.FloatingIP, error) {
	if p.reservedIP() == "" {
		return nil, nil
	}
	c, err := p.network(ctx)
	if err != nil {
		return nil, err
	}
	all, err := pages(ctx, floatingips.List(c, floatingips.ListOpts{FloatingIP: p.reservedIP()}), floatingips.ExtractFloatingIPs)
	return keepReserved(all, p.reservedIP()), wrap(err, "look for floating IP %s", p.reservedIP())
}

// keepReserved is for clouds that don't know the filter.
func keepReserved(all []floatingips.FloatingIP, address string) []floatingips.FloatingIP {
	for _, f := range all {
		if f.FloatingIP == address {
			return []floatingips.FloatingIP{f}
		}
	}
	return nil
}

// frontPort is the ID of the port that holds the API's virtual address; empty where it is not made yet.
func (p *Provider) frontPort() string {
	if p.octavia() == nil {
		port, _ := p.vipPort()
		return port.ID
	}
	if b := p.seenBalancer(); b != nil {
		return b.lb.VipPortID
	}
	return ""
}

// checkReserved looks whether the user's floating IP is there and free.
func (p *Provider) checkReserved(context.Context) error {
	if p.reservedIP() == "" {
		return nil
	}
	f, ok := p.known.reserved.find(anything)
	switch {
	case !ok:
		return fail.New(fail.Refused, "the project has no floating IP %s", p.reservedIP()).At(reservedField).
			Do("make it (openstack floating ip create --floating-ip-address %s NETWORK), or leave it out", p.reservedIP())
	case f.PortID != "" && f.PortID != p.frontPort():
		return fail.New(fail.Refused, "floating IP %s leads to port %s (%s) already", f.FloatingIP, f.PortID, f.FixedIP).At(reservedField).
			Do("take it away there (openstack floating ip unset --port %s), or name another one", f.FloatingIP)
	}
	return nil
}

// frontIP returns the floating IP that leads to the port of the API's address.
func (p *Provider) frontIP(portID string) (floatingips.FloatingIP, bool) {
	if p.reservedIP() == "" {
		return p.floatingOf(portID)
	}
	return p.known.reserved.find(func(f floatingips.FloatingIP) bool { return portID != "" && f.PortID == portID })
}

// frontIPLack says what of the floating IP of the API's address is not as wanted; empty: nothing.
func (p *Provider) frontIPLack(portID string) string {
	f, ok := p.frontIP(portID)
	switch {
	case !ok && p.reservedIP() != "":
		return "floating IP " + p.reservedIP() + " does not lead to it"
	case !ok || p.reservedIP() == "" && !p.marked(f.Tags): // a run that was cut off can leave one without
		return "its floating IP is missing, or lacks tags"
	}
	return ""
}

// askForAddress makes a step ask for consent that gives back the floating IP that was made for the API's address, or takes one of the
// user's off it.
func (p *Provider) askForAddress(s *plan.Step, portID string) {
	f, ok := p.floatingOf(portID)
	if o := p.octavia(); ok && (p.reservedIP() != "" || o != nil && o.Internal) {
		s.Consent, s.Details = ConsentAddresses, append(s.Details, "give back floating IP "+f.FloatingIP)
	}
	for _, f := range p.former {
		s.Consent, s.Details = ConsentAddresses, append(s.Details, "take floating IP "+f.FloatingIP+" off, which stays yours")
	}
}

// lookForFormer finds the floating IPs that the API's address has instead of the one it is to have: of the user's, whom the document
// named formerly. A port has one at a time. It asks nobody where nothing is missing.
func (p *Provider) lookForFormer(ctx context.Context) error {
	p.former = nil
	port := p.frontPort()
	if o := p.octavia(); port == "" || o != nil && o.Internal || p.hasFloatingIP(port) {
		return nil
	}
	if _, ok := p.frontIP(port); ok {
		return nil
	}
	var err error
	p.former, err = p.usersOwn(ctx, port)
	return err
}

// usersOwn lists the floating IPs of a port that are not the cluster's.
func (p *Provider) usersOwn(ctx context.Context, portID string) ([]floatingips.FloatingIP, error) {
	c, err := p.network(ctx)
	if err != nil {
		return nil, err
	}
	all, err := pages(ctx, floatingips.List(c, floatingips.ListOpts{PortID: portID}), floatingips.ExtractFloatingIPs)
	return slices.DeleteFunc(all, func(f floatingips.FloatingIP) bool { return f.PortID != portID || p.n.ours(f.Description, f.Tags) }),
		wrap(err, "list the floating IPs of port %s", portID)
}

// ensureFrontIP has the user's floating IP, or one made for it, lead to the port of the API's address.
func (p *Provider) ensureFrontIP(ctx context.Context, portID, role string) error {
	for _, f := range p.former {
		if err := p.takeOff(ctx, f); err != nil {
			return err
		}
	}
	p.former = nil
	if p.reservedIP() == "" {
		_, err := p.ensureFloatingIP(ctx, portID, p.n.roleTags(role))
		return err
	}
	if err := fresh(ctx, p.known.reserved, p.known.floating); err != nil {
		return err
	}
	if err := p.checkReserved(ctx); err != nil {
		return err
	}
	f, _ := p.known.reserved.find(anything)
	if f.PortID == portID {
		return nil
	}
	if made, ok := p.floatingOf(portID); ok { // a port's address has one
		if err := p.removeFloating(ctx, []floatingips.FloatingIP{made}); err != nil {
			return err
		}
	}
	return p.leadReserved(ctx, f, portID)
}

// releaseReserved takes the user's floating IP off the cluster, for the router has to stay as long as it leads anywhere in there; also
// one that the document does not name any more.
func (p *Provider) releaseReserved(ctx context.Context) error {
	port := p.frontPort()
	if port == "" {
		return nil
	}
	all, err := p.usersOwn(ctx, port)
	if err != nil {
		return err
	}
	for _, f := range all {
		p.known.reserved.doubt()
		if err := p.takeOff(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// takeOff has a floating IP of the user's lead nowhere.
func (p *Provider) takeOff(ctx context.Context, f floatingips.FloatingIP) error {
	c, err := p.network(ctx)
	if err != nil {
		return err
	}
	err = floatingips.Update(ctx, c, f.ID, floatingips.UpdateOpts{PortID: new("")}).Err
	return wrap(unlessGone(err), "take floating IP %s off the cluster", f.FloatingIP)
}

func (p *Provider) leadReserved(ctx context.Context, f floatingips.FloatingIP, portID string) error {
	c, err := p.network(ctx)
	if err != nil {
		return err
	}
	got, err := floatingips.Update(ctx, c, f.ID, floatingips.UpdateOpts{PortID: &portID}).Extract()
	_, err = made(p.known.reserved, got, err, "lead floating IP %s to port %s", f.FloatingIP, portID)
	return err
}
