package validation

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

const machinesField = "spec.provider.hosts.machines"

// checkHosts checks the listed machines, and that their number matches the document's counts.
func checkHosts(c *v1alpha1.Cluster, r *findings, h *v1alpha1.Hosts) {
	const path = "spec.provider.hosts"
	checkHostsLogin(r, path, h)
	addresses, names := map[string]int{}, map[string]int{}
	for i := range h.Machines {
		m, p := &h.Machines[i], strict.Item(machinesField, i)
		checkHost(c, r, h, m, p)
		once(r, addresses, m.Address, i, p+".address")
		once(r, names, m.Name, i, p+".name")
	}
	if vip := c.Spec.Endpoint.VIP; vip != "" {
		if i, taken := addresses[vip]; taken {
			r.Add("spec.endpoint.vip", fmt.Sprintf("%s is the address of machines[%d]", vip, i), "take a free address", strict.Item(machinesField, i)+".address")
		}
	}
	checkHostCounts(c, r, h)
}

// once reports a value that an earlier machine also has.
func once(r *findings, seen map[string]int, value string, i int, field string) {
	if value == "" {
		return
	}
	if first, again := seen[value]; again {
		r.Add(field, fmt.Sprintf("%s is already that of machines[%d]", strict.Quote(value), first), "")
		return
	}
	seen[value] = i
}

// checkHost checks one machine.
func checkHost(c *v1alpha1.Cluster, r *findings, h *v1alpha1.Hosts, m *v1alpha1.HostMachine, p string) {
	if problem, hint := checkAddress(m.Address); m.Address != "" && problem != "" {
		r.Add(p+".address", problem, hint)
	}
	if m.Name != "" {
		checkHostName(r, p+".name", m.Name)
	}
	checkMachineLogin(r, p, m)
	if m.Name == "localhost" {
		r.Add(p+".name", "every machine calls itself localhost", "take another name")
	}
	switch {
	case m.Role != v1alpha1.RoleWorker && m.Role != "" && m.Pool != "":
		r.Add(p+".pool", "only workers are in pools", "remove it or make the machine a worker", p+".role")
	case m.Role == v1alpha1.RoleWorker && m.Pool == "":
		r.Add(p+".pool", "is required: there is more than one pool", "name one of spec.workers", p+".role")
	case m.Role == v1alpha1.RoleWorker && !slices.ContainsFunc(c.Spec.Workers, func(w v1alpha1.Pool) bool { return w.Name == m.Pool }):
		r.Add(p+".pool", "there is no pool "+strict.Quote(m.Pool)+" in spec.workers", "add it there, or name one that is", "spec.workers")
	}
	switch problem, hint := checkPublicKey(m.HostKey); {
	case m.HostKey == "" && !h.TrustOnFirstUse && h.SSHConfig == "":
		r.Add(p+".hostKey", "is required", "take it from /etc/ssh/ssh_host_ed25519_key.pub on the machine itself; or set trustOnFirstUse", "spec.provider.hosts.trustOnFirstUse")
	case m.HostKey != "" && problem != "":
		r.Add(p+".hostKey", problem, hint)
	}
}

// checkHostCounts requires the document's number of machines for each role and pool.
func checkHostCounts(c *v1alpha1.Cluster, r *findings, h *v1alpha1.Hosts) {
	check := func(field, what string, wanted, have int) {
		switch {
		case wanted == have:
		case have == 0:
			r.Add(machinesField, fmt.Sprintf("has no machine of %s, but %d are wanted", what, wanted), "add machines, or change "+field, field)
		default:
			r.Add(field, fmt.Sprintf("%d wanted, but provider hosts has %d of %s", wanted, have, what), "leave it out to take all machines", machinesField)
		}
	}
	check("spec.controlPlane.replicas", "role control-plane", c.Spec.ControlPlane.Replicas, h.Count(v1alpha1.RoleControlPlane, ""))
	for i, p := range c.Spec.Workers {
		check(strict.Item("spec.workers", i)+".replicas", "pool "+p.Name, p.Count(), h.Count(v1alpha1.RoleWorker, p.Name))
	}
	if c.Spec.Endpoint.Kind == v1alpha1.EndpointGateways {
		check("spec.endpoint.gateways.replicas", "role gateway", c.GatewayCount(), h.Count(v1alpha1.RoleGateway, ""))
	} else if i := slices.IndexFunc(h.Machines, func(m v1alpha1.HostMachine) bool { return m.Role == v1alpha1.RoleGateway }); i >= 0 {
		r.Add(strict.Item(machinesField, i)+".role", "gateways are of no use with endpoint kind "+strict.Quote(c.Spec.Endpoint.Kind), "remove the machine or change the kind", "spec.endpoint.kind")
	}
}

