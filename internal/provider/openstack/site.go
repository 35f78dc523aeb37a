package openstack

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// site caches the existing resources that the document names beside the machines' network. lookups.mu guards it.
type site struct {
	groups         map[string]string                    // IDs of security groups by the document's names
	places         map[v1alpha1.MachineNetwork]subnetOf // of additional ports
	open           map[string]bool                      // networks by ID, and whether their ports are not filtered
	floatingSubnet string
}

// subnetOf is where an additional port lies.
type subnetOf struct {
	network, subnet string
	open            bool // the network has no port security, so its ports take no security groups
}

// findSite looks up every security group and network that the machines' shapes name. It makes no call if they name none, or the second time.
func findSite(ctx context.Context, p *Provider) error {
	for _, m := range p.opts.Cluster.Machines() {
		s := p.shape(provider.Role(m.Role), m.Pool)
		for _, name := range s.SecurityGroups {
			if _, err := siteGroup(ctx, p, name); err != nil {
				return err
			}
		}
		for _, n := range s.Networks {
			if _, err := sitePlace(ctx, p, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// siteGroup returns the ID of an existing security group.
func siteGroup(ctx context.Context, p *Provider, name string) (string, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if id := p.lookups.site.groups[name]; id != "" {
		return id, nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return "", err
	}
	g, ok, err := identified(name, func(id string) (*groups.SecGroup, error) { return groups.Get(ctx, c.Network, id).Extract() })
	all := []groups.SecGroup{g}
	if err == nil && !ok {
		all, err = cloud.Pages(ctx, groups.List(c.Network, groups.ListOpts{Name: name}), groups.ExtractGroups)
	}
	if p.lacks.learns(kindGroups, err) {
		all, err = nil, nil
	}
	if err != nil {
		return "", cloud.Wrap(err, "look for security group %s", name)
	}
	if len(all) != 1 {
		return "", cloud.NotOne(len(all), "security groups", name, "machine.securityGroups")
	}
	if p.lookups.site.groups == nil {
		p.lookups.site.groups = map[string]string{}
	}
	p.lookups.site.groups[name] = all[0].ID
	return all[0].ID, nil
}

// sitePlace returns the network and subnet of an additional port; the subnet is empty if the document names none.
func sitePlace(ctx context.Context, p *Provider, n v1alpha1.MachineNetwork) (subnetOf, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if at, ok := p.lookups.site.places[n]; ok {
		return at, nil
	}
	network, err := p.findNetwork(ctx, n.Network, "machine.networks")
	if err != nil {
		return subnetOf{}, err
	}
	at := subnetOf{network: network.ID}
	if at.open, err = openNetwork(ctx, p, network.ID); err != nil {
		return at, err
	}
	if n.Subnet != "" {
		if at.subnet, err = siteSubnet(ctx, p, network.ID, n.Subnet, "machine.networks"); err != nil {
			return at, err
		}
	}
	if p.lookups.site.places == nil {
		p.lookups.site.places = map[v1alpha1.MachineNetwork]subnetOf{}
	}
	p.lookups.site.places[n] = at
	return at, nil
}

// openNetwork reports whether a network has port security switched off. The caller holds lookups.mu.
func openNetwork(ctx context.Context, p *Provider, id string) (bool, error) {
	if open, ok := p.lookups.site.open[id]; ok {
		return open, nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return false, err
	}
	var at place
	if err := cloud.Get(ctx, c.Network, &at, "networks", id); err != nil {
		return false, cloud.Wrap(err, "look at network %s", id)
	}
	if p.lookups.site.open == nil {
		p.lookups.site.open = map[string]bool{}
	}
	p.lookups.site.open[id] = off(at.Network.PortSecurity)
	return p.lookups.site.open[id], nil
}

// portSecurity returns the port security to ask of a machine's port: nil for the network's own. Most clouds let only the owner of a network set it.
func portSecurity(ctx context.Context, p *Provider, m provider.MachineSpec, network string) (*bool, error) {
	s := p.shape(m.Role, m.Pool)
	if s.PortSecurity == nil {
		return nil, nil
	}
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	open, err := openNetwork(ctx, p, network)
	if err != nil || open == s.Unfiltered() {
		return nil, err
	}
	return s.PortSecurity, nil
}

// siteSubnet returns the ID of a subnet of a network, or of any network if none is given. Clouds hide subnets of other projects' networks, as external ones
// usually are: an ID that the cloud does not show is taken as it is.
func siteSubnet(ctx context.Context, p *Provider, network, name, field string) (string, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return "", err
	}
	all, err := cloud.Pages(ctx, subnets.List(c.Network, subnets.ListOpts{NetworkID: network}), subnets.ExtractSubnets)
	if err != nil {
		return "", cloud.Wrap(err, "look for subnet %s", name)
	}
	fit := called(all, name, func(s subnets.Subnet) (string, string) { return s.ID, s.Name })
	switch {
	case len(fit) == 1:
		return fit[0].ID, nil
	case len(fit) == 0 && uuid.MatchString(name):
		return name, nil
	case len(fit) == 0:
		return "", fail.New(fail.Refused, "network %s shows no subnet called %s", network, name).At(field).Do("give its ID: clouds hide the subnets of other projects' networks")
	}
	return "", cloud.NotOne(len(fit), "subnets", name, field)
}

// floatingSubnet returns the ID of the subnet of floating IPs; empty if the cloud chooses.
func floatingSubnet(ctx context.Context, p *Provider) (string, error) {
	name := p.spec().FloatingSubnet
	if name == "" {
		return "", nil
	}
	external, err := p.externalNetwork(ctx)
	if err != nil {
		return "", err
	}
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if p.lookups.site.floatingSubnet == "" {
		p.lookups.site.floatingSubnet, err = siteSubnet(ctx, p, external, name, "spec.provider.openstack.floatingSubnet")
	}
	return p.lookups.site.floatingSubnet, err
}

// balancerClasses returns the document's classes of load balancers with the IDs of their networks and subnets.
func balancerClasses(ctx context.Context, p *Provider) ([]provider.BalancerClass, error) {
	const field = "spec.provider.openstack.loadBalancerClasses"
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	var out []provider.BalancerClass
	for _, c := range p.spec().LoadBalancerClasses {
		class := provider.BalancerClass{Name: c.Name, FloatingSubnetTags: c.FloatingSubnetTags}
		for _, x := range []struct {
			network, subnet     string
			networkID, subnetID *string
		}{{c.FloatingNetwork, c.FloatingSubnet, &class.FloatingNetworkID, &class.FloatingSubnetID}, {c.Network, c.Subnet, &class.NetworkID, &class.SubnetID}} {
			if x.network != "" {
				n, err := p.findNetwork(ctx, x.network, field)
				if err != nil {
					return nil, err
				}
				*x.networkID = n.ID
			}
			if x.subnet != "" {
				id, err := siteSubnet(ctx, p, *x.networkID, x.subnet, field)
				if err != nil {
					return nil, err
				}
				*x.subnetID = id
			}
		}
		out = append(out, class)
	}
	return out, nil
}

// portGroups returns the security groups of a machine's port, none if Neutron does not filter it. findSite has found those that the document names.
func portGroups(p *Provider, m provider.MachineSpec) []string {
	s := p.shape(m.Role, m.Pool)
	if s.Unfiltered() {
		return []string{}
	}
	return append(p.groupIDs(m.Role), siteGroups(p, s)...)
}

// siteGroups returns the IDs of a shape's additional security groups.
func siteGroups(p *Provider, s v1alpha1.MachineShape) []string {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	var out []string
	for _, name := range s.SecurityGroups {
		if id := p.lookups.site.groups[name]; id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// sameSet compares lists regardless of their order.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
