package validation

import (
	"net/netip"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// madeUpNetwork is a network for documentation, which hardly any machine uses.
var madeUpNetwork = netip.MustParsePrefix("192.0.2.0/24")

// checkMadeUp reports placeholder values of a sample document that the user did not replace. A host is recognized only by its key, because its
// address may be real.
func checkMadeUp(c *v1alpha1.Cluster, r *findings) {
	address := func(field, text, hint string) {
		if a, err := netip.ParseAddr(text); err == nil && madeUpNetwork.Contains(a) {
			r.Add(field, text+" is an example's address, as naupegos init writes it", hint)
		}
	}
	const vip, free = "spec.endpoint.vip", "put a free address of the gateways' network here"
	if c.Spec.Provider.Metal != nil && c.Spec.Endpoint.VIP == v1alpha1.MadeUpVIP {
		address(vip, v1alpha1.MadeUpVIP, free)
	}
	h := c.Spec.Provider.Hosts
	if h == nil {
		return
	}
	found := false
	for i, m := range h.Machines {
		if m.HostKey != v1alpha1.MadeUpHostKey {
			continue
		}
		found = true
		p := strict.Item(machinesField, i)
		address(p+".address", m.Address, "put the machine's own here")
		r.Add(p+".hostKey", "is the example key that naupegos init writes", "put the line of /etc/ssh/ssh_host_ed25519_key.pub on the machine here")
	}
	if found {
		address(vip, c.Spec.Endpoint.VIP, free)
	}
}
