package openstack

import (
	"context"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// The API's floating IP is either created for the cluster, or the user's own, which may already be published: that one has no mark, is attached to
// the API, and stays with the user when the cluster is removed. One that was created for the API becomes the user's once the document names it.

const reservedField = "spec.endpoint.floatingIP"

// reservedIP returns the address of the user's own floating IP for the API; empty if Naupegos makes one.
func (p *Provider) reservedIP() string { return p.opts.Cluster.Spec.Endpoint.FloatingIP }

// listReserved looks up the user's floating IP; it makes no call if the document names none.
func (p *Provider) listReserved(ctx context.Context) ([]floatingips.FloatingIP, error) {
	if p.reservedIP() == "" {
		return nil, nil
	}
	c, me, err := p.signedIn(ctx)
	if err != nil {
		return nil, err
	}
	// administrators see the floating IPs of all projects
	opts := floatingips.ListOpts{FloatingIP: p.reservedIP(), ProjectID: me.Project.ID}
	all, err := cloud.Pages(ctx, floatingips.List(c.Network, opts), floatingips.ExtractFloatingIPs)
	if p.lacks.Learns(cloud.KindFloating, err) {
		return nil, nil
	}
	return keepReserved(all, p.reservedIP(), me.Project.ID), cloud.Wrap(err, "look for floating IP %s", p.reservedIP())
}

// keepReserved filters the list again, because some clouds ignore unknown filters.
func keepReserved(all []floatingips.FloatingIP, address, project string) []floatingips.FloatingIP {
	for _, f := range all {
		if f.FloatingIP == address && f.ProjectID == project {
			return []floatingips.FloatingIP{f}
		}
	}
	return nil
}

// isReserved reports whether a floating IP is the one that the document names, and therefore the user's.
func (p *Provider) isReserved(f floatingips.FloatingIP) bool {
	return p.reservedIP() != "" && f.FloatingIP == p.reservedIP()
}

// madeFor returns the machine or the other cluster that a floating IP was made for; empty if there is none.
func (p *Provider) madeFor(f floatingips.FloatingIP) string {
	tags := append([]string{f.Description}, f.Tags...)
	if machine := marks.Tagged(tags, marks.KeyMachine); machine != "" {
		return "machine " + machine
	}
	if id := marks.Tagged(tags, marks.KeyCluster); id != "" && id != p.n.ID {
		return "cluster " + id
	}
	return ""
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

// checkReserved checks that the user's floating IP exists and is free.
func (p *Provider) checkReserved(context.Context) error {
	if p.reservedIP() == "" {
		return nil
	}
	f, ok := p.known.reserved.Find(cache.Anything)
	switch {
	case !ok:
		return fail.New(fail.Refused, "the project has no floating IP %s", p.reservedIP()).At(reservedField).
			Do("make it (openstack floating ip create --floating-ip-address %s NETWORK), or leave it out", p.reservedIP())
	case p.madeFor(f) != "":
		return fail.New(fail.Refused, "floating IP %s was made for %s, and goes with it", f.FloatingIP, p.madeFor(f)).At(reservedField).
			Do("name one of your own, or leave it out")
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
	return p.known.reserved.Find(func(f floatingips.FloatingIP) bool { return portID != "" && f.PortID == portID })
}

// frontIPLack describes how the floating IP of the API's address differs from the wanted state; empty if it does not.
func (p *Provider) frontIPLack(portID string) string {
	f, ok := p.frontIP(portID)
	switch {
	case !ok && p.reservedIP() != "":
		return "floating IP " + p.reservedIP() + " is not associated with it"
	case ok && p.reservedIP() != "" && p.madeFor(f) != "": // refused by checkReserved
		return "floating IP " + p.reservedIP() + " was made for " + p.madeFor(f)
	case ok && p.reservedIP() != "" && p.n.Ours(f.Description, f.Tags):
		return "floating IP " + p.reservedIP() + " belongs to the cluster so far, and becomes yours"
	case !ok || p.reservedIP() == "" && !p.marked(f.Tags): // an interrupted run can leave it without tags
		return "its floating IP is missing, or lacks tags"
	}
	return ""
}

// askForAddress makes a step require consent if it releases the floating IP that was made for the API's address, or detaches a floating IP of the user.
func (p *Provider) askForAddress(s *plan.Step, portID string) {
	f, ok := p.floatingOf(portID)
	if o := p.octavia(); ok && !p.isReserved(f) && (p.reservedIP() != "" || o != nil && o.Internal) {
		s.Consent, s.Details = provider.ConsentAddresses, append(s.Details, "release floating IP "+f.FloatingIP)
	}
	for _, f := range p.former {
		s.Consent, s.Details = provider.ConsentAddresses, append(s.Details, "disassociate floating IP "+f.FloatingIP+", which remains yours")
	}
}

// lookForFormer finds the user's floating IPs that the API's address still has although the document no longer names them. A port's address has
// at most one floating IP, so lookForFormer makes no call if the address has the cluster's own or the one that the document names.
func (p *Provider) lookForFormer(ctx context.Context) error {
	p.former = nil
	port := p.frontPort()
	if port == "" || p.hasFloatingIP(port) {
		return nil
	}
	if _, ok := p.frontIP(port); ok {
		return nil
	}
	var err error
	p.former, err = p.usersOwn(ctx, port)
	return err
}

// usersOwn lists the floating IPs of a port that do not belong to the cluster.
func (p *Provider) usersOwn(ctx context.Context, portID string) ([]floatingips.FloatingIP, error) {
	c, err := p.network(ctx)
	if err != nil {
		return nil, err
	}
	all, err := cloud.Pages(ctx, floatingips.List(c, floatingips.ListOpts{PortID: portID}), floatingips.ExtractFloatingIPs)
	if p.lacks.Learns(cloud.KindFloating, err) {
		return nil, nil
	}
	return slices.DeleteFunc(all, func(f floatingips.FloatingIP) bool { return f.PortID != portID || p.n.Ours(f.Description, f.Tags) }),
		cloud.Wrap(err, "list the floating IPs of port %s", portID)
}

// ensureFrontIP attaches the user's floating IP or, if the document names none, the cluster's own to the port of the API's address.
func (p *Provider) ensureFrontIP(ctx context.Context, portID, role string) error {
	if err := p.takeOffFormer(ctx, portID); err != nil {
		return err
	}
	if p.reservedIP() == "" {
		_, err := p.ensureFloatingIP(ctx, portID, p.n.RoleTags(role))
		return err
	}
	if err := cache.Fresh(ctx, p.known.reserved, p.known.floating); err != nil {
		return err
	}
	if err := p.checkReserved(ctx); err != nil {
		return err
	}
	if err := p.adoptReserved(ctx); err != nil {
		return err
	}
	f, _ := p.known.reserved.Find(cache.Anything)
	if f.PortID == portID {
		return nil
	}
	if made, ok := p.floatingOf(portID); ok { // a port's address takes only one
		if err := p.removeFloating(ctx, []floatingips.FloatingIP{made}); err != nil {
			return err
		}
	}
	return p.leadReserved(ctx, f, portID)
}

// releaseReserved detaches the user's floating IP from the cluster, also one that the document no longer names, because the router can't go
// while a floating IP leads through it.
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
		p.known.reserved.Invalidate()
		if err := p.takeOff(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// takeOffFormer detaches the floating IPs that the user consented to detach from the port of the API's address. It leaves alone those that
// lead elsewhere by now.
func (p *Provider) takeOffFormer(ctx context.Context, portID string) error {
	if len(p.former) == 0 {
		return nil
	}
	there, err := p.usersOwn(ctx, portID)
	if err != nil {
		return err
	}
	for _, f := range there {
		if !slices.ContainsFunc(p.former, func(old floatingips.FloatingIP) bool { return old.ID == f.ID }) {
			continue
		}
		if err := p.takeOff(ctx, f); err != nil {
			return err
		}
	}
	p.former = nil
	return nil
}

// adoptable returns the floating IP that was made for the API and that the document names now.
func (p *Provider) adoptable() (floatingips.FloatingIP, bool) {
	return p.known.reserved.Find(func(f floatingips.FloatingIP) bool { return p.n.Ours(f.Description, f.Tags) && p.madeFor(f) == "" })
}

// adoptReserved makes that floating IP the user's by removing the cluster's marks, by which it would be released with the cluster. It removes
// the tags last, because they let it find the floating IP after an interruption.
func (p *Provider) adoptReserved(ctx context.Context) error {
	if _, ok := p.adoptable(); !ok {
		return nil
	}
	c, err := p.network(ctx)
	if err != nil {
		return err
	}
	if err := p.known.reserved.Load(ctx); err != nil { // the update must repeat the current port, or it would detach the floating IP
		return err
	}
	f, ok := p.adoptable()
	if !ok {
		return nil
	}
	opts := floatingips.UpdateOpts{Description: new(""), PortID: &f.PortID}
	if err := floatingips.Update(ctx, c, f.ID, opts).Err; err != nil {
		return cloud.Wrap(err, "take the cluster's mark off floating IP %s", f.FloatingIP)
	}
	f.Description = ""
	f.Tags = slices.DeleteFunc(slices.Clone(f.Tags), func(t string) bool { return strings.HasPrefix(t, marks.KeyPrefix) })
	if err := attributestags.ReplaceAll(ctx, c, "floatingips", f.ID, attributestags.ReplaceAllOpts{Tags: f.Tags}).Err; err != nil {
		return cloud.Wrap(err, "take the cluster's tags off floating IP %s", f.FloatingIP)
	}
	p.known.floating.Drop(f.ID)
	p.known.reserved.Keep(f)
	return nil
}

// takeOff detaches a floating IP of the user from its port.
func (p *Provider) takeOff(ctx context.Context, f floatingips.FloatingIP) error {
	c, err := p.network(ctx)
	if err != nil {
		return err
	}
	err = floatingips.Update(ctx, c, f.ID, floatingips.UpdateOpts{PortID: new("")}).Err
	return cloud.Wrap(cloud.UnlessGone(err), "take floating IP %s off the cluster", f.FloatingIP)
}

func (p *Provider) leadReserved(ctx context.Context, f floatingips.FloatingIP, portID string) error {
	c, err := p.network(ctx)
	if err != nil {
		return err
	}
	got, err := floatingips.Update(ctx, c, f.ID, floatingips.UpdateOpts{PortID: &portID}).Extract()
	_, err = cache.Made(p.known.reserved, got, err, "lead floating IP %s to port %s", f.FloatingIP, portID)
	return err
}
