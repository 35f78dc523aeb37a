package openstack

import (
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"github.com/naupegos/naupegos/internal/provider"
)

// size is what a flavor gives a server.
type size struct {
	vcpus, ramMiB int
}

// demand counts what an apply would make: what is wanted and not there yet, by what was observed. sizes are those of the flavors, by
// the names that the document uses; subnet is the CIDR of the machines' network.
func (p *Provider) demand(want provider.Wanted, sizes map[string]size, subnet string) demand {
	d := demand{}
	p.needMachines(d, want, sizes)
	p.needNetwork(d)
	p.needGroups(d, subnet)
	p.needFront(d, want, subnet)
	if p.opts.PublicKey != "" && len(p.known.keypairs.All()) == 0 {
		d[resKeypairs]++
	}
	return d
}

func (p *Provider) needMachines(d demand, want provider.Wanted, sizes map[string]size) {
	groups := map[string]int{}
	for _, m := range want.Machines {
		s := p.shape(m.Role, m.Pool)
		if _, ok := p.portOf(m.Name); !ok {
			d[resPorts]++
		}
		if p.floatingMissing(m) {
			d[resFloatingIPs]++
		}
		if name, _ := p.serverGroupName(m); name != "" {
			groups[name]++
			if groups[name] == 1 && p.serverGroup(m) == "" {
				d[resServerGroups]++
			}
			d.most(resGroupMembers, groups[name])
		}
		if _, ok := p.serverOf(m.Name); ok {
			continue
		}
		d[resServers]++
		d[resCores] += sizes[s.Flavor].vcpus
		d[resRAM] += sizes[s.Flavor].ramMiB
		if gib := s.RootVolume(); gib > 0 && len(p.volumesOf(m.Name)) == 0 {
			d.volume(gib, s.RootVolumeType)
		}
	}
}

func (p *Provider) needNetwork(d demand) {
	if p.spec().Network.Existing != "" {
		return
	}
	missing := func(r resource, n int) {
		if n == 0 {
			d[r]++
		}
	}
	missing(resNetworks, len(p.known.networks.All()))
	missing(resSubnets, len(p.known.subnets.All()))
	if p.ownRouter() {
		missing(resRouters, len(p.known.routers.All()))
	}
	missing(resPorts, len(p.known.ports.Filter(func(o ports.Port) bool { return p.isRouterPort(o) })))
}

// needGroups counts rules as Neutron does: those that a new group comes with are counted.
func (p *Provider) needGroups(d demand, subnet string) {
	a := p.access(subnet)
	for _, r := range a.roles {
		if _, ok := p.groupFor(r); !ok {
			d[resSecurityGroups]++
			d[resRules] += len(a.rules(r))
			continue
		}
		add, _ := p.ruleChanges(a, r)
		d[resRules] += len(add)
	}
}

// needFront counts what carries the API's address: a load balancer, or the port that gateways share; and its floating IP.
func (p *Provider) needFront(d demand, want provider.Wanted, subnet string) {
	switch o := p.octavia(); {
	case o != nil:
		b := p.seenBalancer()
		if b == nil {
			d[resLoadBalancers]++
			d[resPorts]++
		}
		if !o.Internal && p.reservedIP() == "" && (b == nil || !p.hasFloatingIP(b.lb.VipPortID)) {
			d[resFloatingIPs]++
		}
		for _, w := range p.wantedFronts(subnet) {
			w.need(d, b.front(w.name), machinesOf(want, w.role))
		}
	case p.sharesVIP() && want.VIP:
		port, ok := p.vipPort()
		if !ok {
			d[resPorts]++
		}
		if p.reservedIP() == "" && !p.hasFloatingIP(port.ID) {
			d[resFloatingIPs]++
		}
	}
}

func (w frontWant) need(d demand, f front, members int) {
	if f.listener.ID == "" {
		d[resListeners]++
	}
	if f.pool.ID == "" {
		d[resPools]++
	}
	if f.monitor.ID == "" {
		d[resMonitors]++
	}
	d[resMembers] += max(0, members-len(f.members))
}
