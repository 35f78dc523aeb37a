package openstack

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// ensureFloatingIP returns the floating IP of a port: its current one, else an unattached one from an interrupted run, else a new one. The
// port's network must have a way out by then.
func (p *Provider) ensureFloatingIP(ctx context.Context, portID string, tags []string) (floatingips.FloatingIP, error) {
	p.floatingMu.Lock() // two steps must not adopt the same floating IP
	defer p.floatingMu.Unlock()
	if err := p.known.floating.Fresh(ctx); err != nil {
		return floatingips.FloatingIP{}, err
	}
	c, err := p.network(ctx)
	if err != nil {
		return floatingips.FloatingIP{}, err
	}
	f, ok := p.floatingOf(portID)
	if !ok {
		f, ok = p.known.floating.Find(func(f floatingips.FloatingIP) bool { return p.isFree(f, tags) })
		if ok {
			got, err := floatingips.Update(ctx, c, f.ID, floatingips.UpdateOpts{PortID: &portID}).Extract()
			if f, err = cache.Made(p.known.floating, got, err, "give floating IP %s to port %s", f.FloatingIP, portID); err != nil {
				return f, err
			}
		}
	}
	if !ok {
		external, err := p.existing.External(ctx)
		if err != nil {
			return f, err
		}
		subnet, err := p.existing.FloatingSubnet(ctx)
		if err != nil {
			return f, err
		}
		got, err := floatingips.Create(ctx, c, floatingips.CreateOpts{FloatingNetworkID: external, SubnetID: subnet, PortID: portID, Description: p.n.Mark()}).Extract()
		var failed error
		if f, ok, failed = cache.Late(ctx, p.known.floating, err, func(f floatingips.FloatingIP) bool { return f.PortID == portID }); failed != nil {
			return f, failed
		}
		if !ok {
			if f, err = cache.Made(p.known.floating, got, err, "create a floating IP for port %s", portID); err != nil {
				return f, err
			}
		}
	}
	if f.Tags, err = p.tag(ctx, "floatingips", f.ID, f.Tags, tags); err != nil {
		return f, err
	}
	p.known.floating.Keep(f)
	return f, nil
}

// isFree reports whether a floating IP is unattached, not named by the document, and without tags of another machine or role than those in tags.
func (p *Provider) isFree(f floatingips.FloatingIP, tags []string) bool {
	if f.PortID != "" || p.isReserved(f) {
		return false
	}
	machine, role := marks.Tagged(f.Tags, marks.KeyMachine), marks.Tagged(f.Tags, marks.KeyRole)
	return machine == marks.Tagged(tags, marks.KeyMachine) && (role == "" || role == marks.Tagged(tags, marks.KeyRole)) || machine == "" && role == ""
}

// floatingOf returns the floating IP of a port.
func (p *Provider) floatingOf(portID string) (floatingips.FloatingIP, bool) {
	return p.known.floating.Find(func(f floatingips.FloatingIP) bool { return portID != "" && f.PortID == portID })
}

// floatingOfMachine lists the floating IPs of a machine: its port's, and those whose tags name it.
func (p *Provider) floatingOfMachine(name string) []floatingips.FloatingIP {
	ports := map[string]bool{}
	for _, o := range p.portsOf(name) {
		ports[o.ID] = true
	}
	return p.known.floating.Filter(func(f floatingips.FloatingIP) bool {
		return marks.Tagged(f.Tags, marks.KeyMachine) == name || ports[f.PortID]
	})
}

// public returns the floating IP of a machine; empty if it has none.
func (p *Provider) public(name string) string {
	port, _ := p.portOf(name)
	f, _ := p.floatingOf(port.ID)
	return f.FloatingIP
}

// removeFloating releases floating IPs.
func (p *Provider) removeFloating(ctx context.Context, all []floatingips.FloatingIP) error {
	c, err := p.network(ctx)
	if err != nil {
		return err
	}
	for _, f := range all {
		err := floatingips.Delete(ctx, c, f.ID).ExtractErr()
		if err := cache.Removed(p.known.floating, f.ID, err, "give back floating IP %s", f.FloatingIP); err != nil {
			return err
		}
	}
	return nil
}

// unwantedAddresses lists the floating IPs of a machine whose shape no longer asks for one.
func (p *Provider) unwantedAddresses(m provider.MachineSpec) []string {
	var out []string
	if !p.shape(m.Role, m.Pool).WantsFloatingIP() {
		for _, f := range p.floatingOfMachine(m.Name) {
			out = append(out, "release floating IP "+f.FloatingIP)
		}
	}
	return out
}

// floatingMissing reports whether a machine lacks the floating IP that its shape asks for.
func (p *Provider) floatingMissing(m provider.MachineSpec) bool {
	return p.shape(m.Role, m.Pool).WantsFloatingIP() && p.public(m.Name) == ""
}

// floatingLack describes how a machine's floating IP differs from the wanted state; empty if it does not.
func (p *Provider) floatingLack(m provider.MachineSpec) string {
	if !p.shape(m.Role, m.Pool).WantsFloatingIP() {
		if len(p.floatingOfMachine(m.Name)) > 0 {
			return "its floating IP is no longer wanted"
		}
		return ""
	}
	port, _ := p.portOf(m.Name)
	f, ok := p.floatingOf(port.ID)
	switch {
	case !ok:
		return "it has no floating IP"
	case !slices.Contains(f.Tags, p.n.Mark()):
		return "its floating IP lacks tags"
	}
	return ""
}
