package openstack

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/provider"
)

// findSite looks up every security group and network that the machines' shapes name. It makes no call if they name none, or the second time.
func findSite(ctx context.Context, p *Provider) error {
	for _, m := range p.opts.Cluster.Machines() {
		s := p.shape(provider.Role(m.Role), m.Pool)
		for _, name := range s.SecurityGroups {
			if _, err := p.existing.Group(ctx, name); err != nil {
				return err
			}
		}
		for _, n := range s.Networks {
			if _, err := p.existing.Place(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// portSecurity returns the port security to ask of a machine's port: nil for the network's own. Most clouds let only the owner of a network set it.
func portSecurity(ctx context.Context, p *Provider, m provider.MachineSpec, network string) (*bool, error) {
	s := p.shape(m.Role, m.Pool)
	if s.PortSecurity == nil {
		return nil, nil
	}
	open, err := p.existing.Open(ctx, network)
	if err != nil || open == s.Unfiltered() {
		return nil, err
	}
	return s.PortSecurity, nil
}

// portGroups returns the security groups of a machine's port, none if Neutron does not filter it. findSite has found those that the document names.
func portGroups(p *Provider, m provider.MachineSpec) []string {
	s := p.shape(m.Role, m.Pool)
	if s.Unfiltered() {
		return []string{}
	}
	return append(p.groupIDs(m.Role), p.existing.Groups(s.SecurityGroups)...)
}

// sameSet compares lists regardless of their order.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
