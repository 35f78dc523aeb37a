package openstack

import (
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	servertags "github.com/gophercloud/gophercloud/v2/openstack/compute/v2/tags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/volume"
)

const labelsStep = "labels"

// relabel is the change of one resource's tags or metadata to the document's.
type relabel struct {
	what string
	run  func(context.Context, plan.Progress) error
}

// labelsPlan returns the step that gives existing resources the document's tags and metadata; nil if they have them. New resources are created
// with theirs.
func labelsPlan(p *Provider) *plan.Step {
	s := &plan.Step{
		ID: labelsStep, Action: plan.Change, Title: "change tags and metadata", Subject: "cluster", Reason: "they differ from the document",
		Timeout: 2 * p.opts.Timeouts.Step,
		Run: func(ctx context.Context, progress plan.Progress) error {
			if err := cache.Fresh(ctx, p.known.eager()...); err != nil {
				return err
			}
			g, ctx := errgroup.WithContext(ctx)
			g.SetLimit(cloud.MaxCalls)
			for _, r := range relabels(p) {
				g.Go(func() error { return r.run(ctx, progress) })
			}
			return g.Wait()
		},
	}
	for _, r := range relabels(p) {
		s.Details = append(s.Details, r.what)
	}
	if len(s.Details) == 0 {
		return nil
	}
	return s
}

// relabels lists the resources whose tags or metadata differ from the document's.
func relabels(p *Provider) []relabel {
	k := &p.known
	out := slices.Concat(
		retag(p, k.networks, "networks", "network", func(x *networks.Network) (string, string, *[]string) { return x.ID, x.Name, &x.Tags }),
		retag(p, k.subnets, "subnets", "subnet", func(x *subnets.Subnet) (string, string, *[]string) { return x.ID, x.CIDR, &x.Tags }),
		retag(p, k.routers, "routers", "router", func(x *routers.Router) (string, string, *[]string) { return x.ID, x.Name, &x.Tags }),
		retag(p, k.groups, "security-groups", "security group", func(x *groups.SecGroup) (string, string, *[]string) { return x.ID, x.Name, &x.Tags }),
		retag(p, k.ports, "ports", "port", func(x *ports.Port) (string, string, *[]string) { return x.ID, x.Name, &x.Tags }),
		retag(p, k.floating, "floatingips", "floating IP", func(x *floatingips.FloatingIP) (string, string, *[]string) {
			if p.floating.IsReserved(*x) { // the user's own
				return "", "", nil
			}
			return x.ID, x.FloatingIP, &x.Tags
		}))
	if b := p.balancer.Seen(); b != nil {
		if tags, changed := p.n.Site.Retag(b.LB.Tags); changed {
			out = append(out, relabel{"tags of load balancer " + b.LB.Name, func(ctx context.Context, progress plan.Progress) error {
				return p.balancer.Retag(ctx, tags, progress)
			}})
		}
	}
	for _, s := range k.servers.All() {
		out = append(out, relabelServer(p, s)...)
	}
	for _, v := range k.volumes.All() {
		if meta, changed := p.n.Site.Relabel(v.Metadata); changed && v.Status != volume.Deleting {
			out = append(out, relabel{"metadata of volume " + v.Name, func(ctx context.Context, _ plan.Progress) error { return p.volumes.SetMetadata(ctx, v, meta) }})
		}
	}
	return out
}

// retag lists the resources of one kind of Neutron's whose tags differ.
func retag[T any](p *Provider, known *cache.Cache[T], kind, what string, parts func(*T) (id, name string, tags *[]string)) []relabel {
	var out []relabel
	for _, item := range known.All() {
		id, name, have := parts(&item)
		if have == nil {
			continue
		}
		want, changed := p.n.Site.Retag(*have)
		if !changed {
			continue
		}
		out = append(out, relabel{"tags of " + what + " " + name, func(ctx context.Context, _ plan.Progress) error {
			c, err := p.network(ctx)
			if err != nil {
				return err
			}
			got, err := attributestags.ReplaceAll(ctx, c, kind, id, attributestags.ReplaceAllOpts{Tags: want}).Extract()
			if err != nil {
				known.Invalidate()
				return cloud.Wrap(cloud.UnlessGone(err), "tag %s %s", what, name)
			}
			known.Change(id, func(t *T) {
				_, _, tags := parts(t)
				*tags = got
			})
			return nil
		}})
	}
	return out
}

// relabelServer lists the differences of a server. Nova changes no metadata of a server that it builds, nor of a broken one.
func relabelServer(p *Provider, s servers.Server) []relabel {
	if s.Status == serverBuild || s.Status == serverError || s.Status == serverDeleted || s.TaskState == "deleting" {
		return nil
	}
	var out []relabel
	if s.Tags != nil {
		if tags, changed := p.n.Site.Retag(*s.Tags); changed {
			out = append(out, relabel{"tags of server " + s.Name, func(ctx context.Context, _ plan.Progress) error {
				c, err := p.cloud(ctx)
				if err != nil {
					return err
				}
				err = servertags.ReplaceAll(ctx, c.Compute, s.ID, servertags.ReplaceAllOpts{Tags: tags}).Err
				p.known.servers.Change(s.ID, func(s *servers.Server) { s.Tags = &tags })
				return cloud.Wrap(cloud.UnlessGone(err), "tag server %s", s.Name)
			}})
		}
	}
	if meta, changed := p.n.Site.Relabel(s.Metadata); changed {
		out = append(out, relabel{"metadata of server " + s.Name, func(ctx context.Context, _ plan.Progress) error {
			c, err := p.cloud(ctx)
			if err != nil {
				return err
			}
			err = servers.ResetMetadata(ctx, c.Compute, s.ID, servers.MetadataOpts(meta)).Err
			p.known.servers.Change(s.ID, func(s *servers.Server) { s.Metadata = meta })
			return cloud.Wrap(cloud.UnlessGone(err), "set the metadata of server %s", s.Name)
		}})
	}
	return out
}
