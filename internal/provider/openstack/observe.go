package openstack

import (
	"cmp"
	"context"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servergroups"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cache"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
	"github.com/naupegos/naupegos/internal/provider/openstack/volume"
)

// all lists the caches.
func (k *known) all() []cache.Any { return append(k.eager(), k.serverGroups) }

// eager lists the caches that every observation fills. Server groups are listed only when needed: Nova looks up each of their members, so this
// list takes as long as a list of the servers.
func (k *known) eager() []cache.Any {
	return []cache.Any{k.networks, k.subnets, k.routers, k.groups, k.ports, k.floating, k.reserved, k.servers, k.volumes, k.keypairs}
}

// Observe finds all resources of the cluster, except its server groups while it has servers, and changes nothing. The number of calls does not
// depend on the number of resources.
func (p *Provider) Observe(ctx context.Context) (*provider.Inventory, error) {
	if err := p.reload(ctx); err != nil {
		return nil, err
	}
	inv := &provider.Inventory{Machines: p.machines(), Others: p.others()}
	if vip, err := p.VIP(ctx); err == nil {
		inv.VIP = vip
	} else if fail.KindOf(err) != fail.NotFound {
		return nil, err
	}
	return inv, nil
}

// reload refills all caches.
func (p *Provider) reload(ctx context.Context) error {
	if _, err := p.cloud(ctx); err != nil {
		return err
	}
	g, all := errgroup.WithContext(ctx)
	for _, s := range p.known.eager() {
		g.Go(func() error { return s.Load(all) })
	}
	g.Go(func() error { return p.balancer.Observe(all) })
	g.Go(func() error { return p.dns.Observe(all) })
	if p.spec().ExternalNetwork != "" { // needed for comparison with the current network; in parallel it takes no extra time
		g.Go(func() error {
			_, err := p.existing.External(all)
			if fail.KindOf(err) == fail.Refused { // checkExternal and Preflight report it if it matters
				err = nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	p.known.serverGroups.Forget()
	if _, some := p.known.servers.Find(func(s servers.Server) bool { return s.Status != serverDeleted }); !some { // destroying must see whether server groups are left
		if err := p.known.serverGroups.Load(ctx); err != nil {
			return err
		}
	}
	return cmp.Or(p.checkBalancing(ctx), p.checkVolumes())
}

// checkBalancing returns an error if resources of the cluster exist and its load balancer can't be listed: its removal could not be verified.
func (p *Provider) checkBalancing(ctx context.Context) error {
	if p.octavia() == nil {
		return nil
	}
	c, err := p.cloud(ctx)
	if err == nil {
		_, err = c.LoadBalancer()
	}
	if err != nil && len(p.machines())+len(p.others()) == 0 {
		return nil // Preflight reports it
	}
	return err
}

// machines returns every machine with any existing resource: a server, or a remainder of an interrupted run.
func (p *Provider) machines() []provider.Machine {
	var out []provider.Machine
	for _, m := range p.specs(func(string) bool { return true }) {
		out = append(out, p.machineOf(m))
	}
	provider.Sort(out)
	return out
}

// specs reconstructs the machines whose names fit from the names and marks of resources.
func (p *Provider) specs(fits func(name string) bool) map[string]provider.MachineSpec {
	out := map[string]provider.MachineSpec{}
	add := func(name string, mark func(key string) string) {
		if m, ok := p.n.MachineOf(name, mark); ok && fits(m.Name) {
			out[m.Name] = m
		}
	}
	for _, s := range p.known.servers.All() {
		add(s.Name, func(k string) string { return s.Metadata[marks.Underscored(k)] })
	}
	for _, v := range p.known.volumes.All() {
		if v.Status != volume.Deleting {
			add(v.Name, func(k string) string { return v.Metadata[marks.Underscored(k)] })
		}
	}
	for _, o := range p.known.ports.All() {
		if portMachine(o) != "" {
			add(o.Name, func(k string) string { return marks.Tagged(o.Tags, k) })
		}
	}
	return out
}

// machineOf returns the known state of a machine.
func (p *Provider) machineOf(m provider.MachineSpec) provider.Machine {
	out := provider.Machine{
		Name: m.Name, Role: m.Role, Pool: m.Pool, Index: m.Index, User: "root", Port: 22, State: provider.Partial,
		Detail: "it has no server", Public: p.floating.Public(m.Name),
	}
	if port, ok := p.portOf(m.Name); ok {
		out.Address = p.address(port)
	}
	s, ok := p.serverOf(m.Name)
	if !ok {
		return out
	}
	out.ID, out.Zone, out.HostKeys = s.ID, s.AvailabilityZone, p.opts.HostKeys.Get(s.ID)
	out.State, out.Detail = stateOf(s)
	return out
}

// stateOf translates Nova's state of a server.
func stateOf(s servers.Server) (provider.State, string) {
	switch s.Status {
	case serverActive:
		return provider.Running, s.TaskState
	case "REBOOT", "HARD_REBOOT", "PASSWORD", "MIGRATING", "RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE":
		return provider.Running, "Nova says " + s.Status
	case serverShutoff:
		return provider.Stopped, ""
	case "PAUSED", "SUSPENDED", "SHELVED", "SHELVED_OFFLOADED":
		return provider.Stopped, "Nova says " + s.Status
	case serverBuild:
		return provider.Partial, "Nova builds it"
	}
	if halfMade(s) {
		return provider.Partial, "Nova could not make it: " + faultOf(s)
	}
	if s.Status == serverError {
		return provider.Failed, faultOf(s)
	}
	return provider.Failed, "Nova says " + s.Status
}

// others lists the cluster's existing resources other than those of machines.
func (p *Provider) others() []string {
	var out []string
	each(p.known.networks, &out, "network", func(x networks.Network) string { return x.Name })
	each(p.known.subnets, &out, "subnet", func(x subnets.Subnet) string { return x.CIDR })
	each(p.known.routers, &out, "router", func(x routers.Router) string { return x.Name })
	each(p.known.groups, &out, "security group", func(x groups.SecGroup) string { return x.Name })
	each(p.known.serverGroups, &out, "server group", func(x servergroups.ServerGroup) string { return x.Name })
	each(p.known.keypairs, &out, "keypair", func(x keypairs.KeyPair) string { return x.Name })
	for _, o := range p.known.ports.All() {
		if _, ok := p.n.MachineOf(portMachine(o), func(k string) string { return marks.Tagged(o.Tags, k) }); !ok {
			out = append(out, "port "+o.Name+" ("+p.address(o)+")")
		}
	}
	for _, f := range p.known.floating.All() {
		if marks.Tagged(f.Tags, marks.KeyMachine) == "" && !p.floating.IsReserved(f) {
			out = append(out, "floating IP "+f.FloatingIP)
		}
	}
	out = append(append(out, p.balancer.Seen().Others()...), p.dns.Others()...)
	slices.Sort(out) // a cloud may list in any order
	return out
}

func each[T any](s *cache.Cache[T], out *[]string, what string, name func(T) string) {
	for _, item := range s.All() {
		*out = append(*out, what+" "+name(item))
	}
}

// Machine returns the known state of one machine: the last observation, updated by the steps since.
func (p *Provider) Machine(ctx context.Context, name string) (provider.Machine, error) {
	if err := cache.Fresh(ctx, p.known.servers, p.known.ports, p.known.floating, p.known.volumes); err != nil {
		return provider.Machine{}, err
	}
	for _, m := range p.specs(func(n string) bool { return n == name }) {
		return p.machineOf(m), nil
	}
	return provider.Machine{}, p.noMachine(name)
}

func (p *Provider) noMachine(name string) error {
	return fail.New(fail.NotFound, "cluster %s has no machine of this name in the cloud", p.n.Cluster).At(name)
}
