package openstack

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"
)

// tag adds the missing tags to a Neutron resource, and returns its tags.
func (p *Provider) tag(ctx context.Context, kind, id string, have, want []string) ([]string, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return have, err
	}
	return c.Tag(ctx, kind, id, have, want)
}

// network returns the client of the network service.
func (p *Provider) network(ctx context.Context) (*gophercloud.ServiceClient, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, err
	}
	return c.Network, nil
}
