package validation

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

func checkMetalLB(c *v1alpha1.Cluster, r *findings, field string, m *v1alpha1.MetalLB) {
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
		v1alpha1.AddressRange
	}
	var taken []known
	for i := range m.Pools {
		p, at := &m.Pools[i], strict.Item(field+".metallb.pools", i)
		if j := slices.IndexFunc(m.Pools[:i], func(o v1alpha1.AddressPool) bool { return o.Name == p.Name }); j >= 0 {
			r.Add(at+".name", fmt.Sprintf("pool %s is already listed", strict.Quote(p.Name)), "take another name", strict.Item(field+".metallb.pools", j)+".name")
		}
		if p.Advertise == v1alpha1.AdvertiseBGP && len(m.Peers) == 0 {
			r.Add(at+".advertise", "there is no peer to announce the addresses to", "list the routers in metallb.peers")
		}
		for k, s := range p.Addresses {
			where := strict.Item(at+".addresses", k)
			rg, problem, hint := v1alpha1.ParseRange(s)
			if problem != "" {
				r.Add(where, problem, hint)
				continue
			}
			for _, t := range taken {
				if t.Overlaps(rg) {
					r.Add(where, fmt.Sprintf("%s overlaps with %s", s, t.field), "each address belongs to one pool", t.field)
				}
			}
			taken = append(taken, known{where, rg})
			checkRange(c, r, where, s, rg)
		}
	}
	for i, p := range m.Peers {
		at := strict.Item(field+".metallb.peers", i)
		if problem, hint := checkAddress(p.Address); problem != "" {
			r.Add(at+".address", problem, hint)
		}
		if slices.ContainsFunc(m.Peers[:i], func(o v1alpha1.BGPPeer) bool { return o.Address == p.Address && o.Port == p.Port }) {
			r.Add(at+".address", fmt.Sprintf("peer %s is already listed", p.Address), "keep one of them")
		}
	}
}

// checkRange requires that a range has none of the document's other addresses.
func checkRange(c *v1alpha1.Cluster, r *findings, field, text string, rg v1alpha1.AddressRange) {
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

func overlapsNetwork(r v1alpha1.AddressRange, network string) bool {
	p, err := netip.ParsePrefix(network)
	return err == nil && p.Addr().Is4() && r.Overlaps(v1alpha1.RangeOf(p.Masked()))
}
