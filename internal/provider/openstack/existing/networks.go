package existing

import (
	"context"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// KnownSubnet returns the existing subnet of the machines if it was found before; it makes no call.
func (f *Finder) KnownSubnet() (subnets.Subnet, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subnet == nil {
		return subnets.Subnet{}, false
	}
	return *f.subnet, true
}

// Subnet finds the IPv4 subnet of the existing network that the document names.
func (f *Finder) Subnet(ctx context.Context) (subnets.Subnet, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subnet != nil {
		return *f.subnet, nil
	}
	network, err := f.Network(ctx, f.spec.Network.Existing, "spec.provider.openstack.network.existing")
	if err != nil {
		return subnets.Subnet{}, err
	}
	c, err := f.cloud(ctx)
	if err != nil {
		return subnets.Subnet{}, err
	}
	all, err := cloud.Pages(ctx, subnets.List(c.Network, subnets.ListOpts{NetworkID: network.ID, IPVersion: 4}), subnets.ExtractSubnets)
	if err != nil {
		return subnets.Subnet{}, cloud.Wrap(err, "list the subnets of network %s", network.Name)
	}
	want := f.spec.Network.Subnet
	fit := called(all, want, func(s subnets.Subnet) (string, string) { return s.ID, s.Name })
	if len(fit) != 1 {
		return subnets.Subnet{}, fail.New(fail.Refused, "network %s has %d IPv4 subnets%s, one is needed", network.Name, len(fit), byName(want)).
			At("spec.provider.openstack.network.subnet").Do("give the ID of the one to use")
	}
	f.subnet = &fit[0]
	return fit[0], nil
}

// Network finds one network by name or ID.
func (f *Finder) Network(ctx context.Context, name, field string) (networks.Network, error) {
	c, err := f.cloud(ctx)
	if err != nil {
		return networks.Network{}, err
	}
	n, ok, err := identified(name, func(id string) (*networks.Network, error) { return networks.Get(ctx, c.Network, id).Extract() })
	all := []networks.Network{n}
	if err == nil && !ok {
		all, err = cloud.Pages(ctx, networks.List(c.Network, networks.ListOpts{Name: name}), networks.ExtractNetworks)
	}
	if err != nil {
		return networks.Network{}, cloud.Wrap(err, "look for network %s", name)
	}
	if len(all) != 1 {
		return networks.Network{}, cloud.NotOne(len(all), "networks", name, field)
	}
	return all[0], nil
}

// External returns the ID of the network that provides floating IPs and the router's gateway.
func (f *Finder) External(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.external != "" {
		return f.external, nil
	}
	c, err := f.cloud(ctx)
	if err != nil {
		return "", err
	}
	yes := true
	all, err := cloud.Pages(ctx, networks.List(c.Network, external.ListOptsExt{ListOptsBuilder: networks.ListOpts{}, External: &yes}), networks.ExtractNetworks)
	if err != nil {
		return "", cloud.Wrap(err, "list external networks")
	}
	want := f.spec.ExternalNetwork
	fit := called(all, want, func(n networks.Network) (string, string) { return n.ID, n.Name })
	if len(fit) != 1 {
		e := fail.New(fail.Refused, "the cloud has %d external networks%s, one is needed", len(fit), byName(want)).At("spec.provider.openstack.externalNetwork")
		if len(all) == 0 {
			return "", e.Do("put the machines into a network that is there (network.existing), without floating IPs, and the endpoint octavia with internal: true or direct")
		}
		var have []string
		for _, n := range all {
			have = append(have, n.Name)
		}
		return "", e.Do("give the name or ID of one of: %s", Listed(have))
	}
	f.external = fit[0].ID
	return fit[0].ID, nil
}

// Router finds the router that the document names.
func (f *Finder) Router(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.router != "" {
		return f.router, nil
	}
	c, err := f.cloud(ctx)
	if err != nil {
		return "", err
	}
	name := f.spec.Network.Router
	r, ok, err := identified(name, func(id string) (*routers.Router, error) { return routers.Get(ctx, c.Network, id).Extract() })
	all := []routers.Router{r}
	if err == nil && !ok {
		all, err = cloud.Pages(ctx, routers.List(c.Network, routers.ListOpts{Name: name}), routers.ExtractRouters)
	}
	if f.lacks.Learns(cloud.KindRouters, err) {
		all, err = nil, nil
	}
	if err != nil {
		return "", cloud.Wrap(err, "look for router %s", name)
	}
	if len(all) != 1 {
		return "", cloud.NotOne(len(all), "routers", name, "spec.provider.openstack.network.router")
	}
	f.router = all[0].ID
	return all[0].ID, nil
}
