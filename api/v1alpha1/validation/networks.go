package validation

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// Limits of the networks, in bits of prefix. The controller manager can divide the pods' network into at most 2^16 parts, one for each node. The API server accepts no network for Services larger than a /12, kubeadm none smaller than a /28.
const (
	minPodBits, partBits               = 8, 16
	minServiceBits, maxServiceBits     = 12, 28
	minLocalBits, maxLocalBits         = 16, 24
	localReserved                  int = 100 // addresses that the local provider reserves for itself, gateways and control plane
)

// network is a field with a valid network, for comparison with the others.
type network struct {
	field  string
	prefix netip.Prefix
}

// checkNetworks checks each network, and that networks and machines' addresses do not overlap.
func checkNetworks(c *v1alpha1.Cluster, r *findings) {
	k := c.Spec.Kubernetes
	pods, podsOK := checkNetwork(r, "spec.kubernetes.podCIDR", k.PodCIDR, minPodBits, nodeMask(k))
	services, servicesOK := checkNetwork(r, "spec.kubernetes.serviceCIDR", k.ServiceCIDR, minServiceBits, maxServiceBits)
	var nets []network
	if podsOK {
		nets = append(nets, pods)
		checkPodSpace(c, r, pods)
	}
	if servicesOK {
		nets = append(nets, services)
	}
	if l := c.Spec.Provider.Local; l != nil && l.Network.CIDR != "" {
		if n, ok := checkNetwork(r, "spec.provider.local.network.cidr", l.Network.CIDR, minLocalBits, maxLocalBits); ok {
			nets = append(nets, n)
			checkLocalNetwork(c, r, n)
		}
	}
	if os := c.Spec.Provider.OpenStack; os != nil && os.Network.CIDR != "" {
		if n, ok := checkNetwork(r, openStackField+".network.cidr", os.Network.CIDR, minOpenStackBits, maxOpenStackBits); ok {
			nets = append(nets, n)
			checkOpenStackSpace(c, r, n)
		}
	}
	if w := c.Spec.Access.WireGuard; w != nil {
		if n, ok := checkNetwork(r, wireGuardField+".cidr", w.CIDR, minWireGuardBits, maxWireGuardBits); ok {
			nets = append(nets, n)
			checkWireGuardSpace(c, r, n)
		}
	}
	for i, a := range nets {
		for _, b := range nets[:i] {
			if a.prefix.Overlaps(b.prefix) {
				r.Add(a.field, fmt.Sprintf("%s overlaps with %s %s", a.prefix, b.field, b.prefix), "choose networks that lie apart", b.field)
			}
		}
	}
	checkAddressesOutside(c, r, nets)
}

// checkNetwork parses an IPv4 network whose size is within the limits.
func checkNetwork(r *findings, field, s string, minBits, maxBits int) (network, bool) {
	p, problem, hint := v1alpha1.ParseNetwork(s)
	switch {
	case p.IsValid() && (p.Bits() < minBits || p.Bits() > maxBits):
		problem, hint = fmt.Sprintf("a /%d is not between /%d and /%d", p.Bits(), minBits, maxBits), ""
	case problem == "" && unusable(p):
		problem, hint = s+" is not usable for machines or pods", "take a private network, e.g. of 10.0.0.0/8"
	}
	if problem != "" {
		r.Add(field, problem, hint)
		return network{}, false
	}
	return network{field, p}, true
}

// unusable reports whether a network overlaps one that hosts treat specially.
func unusable(p netip.Prefix) bool {
	for _, s := range []string{"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"} {
		if p.Overlaps(netip.MustParsePrefix(s)) {
			return true
		}
	}
	return false
}

// nodeMask returns the prefix length of a node's part of the pods' network, within its limits: other values are reported elsewhere.
func nodeMask(k v1alpha1.Kubernetes) int { return min(max(k.NodeCIDRMaskSize, 20), 28) }

