package openstack

import (
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/quota"
)

// size is what a flavor gives a server.
type size struct {
	vcpus, ramMiB int
}

// demand counts what an apply would make: what is wanted and not there yet, by what was observed. sizes are those of the flavors, by
// the names that the document uses; subnet is the CIDR of the machines' network.
func (p *Provider) demand(want provider.Wanted, sizes map[string]size, subnet string) quota.Demand {
	d := quota.Demand{}
	p.needMachines(d, want, sizes)
	p.needNetwork(d)
	p.needGroups(d, subnet)
	p.needFront(d, want, subnet)
	if p.opts.PublicKey != "" && len(p.known.keypairs.All()) == 0 {
		d[quota.Keypairs]++
	}
	return d
}

func (p *Provider) needMachines(d quota.Demand, want provider.Wanted, sizes map[string]size) {
	groups := map[string]int{}
	for _, m := range want.Machines {
		s := p.shape(m.Role, m.Pool)
		if _, ok := p.portOf(m.Name); !ok {
			d[quota.Ports]++
		}
		if p.floatingMissing(m) {
			d[quota.FloatingIPs]++
		}
		if name, _ := p.serverGroupName(m); name != "" {
			groups[name]++
			if groups[name] == 1 && p.serverGroup(m) == "" {
				d[quota.ServerGroups]++
			}
			d.Most(quota.GroupMembers, groups[name])
		}
		if _, ok := p.serverOf(m.Name); ok {
			continue
		}
		d[quota.Servers]++
		d[quota.Cores] += sizes[s.Flavor].vcpus
		d[quota.RAM] += sizes[s.Flavor].ramMiB
		if gib := s.RootVolume(); gib > 0 && len(p.volumesOf(m.Name)) == 0 {
			d.Volume(gib, s.RootVolumeType)
		}
	}
}

func (p *Provider) needNetwork(d quota.Demand) {
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

// needGroups counts rules as Neutron does: those that a new group comes with are counted.
func (p *Provider) needGroups(d quota.Demand, subnet string) {
	a := p.access(subnet)
	for _, r := range a.roles {
		if _, ok := p.groupFor(r); !ok {
			d[quota.SecurityGroups]++
			d[quota.Rules] += len(a.rules(r))
			continue
		}
		add, _ := p.ruleChanges(a, r)
		d[quota.Rules] += len(add)
	}
}

// needFront counts what carries the API's address: a load balancer, or the port that gateways share; and its floating IP.
func (p *Provider) needFront(d quota.Demand, want provider.Wanted, subnet string) {
	switch o := p.octavia(); {
	case o != nil:
		p.balancer.Need(d, want, subnet)
		if b := p.balancer.Seen(); !o.Internal && p.reservedIP() == "" && (b == nil || !p.hasFloatingIP(b.LB.VipPortID)) {
			d[quota.FloatingIPs]++
		}
	case p.sharesVIP() && want.VIP:
		port, ok := p.vipPort()
		if !ok {
			d[quota.Ports]++
		}
		if p.reservedIP() == "" && !p.hasFloatingIP(port.ID) {
			d[quota.FloatingIPs]++
		}
	}
}