const metalField = "spec.provider.metal"

// checkMetal checks which machines of the stock are taken, and how they are installed.
func checkMetal(c *v1alpha1.Cluster, r *findings, m *v1alpha1.Metal) {
	if m.Spread != "" {
		checkLabelKey(r, metalField+".spread", m.Spread)
	}
	names, machines := map[string]int{}, map[string]string{}
	for i, p := range m.Pools {
		field := strict.Item(metalField+".pools", i)
		wanted, known := metalCount(c, p.Name)
		switch first, again := names[p.Name]; {
		case p.Name == "":
			continue // reported as required
		case again:
			r.Add(field+".name", fmt.Sprintf("%s is already the name of pools[%d]", strict.Quote(p.Name), first), "say all of it in one place")
		case p.Name == v1alpha1.MetalGateway && !known:
			r.Add(field+".name", "gateways are of no use with endpoint kind "+strict.Quote(c.Spec.Endpoint.Kind), "remove it or change the kind", "spec.endpoint.kind")
		case !known:
			r.Add(field+".name", "there is no pool "+strict.Quote(p.Name)+" in spec.workers", "name one that is there, or control-plane or gateway", "spec.workers")
		}
		names[p.Name] = i
		checkMetalChoice(r, field, p)
		for j, name := range p.Machines {
			at := strict.Item(field+".machines", j)
			key := strings.ToLower(name)
			switch first, again := machines[key]; {
			case name == "" || strings.ContainsAny(name, " \t\n/"):
				r.Add(at, strict.Quote(name)+" is not a machine", "give its name, MAC address or UUID")
			case again:
				r.Add(at, strict.Quote(name)+" is already in "+first, "a machine is in one pool")
			}
			machines[key] = field + ".machines"
		}
		if n := len(p.Machines); n > 0 && known && n < wanted {
			r.Add(field+".machines", fmt.Sprintf("names %d machines, but %d are wanted", n, wanted), "name more, or leave it out to take any that fit")
		}
		checkMetalDisk(r, field, p)
	}
}

// metalCount returns the number of machines of a role or pool, by its name in the stock; known reports whether the role or pool exists.
func metalCount(c *v1alpha1.Cluster, name string) (n int, known bool) {
	switch name {
	case v1alpha1.MetalControlPlane:
		return c.Spec.ControlPlane.Replicas, true
	case v1alpha1.MetalGateway:
		return c.GatewayCount(), c.Spec.Endpoint.Kind == v1alpha1.EndpointGateways
	}
	i := slices.IndexFunc(c.Spec.Workers, func(p v1alpha1.Pool) bool { return p.Name == name })
	if i < 0 {
		return 0, false
	}
	return c.Spec.Workers[i].Count(), true
}

// checkMetalChoice checks labels and facts.
func checkMetalChoice(r *findings, field string, p v1alpha1.MetalPool) {
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		at := field + ".labels[" + strict.Clip(key) + "]"
		checkLabelKey(r, at, key)
		if len(validation.IsValidLabelValue(p.Labels[key])) > 0 {
			r.Add(at, strict.Quote(p.Labels[key])+" is not a label value", "up to 63 letters, digits, - _ . with a letter or digit at both ends")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.Facts)) {
		at := field + ".facts[" + strict.Clip(key) + "]"
		if !slices.Contains(v1alpha1.MetalFacts(), key) {
			r.Add(at, strict.Quote(key)+" is nothing that machines say of themselves", "take one of "+strings.Join(v1alpha1.MetalFacts(), ", "))
		}
		if _, err := path.Match(p.Facts[key], ""); err != nil || p.Facts[key] == "" {
			r.Add(at, strict.Quote(p.Facts[key])+" is not a pattern", `write it like "Dell*"`)
		}
	}
}

// checkMetalDisk checks that the settings of disks are consistent.
func checkMetalDisk(r *findings, field string, p v1alpha1.MetalPool) {
	d := p.Disk
	for i, serial := range d.Data {
		if serial == "" || serial == d.Serial || slices.Contains(d.Overwrite, serial) {
			r.Add(strict.Item(field+".disk.data", i), strict.Quote(serial)+" is never touched, and the system can't go there", "name a disk in one place only")
		}
	}
}
