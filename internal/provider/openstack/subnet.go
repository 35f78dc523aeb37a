package openstack

import (
	"context"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
)

// subnet returns the subnet of the machines: the cluster's own, or the existing one that the document names. It returns fail.NotReady before
// the cluster's own exists.
func (p *Provider) subnet(ctx context.Context) (subnets.Subnet, error) {
	if p.spec().Network.Existing != "" {
		return p.existing.Subnet(ctx)
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
	s, _ := p.existing.KnownSubnet()
	return s.CIDR
}

// knownSubnet returns the ID of the machines' subnet if it is known without a call to the cloud.
func (p *Provider) knownSubnet() string {
	if p.spec().Network.Existing == "" {
		s, _ := p.known.subnets.Find(cache.Anything)
		return s.ID
	}
	s, _ := p.existing.KnownSubnet()
	return s.ID
}
