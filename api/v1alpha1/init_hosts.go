package v1alpha1

import "fmt"

// madeUpHostKey has the form of a host key, but no machine has it: with it in place nothing connects by mistake.
const madeUpHostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

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

// MadeUp tells whether the machines are not the user's own, for the template.
func (o InitOptions) MadeUp() bool {
	return len(o.Hosts) > 0 && o.Hosts[0].HostKey == madeUpHostKey
}
