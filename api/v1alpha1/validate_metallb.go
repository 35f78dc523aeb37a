package v1alpha1

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/strict"
)

// AddressRange is a range of IPv4 addresses, both ends included.
type AddressRange struct{ First, Last netip.Addr }

// Contains reports whether an address is in the range.
func (r AddressRange) Contains(a netip.Addr) bool { return !a.Less(r.First) && !r.Last.Less(a) }

func (r AddressRange) overlaps(o AddressRange) bool {
	return r.Contains(o.First) || o.Contains(r.First)
}

// Ranges returns the pool's valid ranges.
func (p *AddressPool) Ranges() []AddressRange {
	var out []AddressRange
	for _, s := range p.Addresses {
		if r, problem, _ := parseRange(s); problem == "" {
			out = append(out, r)
		}
	}
	return out
}

// parseRange parses "192.168.1.200-192.168.1.220" or "192.168.1.192/28", or returns the reason why it can't.
func parseRange(s string) (r AddressRange, problem, hint string) {
	if strings.Contains(s, "/") {
		p, problem, hint := parseNetwork(s)
		if problem != "" {
			return r, problem, hint
		}
		return AddressRange{p.Addr(), lastOf(p)}, "", ""
	}
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		return r, strict.Quote(s) + " is no range of addresses", "write it like 192.168.1.200-192.168.1.220 or 192.168.1.192/28"
	}
	ends := [2]netip.Addr{}
	for i, end := range []string{from, to} {
		a, err := netip.ParseAddr(strings.TrimSpace(end))
		if err != nil || !a.Is4() {
			return r, fmt.Sprintf("%s: %s is not an IPv4 address", strict.Quote(s), strict.Quote(strings.TrimSpace(end))), "write it like 192.168.1.200-192.168.1.220"
		}
		ends[i] = a
	}
	if ends[1].Less(ends[0]) {
		return r, fmt.Sprintf("%s ends before it begins", strict.Quote(s)), "the lower address comes first"
	}
	return AddressRange{ends[0], ends[1]}, "", ""
}

// lastOf returns the last address of an IPv4 network.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}

func (c *Cluster) checkMetalLB(r *findings, field string, m *MetalLB) {
	if c.Spec.Provider.OpenStack != nil {
		r.Add(field+".name", "metallb does not work on OpenStack, whose networks drop addresses that are not their own", "use the cloud's load balancers: Services of type LoadBalancer get one")
		return
	}
	if m == nil {
		r.Add(field, "metallb needs addresses", "give metallb.pools", field+".name")
		return
	}
	type known struct {
		field string
		AddressRange
	}
	var taken []known
	for i := range m.Pools {
		p, at := &m.Pools[i], strict.Item(field+".metallb.pools", i)
		if j := slices.IndexFunc(m.Pools[:i], func(o AddressPool) bool { return o.Name == p.Name }); j >= 0 {
			r.Add(at+".name", fmt.Sprintf("pool %s is already listed", strict.Quote(p.Name)), "take another name", strict.Item(field+".metallb.pools", j)+".name")
		}
		if p.Advertise == AdvertiseBGP && len(m.Peers) == 0 {
			r.Add(at+".advertise", "there is no peer to announce the addresses to", "list the routers in metallb.peers")
		}
		for k, s := range p.Addresses {
			where := strict.Item(at+".addresses", k)
			rg, problem, hint := parseRange(s)
			if problem != "" {
				r.Add(where, problem, hint)
				continue
			}
			for _, t := range taken {
				if t.overlaps(rg) {
					r.Add(where, fmt.Sprintf("%s overlaps with %s", s, t.field), "each address belongs to one pool", t.field)
				}
			}
			taken = append(taken, known{where, rg})
			c.checkRange(r, where, s, rg)
		}
	}
	for i, p := range m.Peers {
		at := strict.Item(field+".metallb.peers", i)
		if problem, hint := checkAddress(p.Address); problem != "" {
			r.Add(at+".address", problem, hint)
		}
		if slices.ContainsFunc(m.Peers[:i], func(o BGPPeer) bool { return o.Address == p.Address && o.Port == p.Port }) {
			r.Add(at+".address", fmt.Sprintf("peer %s is already listed", p.Address), "keep one of them")
		}
	}
}

// checkRange requires that a range has none of the document's other addresses.
func (c *Cluster) checkRange(r *findings, field, text string, rg AddressRange) {
	if slices.ContainsFunc([]string{"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"}, func(s string) bool { return overlapsNetwork(rg, s) }) {
		r.Add(field, text+" is not usable for Services", "take free addresses of the machines' network")
		return
	}
	k := c.Spec.Kubernetes
	for _, n := range [][2]string{{"spec.kubernetes.podCIDR", k.PodCIDR}, {"spec.kubernetes.serviceCIDR", k.ServiceCIDR}} {
		of, network := n[0], n[1]
		if overlapsNetwork(rg, network) {
			r.Add(field, fmt.Sprintf("%s overlaps with %s %s", text, of, network), "take free addresses of the machines' network", of)
		}
	}
	host, _ := c.Spec.Endpoint.AddressHostPort()
	for _, e := range []struct{ of, address string }{{"spec.endpoint.vip", c.Spec.Endpoint.VIP}, {"spec.endpoint.address", host}} {
		if a, err := netip.ParseAddr(e.address); err == nil && rg.Contains(a) {
			r.Add(field, fmt.Sprintf("%s contains the API's endpoint %s", text, a), "leave it out", e.of)
		}
	}
	if h := c.Spec.Provider.Hosts; h != nil {
		for i, m := range h.Machines {
			if a, err := netip.ParseAddr(m.Address); err == nil && rg.Contains(a) {
				r.Add(field, fmt.Sprintf("%s contains machine %s, %s", text, m.Name, a), "leave it out", strict.Item("spec.provider.hosts.machines", i)+".address")
			}
		}
	}
}

func overlapsNetwork(r AddressRange, network string) bool {
	p, err := netip.ParsePrefix(network)
	return err == nil && p.Addr().Is4() && r.overlaps(AddressRange{p.Masked().Addr(), lastOf(p.Masked())})
}