// checkPodSpace requires a part of the pods' network for each node, and in each part an address for each pod.
func checkPodSpace(c *v1alpha1.Cluster, r *findings, pods network) {
	const maskAt = "spec.kubernetes.nodeCIDRMaskSize"
	k, mask := c.Spec.Kubernetes, nodeMask(c.Spec.Kubernetes)
	nodes, space := c.Spec.ControlPlane.Replicas+c.MostWorkers(), 1<<(mask-pods.prefix.Bits())
	switch {
	case mask-pods.prefix.Bits() > partBits:
		r.Add(maskAt, fmt.Sprintf("%s has more than 65536 parts of /%d, and the controller manager refuses that", pods.prefix, mask), fmt.Sprintf("set it to %d at most, or choose a smaller network", pods.prefix.Bits()+partBits), pods.field)
	case nodes > space:
		r.Add(pods.field, fmt.Sprintf("%s has room for %d nodes, %d are wanted", pods.prefix, space, nodes),
			fmt.Sprintf("each node takes a /%d: choose a larger network", mask), "spec.controlPlane.replicas", "spec.workers", maskAt)
	}
	if k.CNI == v1alpha1.CNINone {
		return // a network of one's own may give addresses otherwise
	}
	room := 1<<(32-mask) - 3 // network, broadcast, and the bridge of the node
	check := func(at string, own int) {
		if n := cmp.Or(own, 110); n > room {
			r.Add(at, fmt.Sprintf("a node with a /%d has addresses for %d pods, not for %d", mask, room, n), fmt.Sprintf("set maxPods to %d at most, or nodeCIDRMaskSize to %d before the cluster is created", room, 32-bits.Len(uint(n+2))), maskAt)
		}
	}
	check("spec.kubernetes.kubelet.maxPods", k.Kubelet.MaxPods)
	for i, p := range c.Spec.Workers {
		if p.Kubelet.MaxPods != 0 {
			check(strict.Item("spec.workers", i)+".kubelet.maxPods", p.Kubelet.MaxPods)
		}
	}
}

// checkLocalNetwork requires a private network with an address for each worker.
func checkLocalNetwork(c *v1alpha1.Cluster, r *findings, n network) {
	checkPrivate(r, n)
	if room := 1<<(32-n.prefix.Bits()) - 2 - localReserved; c.MostWorkers() > room {
		r.Add(n.field, fmt.Sprintf("%s has room for %d workers, %d are wanted", n.prefix, room, c.MostWorkers()), "choose a larger network", "spec.workers")
	}
}

// checkOpenStackSpace requires a private network with an address for each machine.
func checkOpenStackSpace(c *v1alpha1.Cluster, r *findings, n network) {
	checkPrivate(r, n)
	wanted := c.GatewayCount() + c.Spec.ControlPlane.Replicas + c.MostWorkers()
	if room := 1<<(32-n.prefix.Bits()) - 2 - openStackReserved; wanted > room {
		r.Add(n.field, fmt.Sprintf("%s has room for %d machines, %d are wanted", n.prefix, room, wanted), "choose a larger network",
			"spec.controlPlane.replicas", "spec.workers", "spec.endpoint.gateways")
	}
}

// checkPrivate requires a private network, whose addresses do not occur on the Internet.
func checkPrivate(r *findings, n network) {
	if shared := netip.MustParsePrefix("100.64.0.0/10"); !n.prefix.Addr().IsPrivate() && !shared.Contains(n.prefix.Addr()) {
		r.Add(n.field, n.prefix.String()+" is a public network", "machines could not reach the real hosts in it; use a private network, e.g. 10.1.0.0/24")
	}
}

// checkAddressesOutside requires that no machine and no endpoint is in an internal network of the cluster.
func checkAddressesOutside(c *v1alpha1.Cluster, r *findings, nets []network) {
	outside := func(field, s string) {
		a, err := netip.ParseAddr(s)
		for _, n := range nets {
			if err == nil && n.prefix.Contains(a) {
				r.Add(field, fmt.Sprintf("%s lies in %s %s", a, n.field, n.prefix), "choose a network that holds no machine", n.field)
			}
		}
	}
	if h := c.Spec.Provider.Hosts; h != nil {
		for i := range h.Machines {
			outside(strict.Item("spec.provider.hosts.machines", i)+".address", h.Machines[i].Address)
		}
	}
	if os := c.Spec.Provider.OpenStack; os != nil {
		for i, s := range os.Network.DNSServers { // the machines' own network may contain a name server
			a, err := netip.ParseAddr(s)
			for _, n := range nets {
				if err == nil && n.field != openStackField+".network.cidr" && n.prefix.Contains(a) {
					r.Add(strict.Item(openStackField+".network.dnsServers", i), fmt.Sprintf("%s lies in %s %s", a, n.field, n.prefix), "machines can't reach it there", n.field)
				}
			}
		}
	}
	outside("spec.endpoint.vip", c.Spec.Endpoint.VIP)
	host, _ := c.Spec.Endpoint.AddressHostPort()
	outside("spec.endpoint.address", host)
}

// checkAddress reports what is wrong with the IPv4 address of a machine.
func checkAddress(s string) (problem, hint string) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return strict.Quote(s) + " is not an IPv4 address", "write it like 192.168.1.10"
	case !a.Is4():
		return strict.Quote(s) + " is an IPv6 address", "only IPv4 is supported"
	case unusable(netip.PrefixFrom(a, 32)):
		return s + " is not an address that other machines can reach", ""
	}
	return "", ""
}
