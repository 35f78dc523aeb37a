package openstack

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// caches returns the caches of the cluster's resources; each kind has its own list function.
func (p *Provider) caches() known {
	return known{
		networks: neutron(p, "networks", networks.ExtractNetworks,
			func(c *gophercloud.ServiceClient, q query) pagination.Pager {
				return networks.List(c, networks.ListOpts{Description: q.description, Tags: q.tags, NotTags: q.notTags})
			},
			func(n networks.Network) (string, string, []string) { return n.ID, n.Description, n.Tags }),
		subnets: neutron(p, "subnets", subnets.ExtractSubnets,
			func(c *gophercloud.ServiceClient, q query) pagination.Pager {
				return subnets.List(c, subnets.ListOpts{Description: q.description, Tags: q.tags, NotTags: q.notTags})
			},
			func(s subnets.Subnet) (string, string, []string) { return s.ID, s.Description, s.Tags }),
		routers: neutron(p, cloud.KindRouters, routers.ExtractRouters,
			func(c *gophercloud.ServiceClient, q query) pagination.Pager {
				return routers.List(c, routers.ListOpts{Description: q.description, Tags: q.tags, NotTags: q.notTags})
			},
			func(r routers.Router) (string, string, []string) { return r.ID, r.Description, r.Tags }),
		groups: neutron(p, cloud.KindGroups, groups.ExtractGroups,
			func(c *gophercloud.ServiceClient, q query) pagination.Pager {
				return groups.List(c, groups.ListOpts{Description: q.description, Tags: q.tags, NotTags: q.notTags})
			},
			func(g groups.SecGroup) (string, string, []string) { return g.ID, g.Description, g.Tags }),
		ports: neutron(p, "ports", ports.ExtractPorts,
			func(c *gophercloud.ServiceClient, q query) pagination.Pager {
				return ports.List(c, ports.ListOpts{Description: q.description, Tags: q.tags, NotTags: q.notTags})
			},
			func(o ports.Port) (string, string, []string) { return o.ID, o.Description, o.Tags }),
		floating: neutron(p, cloud.KindFloating, floatingips.ExtractFloatingIPs,
			func(c *gophercloud.ServiceClient, q query) pagination.Pager {
				return floatingips.List(c, floatingips.ListOpts{Description: q.description, Tags: q.tags, NotTags: q.notTags})
			},
			func(f floatingips.FloatingIP) (string, string, []string) { return f.ID, f.Description, f.Tags }),
		servers:      cache.New(func(s servers.Server) string { return s.ID }, p.listServers),
		volumes:      cache.New(func(v volumes.Volume) string { return v.ID }, p.listVolumes),
		serverGroups: cache.New(func(g servergroups.ServerGroup) string { return g.ID }, p.listServerGroups),
		keypairs:     cache.New(func(k keypairs.KeyPair) string { return k.Name }, p.listKeypairs),
	}
}

// query holds the filters of a Neutron list.
type query struct{ description, tags, notTags, network, device, group string }

// neutron returns the cache of one kind of Neutron resource. The cluster's resources carry its tag, regardless of their description, or its
// mark in the description, which they have from creation on. A separate query asks for the latter: only an interrupted run leaves such
// resources, and an empty list costs the cloud almost nothing.
func neutron[T any](p *Provider, what string, extract func(pagination.Page) ([]T, error),
	pager func(*gophercloud.ServiceClient, query) pagination.Pager, marks func(T) (id, description string, tags []string),
) *cache.Cache[T] {
	mark := p.n.Mark()
	list := func(ctx context.Context) ([]T, error) {
		c, err := p.cloud(ctx)
		if err != nil {
			return nil, err
		}
		var out []T
		seen := map[string]bool{}
		for _, q := range []query{{description: mark, notTags: mark}, {tags: mark}} { // in this order: a resource tagged between the two calls shows in the second
			all, err := cloud.Pages(ctx, pager(c.Network, q), extract)
			if p.lacks.Learns(what, err) {
				return nil, nil
			}
			if err != nil {
				return nil, cloud.Wrap(err, "list %s", what)
			}
			for _, item := range all { // an old cloud may ignore an unknown filter, so every item is checked
				id, description, tags := marks(item)
				if p.n.Ours(description, tags) && !seen[id] {
					seen[id] = true
					out = append(out, item)
				}
			}
		}
		return out, nil
	}
	return cache.New(func(item T) string { id, _, _ := marks(item); return id }, list)
}

// listServers lists the cluster's servers.
func (p *Provider) listServers(ctx context.Context) ([]servers.Server, error) {
	return p.serverDetails(ctx, servers.ListOpts{})
}

// serverDetails lists the cluster's servers that match o: filtered by tag, then by the exact cluster ID in their metadata.
func (p *Provider) serverDetails(ctx context.Context, o servers.ListOpts) ([]servers.Server, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, err
	}
	o.Tags = p.n.ServerTag()
	all, err := cloud.Pages(ctx, servers.List(c.Compute, o), servers.ExtractServers)
	if err != nil {
		return nil, cloud.Wrap(err, "list servers")
	}
	var out []servers.Server
	for _, s := range all {
		if s.Metadata[marks.Underscored(marks.KeyCluster)] != p.n.ID {
			continue
		}
		if s, err = withFault(ctx, c, s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// withFault gets a failed server individually if the list omits its fault. Lists never include it for servers without a valid host: Nova keeps
// these servers and their faults in another database (cell0), and its lists read only the servers from there.
func withFault(ctx context.Context, c *cloud.Cloud, s servers.Server) (servers.Server, error) {
	if s.Status != serverError || s.Fault.Message != "" {
		return s, nil
	}
	whole, err := servers.Get(ctx, c.Compute, s.ID).Extract()
	if err == nil {
		s.Fault = whole.Fault
	}
	return s, cloud.Wrap(cloud.UnlessGone(err), "look why server %s failed", s.Name)
}

// listVolumes lists the volumes of the cluster's machines. Volumes of PersistentVolumeClaims carry other metadata.
func (p *Provider) listVolumes(ctx context.Context) ([]volumes.Volume, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.VolumesWith(ctx, marks.Underscored(marks.KeyCluster), p.n.ID)
	return all, cloud.Wrap(err, "list volumes")
}

// listServerGroups lists the project's server groups whose names are the cluster's; server groups can't carry marks.
func (p *Provider) listServerGroups(ctx context.Context) ([]servergroups.ServerGroup, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, err
	}
	var out []servergroups.ServerGroup
	const page = 500
	for offset := 0; ; offset += page {
		all, err := cloud.Pages(ctx, servergroups.List(c.Compute, servergroups.ListOpts{Limit: page, Offset: offset}), servergroups.ExtractServerGroups)
		if err != nil {
			return nil, cloud.Wrap(err, "list server groups")
		}
		for _, g := range all {
			if p.n.Owns(g.Name) {
				out = append(out, g)
			}
		}
		if len(all) < page {
			return out, nil
		}
	}
}

// listKeypairs returns the cluster's keypair if it exists.
func (p *Provider) listKeypairs(ctx context.Context) ([]keypairs.KeyPair, error) {
	c, err := p.cloud(ctx)
	if err != nil {
		return nil, err
	}
	k, err := keypairs.Get(ctx, c.Compute, p.n.Name(), nil).Extract()
	switch {
	case cloud.Gone(err):
		return nil, nil
	case err != nil:
		return nil, cloud.Wrap(err, "look for keypair %s", p.n.Name())
	}
	return []keypairs.KeyPair{*k}, nil
}
