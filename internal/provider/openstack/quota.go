package openstack

import (
	"context"
	"maps"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/firewall"
	"github.com/naupegos/naupegos/internal/provider/openstack/quota"
)

// size is the CPU and memory that a flavor gives a server.
type size struct {
	vcpus, ramMiB int
}

// demand counts what an apply would create: the wanted resources that the last observation does not show. sizes maps the flavor names in the
// document to their sizes; subnet is the CIDR of the machines' network.
func demand(p *Provider, want provider.Wanted, sizes map[string]size, subnet string) quota.Demand {
	d := quota.Demand{}
	needMachines(p, d, want, sizes)
	needNetwork(p, d)
	needGroups(p, d, subnet)
	needFront(p, d, want, subnet)
	if p.opts.PublicKey != "" && len(p.known.keypairs.All()) == 0 {
		d[quota.Keypairs]++
	}
	return d
}

func needMachines(p *Provider, d quota.Demand, want provider.Wanted, sizes map[string]size) {
	groups, needed := map[string]int{}, map[string]bool{}
	for _, m := range want.Machines {
		s := p.shape(m.Role, m.Pool)
		if _, ok := p.portOf(m.Name); !ok {
			d[quota.Ports]++
		}
		if p.floating.Missing(m) {
			d[quota.FloatingIPs]++
		}
		for _, v := range s.Volumes {
			if _, ok := p.volumes.Data(m.Name, v.Name); !ok {
				d.Volume(v.SizeGiB, v.Type)
			}
		}
		group, _ := p.serverGroupName(m)
		if group != "" {
			groups[group]++
			d.Most(quota.GroupMembers, groups[group])
		}
		if _, ok := p.serverOf(m.Name); ok {
			continue
		}
		if group != "" && !needed[group] && p.serverGroup(m) == "" {
			needed[group] = true
			d[quota.ServerGroups]++
		}
		d[quota.Servers]++
		d[quota.Ports] += max(0, len(s.Networks)-len(nicsOf(p, m.Name)))
		d[quota.Cores] += sizes[s.Flavor].vcpus
		d[quota.RAM] += sizes[s.Flavor].ramMiB
		if gib := s.RootVolume(); gib > 0 && len(p.volumes.RootsOf(m.Name)) == 0 {
			d.Volume(gib, s.RootVolumeType)
		}
	}
}

func needNetwork(p *Provider, d quota.Demand) {
	if p.spec().Network.Existing != "" {
		return
	}
	missing := func(r quota.Resource, n int) {
		if n == 0 {
			d[r]++
		}
	}
	missing(quota.Networks, len(p.known.networks.All()))
	missing(quota.Subnets, len(p.known.subnets.All()))
	if p.ownRouter() {
		missing(quota.Routers, len(p.known.routers.All()))
	}
	missing(quota.Ports, len(p.known.ports.Filter(func(o ports.Port) bool { return p.isRouterPort(o) })))
}

// needGroups counts rules as Neutron does, including the initial rules of a new group.
func needGroups(p *Provider, d quota.Demand, subnet string) {
	a := firewall.AccessOf(p.opts.Cluster, subnet)
	for _, r := range a.Roles {
		if _, ok := p.groupFor(r); !ok {
			d[quota.SecurityGroups]++
			d[quota.Rules] += len(a.Rules(r))
			continue
		}
		add, _ := p.ruleChanges(a, r)
		d[quota.Rules] += len(add)
	}
}

// needFront counts the carrier of the API's address: a load balancer, or the port that gateways share; and its floating IP.
func needFront(p *Provider, d quota.Demand, want provider.Wanted, subnet string) {
	switch o := p.octavia(); {
	case o != nil:
		p.balancer.Need(d, want, subnet)
		if b := p.balancer.Seen(); !o.Internal && p.floating.ReservedIP() == "" && (b == nil || !p.floating.Has(b.LB.VipPortID)) {
			d[quota.FloatingIPs]++
		}
	case p.sharesVIP() && want.VIP:
		port, ok := p.vipPort()
		if !ok {
			d[quota.Ports]++
		}
		if p.floating.ReservedIP() == "" && !p.floating.Has(port.ID) {
			d[quota.FloatingIPs]++
		}
	}
}

// quotas compares the demand with the project's remaining quotas. A service that hides its quotas (403, 404) is not checked: it refuses excess requests itself.
func (f preflight) quotas(ctx context.Context) error {
	sizes := map[string]size{}
	for _, m := range f.want.Machines {
		name := f.shape(m.Role, m.Pool).Flavor
		if x, err := f.existing.Flavor(ctx, name); err == nil {
			sizes[name] = size{vcpus: x.VCPUs, ramMiB: x.RAM}
		} else if fail.KindOf(err) != fail.Refused { // shapes reports it
			return err
		}
	}
	if slices.ContainsFunc(f.want.Machines, func(m provider.MachineSpec) bool { _, ok := f.serverOf(m.Name); return !ok }) {
		if err := f.known.serverGroups.Fresh(ctx); err != nil {
			return err
		}
	}
	d := demand(f.Provider, f.want, sizes, f.cidr())
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

// allowances reads the quotas of all services in parallel.
func (f preflight) allowances(ctx context.Context) (quota.Allowances, error) {
	project := f.me.Project.ID
	readers := []func(context.Context) (quota.Allowances, error){
		func(ctx context.Context) (quota.Allowances, error) { return quota.OfCompute(ctx, f.c.Compute) },
		func(ctx context.Context) (quota.Allowances, error) { return quota.OfNetwork(ctx, f.c.Network, project) },
	}
	if f.c.Volume != nil {
		readers = append(readers, func(ctx context.Context) (quota.Allowances, error) { return quota.OfVolumes(ctx, f.c.Volume, project) })
	}
	if c, err := f.c.LoadBalancer(); f.octavia() != nil && err == nil { // versions reports a missing service
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
