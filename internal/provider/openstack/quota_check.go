package openstack

import (
	"context"
	"maps"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/quota"
)

// quotas compares what would be made with what the project's quotas leave. A service that does not tell its quotas (403, 404) is not
// checked: it refuses by itself what is too much.
func (f preflight) quotas(ctx context.Context, all map[string]flavors.Flavor) error {
	sizes := map[string]size{}
	for name, x := range all {
		sizes[name] = size{vcpus: x.VCPUs, ramMiB: x.RAM}
	}
	d := f.demand(f.want, sizes, f.cidr())
	have, err := f.allowances(ctx)
	if err != nil {
		return err
	}
	short := have.Shortages(d)
	if len(short) == 0 {
		return nil
	}
	f.found.add(aboutQuota, "the quotas of project %s are too small; have them raised, or want less:", f.me.Project.Name)
	for _, s := range short {
		f.found.add(aboutQuota, "  %s", s)
	}
	return nil
}

// allowances reads all services' quotas, side by side.
func (f preflight) allowances(ctx context.Context) (quota.Allowances, error) {
	project := f.me.Project.ID
	readers := []func(context.Context) (quota.Allowances, error){
		func(ctx context.Context) (quota.Allowances, error) { return quota.OfCompute(ctx, f.c.Compute) },
		func(ctx context.Context) (quota.Allowances, error) { return quota.OfNetwork(ctx, f.c.Network, project) },
	}
	if f.c.Volume != nil {
		readers = append(readers, func(ctx context.Context) (quota.Allowances, error) { return quota.OfVolumes(ctx, f.c.Volume, project) })
	}
	if c, err := f.c.LoadBalancer(); f.octavia() != nil && err == nil { // that there is none is told by versions
		readers = append(readers, func(ctx context.Context) (quota.Allowances, error) { return quota.OfBalancing(ctx, c, project) })
	}
	parts := make([]quota.Allowances, len(readers))
	g, gctx := errgroup.WithContext(ctx)
	for i, read := range readers {
		g.Go(func() (err error) {
			if parts[i], err = read(gctx); cloud.Untold(err) {
				return nil
			}
			return cloud.Wrap(err, "read quotas")
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := quota.Allowances{}
	for _, part := range parts {
		maps.Copy(out, part)
	}
	return out, nil
}
