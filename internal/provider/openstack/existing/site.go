package existing

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

// Place is where an additional port lies.
type Place struct {
	Network, Subnet string
	Open            bool // the network has no port security, so its ports take no security groups
}

// Group returns the ID of an existing security group.
func (f *Finder) Group(ctx context.Context, name string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id := f.groups[name]; id != "" {
		return id, nil
	}
	c, err := f.cloud(ctx)
	if err != nil {
		return "", err
	}
	g, ok, err := identified(name, func(id string) (*groups.SecGroup, error) { return groups.Get(ctx, c.Network, id).Extract() })
	all := []groups.SecGroup{g}
	if err == nil && !ok {
		all, err = cloud.Pages(ctx, groups.List(c.Network, groups.ListOpts{Name: name}), groups.ExtractGroups)
	}
	if f.lacks.Learns(cloud.KindGroups, err) {
		all, err = nil, nil
	}
	if err != nil {
		return "", cloud.Wrap(err, "look for security group %s", name)
	}
	if len(all) != 1 {
		return "", cloud.NotOne(len(all), "security groups", name, "machine.securityGroups")
	}
	if f.groups == nil {
		f.groups = map[string]string{}
	}
	f.groups[name] = all[0].ID
	return all[0].ID, nil
}

// Groups returns the IDs of those of the named security groups that were found before, without duplicates.
func (f *Finder) Groups(names []string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, name := range names {
		if id := f.groups[name]; id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// Place returns the network and subnet of an additional port; the subnet is empty if the document names none.
func (f *Finder) Place(ctx context.Context, n v1alpha1.MachineNetwork) (Place, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at, ok := f.places[n]; ok {
		return at, nil
	}
	network, err := f.Network(ctx, n.Network, "machine.networks")
	if err != nil {
		return Place{}, err
	}
	at := Place{Network: network.ID}
	if at.Open, err = f.openNetwork(ctx, network.ID); err != nil {
		return at, err
	}
	if n.Subnet != "" {
		if at.Subnet, err = f.siteSubnet(ctx, network.ID, n.Subnet, "machine.networks"); err != nil {
			return at, err
		}
	}
	if f.places == nil {
		f.places = map[v1alpha1.MachineNetwork]Place{}
	}
	f.places[n] = at
	return at, nil
}

// Open reports whether a network has port security switched off.
func (f *Finder) Open(ctx context.Context, id string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.openNetwork(ctx, id)
}

// openNetwork reports whether a network has port security switched off. The caller holds f.mu.
func (f *Finder) openNetwork(ctx context.Context, id string) (bool, error) {
	if open, ok := f.open[id]; ok {
		return open, nil
	}
	c, err := f.cloud(ctx)
	if err != nil {
		return false, err
	}
	var at struct {
		Network struct {
			PortSecurity *bool `json:"port_security_enabled"`
		} `json:"network"`
	}
	if err := cloud.Get(ctx, c.Network, &at, "networks", id); err != nil {
		return false, cloud.Wrap(err, "look at network %s", id)
	}
	if f.open == nil {
		f.open = map[string]bool{}
	}
	f.open[id] = at.Network.PortSecurity != nil && !*at.Network.PortSecurity
	return f.open[id], nil
}

// siteSubnet returns the ID of a subnet of a network, or of any network if none is given. Clouds hide subnets of other projects' networks, as external ones
// usually are: an ID that the cloud does not show is taken as it is.
func (f *Finder) siteSubnet(ctx context.Context, network, name, field string) (string, error) {
	c, err := f.cloud(ctx)
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

// FloatingSubnet returns the ID of the subnet of floating IPs; empty if the cloud chooses.
func (f *Finder) FloatingSubnet(ctx context.Context) (string, error) {
	name := f.spec.FloatingSubnet
	if name == "" {
		return "", nil
	}
	external, err := f.External(ctx)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.floatingSubnet == "" {
		f.floatingSubnet, err = f.siteSubnet(ctx, external, name, "spec.provider.openstack.floatingSubnet")
	}
	return f.floatingSubnet, err
}

// BalancerClasses returns the document's classes of load balancers with the IDs of their networks and subnets.
func (f *Finder) BalancerClasses(ctx context.Context) ([]provider.BalancerClass, error) {
	const field = "spec.provider.openstack.loadBalancerClasses"
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []provider.BalancerClass
	for _, c := range f.spec.LoadBalancerClasses {
		class := provider.BalancerClass{Name: c.Name, FloatingSubnetTags: c.FloatingSubnetTags}
		for _, x := range []struct {
			network, subnet     string
			networkID, subnetID *string
		}{{c.FloatingNetwork, c.FloatingSubnet, &class.FloatingNetworkID, &class.FloatingSubnetID}, {c.Network, c.Subnet, &class.NetworkID, &class.SubnetID}} {
			if x.network != "" {
				n, err := f.Network(ctx, x.network, field)
				if err != nil {
					return nil, err
				}
				*x.networkID = n.ID
			}
			if x.subnet != "" {
				id, err := f.siteSubnet(ctx, *x.networkID, x.subnet, field)
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
