package v1alpha1

import (
	"fmt"
	"net/netip"
)

// madeUpHostKey has the form of a host key, but no machine has it: with it in place nothing connects by mistake.
const madeUpHostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// madeUpNetwork is for documentation: few machines have an address of it.
var madeUpNetwork = netip.MustParsePrefix("192.0.2.0/24")

// checkMadeUp reports what madeUpHosts filled in and nobody replaced. The key alone shows that: somebody may use such an address.
func (c *Cluster) checkMadeUp(r *findings) {
	h := c.Spec.Provider.Hosts
	if h == nil {
		return
	}
	address := func(field, text, hint string) {
		if a, err := netip.ParseAddr(text); err == nil && madeUpNetwork.Contains(a) {
			r.add(field, text+" is an example's address, as naupegos init writes it", hint)
		}
	}
	found := false
	for i, m := range h.Machines {
		if m.HostKey != madeUpHostKey {
			continue
		}
		found = true
		p := item(machinesField, i)
		address(p+".address", m.Address, "put the machine's own here")
		r.add(p+".hostKey", "is the example key that naupegos init writes", "put the line of /etc/ssh/ssh_host_ed25519_key.pub on the machine here")
	}
	if found {
		address("spec.endpoint.vip", c.Spec.Endpoint.VIP, "put a free address of the gateways' network here")
	}
}

// madeUpHosts fills in machines with addresses of the documentation network, for the user to replace.
func (o *InitOptions) madeUpHosts() {
	add := func(role string, n, first int) {
		for i := range n {
			o.Hosts = append(o.Hosts, HostMachine{Address: fmt.Sprintf("192.0.2.%d", first+i), Role: role, HostKey: madeUpHostKey})
		}
	}
	if o.Endpoint == EndpointGateways {
		or(&o.VIP, "192.0.2.10")
		add(RoleGateway, min(o.Gateways, 9), 11)
	}
	add(RoleControlPlane, min(o.ControlPlanes, 9), 21)
	add(RoleWorker, min(o.Workers, 100), 101)
}

// MadeUp reports whether the machines are not the user's own, for the template.
func (o InitOptions) MadeUp() bool {
	return len(o.Hosts) > 0 && o.Hosts[0].HostKey == madeUpHostKey
}
