package openstack

import (
	"context"
	"regexp"
	"sync"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// lookups caches the resources that the document's names stand for. Each is looked up when it is first needed.
type lookups struct {
	mu       sync.Mutex
	external string
	subnet   *subnets.Subnet
	router   string
	flavors  []flavors.Flavor // nil: not listed yet
	images   map[string]images.Image
	site     site

	volumeZones, serverZones []listedZone // nil: not asked yet
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$`)

// subnet returns the subnet of the machines: the cluster's own, or the existing one that the document names. It returns fail.NotReady before
// the cluster's own exists.
func (p *Provider) subnet(ctx context.Context) (subnets.Subnet, error) {
	if p.spec().Network.Existing != "" {
		return p.existingSubnet(ctx)
	}
	if s, ok := p.known.subnets.Find(func(subnets.Subnet) bool { return true }); ok {
		return s, nil
	}
	return subnets.Subnet{}, fail.New(fail.NotReady, "the cluster's subnet is not made yet").At(p.n.ID)
}

// cidr returns the machines' network if it is known without a call to the cloud; otherwise it is empty.
func (p *Provider) cidr() string {
	if p.spec().Network.Existing == "" {
		return p.spec().Network.CIDR
	}
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if p.lookups.subnet != nil {
		return p.lookups.subnet.CIDR
	}
	return ""
}

// existingSubnet finds the IPv4 subnet of the existing network that the document names.
func (p *Provider) existingSubnet(ctx context.Context) (subnets.Subnet, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if p.lookups.subnet != nil {
		return *p.lookups.subnet, nil
	}
	network, err := p.findNetwork(ctx, p.spec().Network.Existing, "spec.provider.openstack.network.existing")
	if err != nil {
		return subnets.Subnet{}, err
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return subnets.Subnet{}, err
	}
	all, err := cloud.Pages(ctx, subnets.List(c.Network, subnets.ListOpts{NetworkID: network.ID, IPVersion: 4}), subnets.ExtractSubnets)
	if err != nil {
		return subnets.Subnet{}, cloud.Wrap(err, "list the subnets of network %s", network.Name)
	}
	want := p.spec().Network.Subnet
	fit := called(all, want, func(s subnets.Subnet) (string, string) { return s.ID, s.Name })
	if len(fit) != 1 {
		return subnets.Subnet{}, fail.New(fail.Refused, "network %s has %d IPv4 subnets%s, one is needed", network.Name, len(fit), byName(want)).
			At("spec.provider.openstack.network.subnet").Do("give the ID of the one to use")
	}
	p.lookups.subnet = &fit[0]
	return fit[0], nil
}

// byName returns a name as part of a sentence; empty for an empty name.
func byName(name string) string {
	if name == "" {
		return ""
	}
	return " called " + name
}

// findNetwork finds one network by name or ID.
func (p *Provider) findNetwork(ctx context.Context, name, field string) (networks.Network, error) {
	c, err := p.cloud(ctx)
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

// externalNetwork returns the ID of the network that provides floating IPs and the router's gateway.
func (p *Provider) externalNetwork(ctx context.Context) (string, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if p.lookups.external != "" {
		return p.lookups.external, nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return "", err
	}
	yes := true
	all, err := cloud.Pages(ctx, networks.List(c.Network, external.ListOptsExt{ListOptsBuilder: networks.ListOpts{}, External: &yes}), networks.ExtractNetworks)
	if err != nil {
		return "", cloud.Wrap(err, "list external networks")
	}
	want := p.spec().ExternalNetwork
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
		return "", e.Do("give the name or ID of one of: %s", listed(have))
	}
	p.lookups.external = fit[0].ID
	return fit[0].ID, nil
}

// existingRouter finds the router that the document names.
func (p *Provider) existingRouter(ctx context.Context) (string, error) {
	p.lookups.mu.Lock()
	defer p.lookups.mu.Unlock()
	if p.lookups.router != "" {
		return p.lookups.router, nil
	}
	c, err := p.cloud(ctx)
	if err != nil {
		return "", err
	}
	name := p.spec().Network.Router
	r, ok, err := identified(name, func(id string) (*routers.Router, error) { return routers.Get(ctx, c.Network, id).Extract() })
	all := []routers.Router{r}
	if err == nil && !ok {
		all, err = cloud.Pages(ctx, routers.List(c.Network, routers.ListOpts{Name: name}), routers.ExtractRouters)
	}
	if p.lacks.learns(kindRouters, err) {
		all, err = nil, nil
	}
	if err != nil {
		return "", cloud.Wrap(err, "look for router %s", name)
	}
	if len(all) != 1 {
		return "", cloud.NotOne(len(all), "routers", name, "spec.provider.openstack.network.router")
	}
	p.lookups.router = all[0].ID
	return all[0].ID, nil
}
