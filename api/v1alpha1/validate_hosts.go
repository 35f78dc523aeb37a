package v1alpha1

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const machinesField = "spec.provider.hosts.machines"

// checkHosts checks the machines given by address, and that they are as many as are wanted.
func (c *Cluster) checkHosts(r *findings, h *Hosts) {
	const path = "spec.provider.hosts"
	if !regexp.MustCompile(`^[a-z_][-a-z0-9_.]{0,31}$`).MatchString(h.User) {
		r.add(path+".user", quote(h.User)+" is not a user name", "")
	}
	if strings.ContainsFunc(h.SSHKeyFile, func(c rune) bool { return c < ' ' }) {
		r.add(path+".sshKeyFile", "is not the path of a file", "give the path of the private key, not the key itself")
	}
	addresses, names := map[string]int{}, map[string]int{}
	for i := range h.Machines {
		m, p := &h.Machines[i], item(machinesField, i)
		c.checkHost(r, h, m, p)
		once(r, addresses, m.Address, i, p+".address")
		once(r, names, m.Name, i, p+".name")
	}
	if vip := c.Spec.Endpoint.VIP; vip != "" {
		if i, taken := addresses[vip]; taken {
			r.add("spec.endpoint.vip", fmt.Sprintf("%s is the address of machines[%d]", vip, i), "take a free address", item(machinesField, i)+".address")
		}
	}
	c.checkHostCounts(r, h)
}

// once reports a value that an earlier machine has too.
func once(r *findings, seen map[string]int, value string, i int, field string) {
	if value == "" {
		return
	}
	if first, again := seen[value]; again {
		r.add(field, fmt.Sprintf("%s is already that of machines[%d]", quote(value), first), "")
		return
	}
	seen[value] = i
}

// checkHost checks one machine.
func (c *Cluster) checkHost(r *findings, h *Hosts, m *HostMachine, p string) {
	if problem, hint := checkAddress(m.Address); m.Address != "" && problem != "" {
		r.add(p+".address", problem, hint)
	}
	if m.Name != "" {
		checkLabelName(r, p+".name", m.Name)
	}
	if m.Name == "localhost" {
		r.add(p+".name", "every machine calls itself localhost", "take another name")
	}
	switch {
	case m.Role != RoleWorker && m.Role != "" && m.Pool != "":
		r.add(p+".pool", "only workers are in pools", "remove it or make the machine a worker", p+".role")
	case m.Role == RoleWorker && m.Pool == "":
		r.add(p+".pool", "is required: there is more than one pool", "name one of spec.workers", p+".role")
	case m.Role == RoleWorker && !slices.ContainsFunc(c.Spec.Workers, func(w Pool) bool { return w.Name == m.Pool }):
		r.add(p+".pool", "there is no pool "+quote(m.Pool)+" in spec.workers", "add it there, or name one that is", "spec.workers")
	}
	switch problem, hint := checkPublicKey(m.HostKey); {
	case m.HostKey == "" && !h.TrustOnFirstUse:
		r.add(p+".hostKey", "is required", "take it from /etc/ssh/ssh_host_ed25519_key.pub on the machine itself; or set trustOnFirstUse", "spec.provider.hosts.trustOnFirstUse")
	case m.HostKey != "" && problem != "":
		r.add(p+".hostKey", problem, hint)
	}
}

// checkHostCounts demands as many machines of each role and pool as are wanted.
func (c *Cluster) checkHostCounts(r *findings, h *Hosts) {
	check := func(field, what string, wanted, have int) {
		switch {
		case wanted == have:
		case have == 0:
			r.add(machinesField, fmt.Sprintf("has no machine of %s, but %d are wanted", what, wanted), "add machines, or change "+field, field)
		default:
			r.add(field, fmt.Sprintf("%d wanted, but provider hosts has %d of %s", wanted, have, what), "leave it out to take all machines", machinesField)
		}
	}
	check("spec.controlPlane.replicas", "role control-plane", c.Spec.ControlPlane.Replicas, h.count(RoleControlPlane, ""))
	for i, p := range c.Spec.Workers {
		check(item("spec.workers", i)+".replicas", "pool "+p.Name, p.Count(), h.count(RoleWorker, p.Name))
	}
	if c.Spec.Endpoint.Kind == EndpointGateways {
		check("spec.endpoint.gateways.replicas", "role gateway", c.GatewayCount(), h.count(RoleGateway, ""))
	} else if i := slices.IndexFunc(h.Machines, func(m HostMachine) bool { return m.Role == RoleGateway }); i >= 0 {
		r.add(item(machinesField, i)+".role", "gateways are of no use with endpoint kind "+quote(c.Spec.Endpoint.Kind), "remove the machine or change the kind", "spec.endpoint.kind")
	}
}
