package firewall

import (
	"cmp"
	"slices"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider"
)

// Ports that the roles serve.
const (
	portSSH       = 22
	portEtcdFirst = 2379 // clients; peers use the next port
	portEtcdLast  = 2380
	portKubelet   = 10250
	portVXLAN     = 8472
	portNodeFirst = 30000
	portNodeLast  = 32767
	protocolVRRP  = "112"
	everywhere    = "0.0.0.0/0"
	protocolAny   = ""
	directionIn   = "ingress"
	directionOut  = "egress"
	etherTypeV4   = "IPv4"
	etherTypeV6   = "IPv6"
	protocolTCP   = "tcp"
	protocolUDP   = "udp"
	protocolICMP  = "icmp"
)

// Rule allows one kind of traffic: incoming, from a network or from the machines of a role, or outgoing.
type Rule struct {
	direction, ether, protocol string
	first, last                int
	cidr                       string
	from                       provider.Role
}

// Access holds everything that determines the rules.
type Access struct {
	Roles      []provider.Role // roles of the cluster's machines
	subnet     string          // CIDR of the machines' network
	ssh        []string        // networks that may reach SSH from outside
	api        []string        // networks that may reach the API on machines that serve it to the outside
	nodePorts  []string
	floating   map[provider.Role]bool // whether machines of the role have floating IPs
	ingress    []int                  // NodePorts of workers that are open to all networks
	endpoint   string
	clients    []string // networks that reach the API servers through a load balancer that preserves client addresses
	port       int      // of the endpoint
	wireguard  int      // UDP port; 0: none
	web        bool     // gateways forward web traffic
	registry   bool     // control-plane machines serve images
	metrics    []int    // TCP ports at which addons serve metrics
	anyPodNet  bool
	noWorkers  bool
	noGateways bool
}

// AccessOf derives the access from a document; subnet is the CIDR of the machines' network.
func AccessOf(doc *v1alpha1.Cluster, subnet string) Access {
	spec := doc.Spec
	a := Access{
		subnet: subnet, ssh: orAll(spec.Access.SSHCIDRs), api: orAll(spec.Access.APICIDRs), nodePorts: spec.Access.NodePortCIDRs,
		floating: map[provider.Role]bool{}, endpoint: spec.Endpoint.Kind, port: cmp.Or(spec.Endpoint.Port, v1alpha1.APIServerPort),
		registry: spec.Registry != nil, anyPodNet: spec.Kubernetes.CNI == v1alpha1.CNINone, noWorkers: doc.WorkerCount() == 0, noGateways: doc.GatewayCount() == 0,
	}
	a.web = spec.Endpoint.Kind == v1alpha1.EndpointGateways && spec.Endpoint.IngressWanted() != nil
	if o := spec.Endpoint.LoadBalancer(); o.OVN() {
		a.clients = orAll(o.AllowedCIDRs)
		if i := o.Ingress; i != nil {
			a.ingress = []int{i.HTTPNodePort, i.HTTPSNodePort}
		}
	}
	a.metrics = v1alpha1.AddonPorts(doc)
	if w := spec.Access.WireGuard; w != nil {
		a.wireguard = cmp.Or(w.Port, 51820)
	}
	a.Roles = roles(doc)
	for _, r := range a.Roles {
		a.floating[r] = anyFloating(doc, r)
	}
	return a
}

// roles lists the roles of the document's machines and pools.
func roles(doc *v1alpha1.Cluster) []provider.Role {
	out := []provider.Role{provider.ControlPlane}
	if doc.GatewayCount() > 0 {
		out = append(out, provider.Gateway)
	}
	if len(doc.Spec.Workers) > 0 {
		out = append(out, provider.Worker)
	}
	return out
}

// anyFloating reports whether machines of a role have floating IPs.
func anyFloating(doc *v1alpha1.Cluster, r provider.Role) bool {
	if r != provider.Worker {
		return doc.Shape(string(r), "").WantsFloatingIP()
	}
	return slices.ContainsFunc(doc.Spec.Workers, func(w v1alpha1.Pool) bool { return doc.Shape(string(r), w.Name).WantsFloatingIP() })
}

func orAll(cidrs []string) []string {
	if len(cidrs) == 0 {
		return []string{everywhere}
	}
	return cidrs
}

// Rules lists the traffic that machines of a role allow: only what the role needs.
func (a Access) Rules(r provider.Role) []Rule {
	b := &ruleSet{a: a}
	b.rules = []Rule{{direction: directionOut, ether: etherTypeV4}, {direction: directionOut, ether: etherTypeV6}}
	b.cidrs(protocolICMP, 0, 0, a.subnet)
	b.ssh(r)
	switch r {
	case provider.ControlPlane:
		b.roles(protocolTCP, v1alpha1.APIServerPort, v1alpha1.APIServerPort, a.Roles...)
		b.cidrs(protocolTCP, v1alpha1.APIServerPort, v1alpha1.APIServerPort, a.apiFrom()...)
		b.roles(protocolTCP, portEtcdFirst, portEtcdLast, provider.ControlPlane)
		if a.registry {
			b.roles(protocolTCP, v1alpha1.RegistryPort, v1alpha1.RegistryPort, provider.ControlPlane, provider.Worker)
		}
		b.roles(protocolVRRP, 0, 0, provider.Gateway) // the relay
		b.node()
		if a.noWorkers {
			b.services()
		}
	case provider.Worker:
		b.node()
		b.services()
		for _, port := range a.ingress {
			b.cidrs(protocolTCP, port, port, everywhere)
		}
	case provider.Gateway:
		b.roles(protocolTCP, a.port, a.port, a.Roles...)
		b.cidrs(protocolTCP, a.port, a.port, a.api...)
		b.roles(protocolVRRP, 0, 0, provider.ControlPlane, provider.Gateway)
		if a.web {
			b.cidrs(protocolTCP, v1alpha1.HTTPPort, v1alpha1.HTTPPort, everywhere)
			b.cidrs(protocolTCP, v1alpha1.HTTPSPort, v1alpha1.HTTPSPort, everywhere)
		}
		if a.wireguard != 0 {
			b.cidrs(protocolUDP, a.wireguard, a.wireguard, everywhere)
		}
	}
	return b.rules
}

// apiFrom lists the networks that reach the API servers directly, in addition to the machines' security groups.
func (a Access) apiFrom() []string {
	switch a.endpoint {
	case v1alpha1.EndpointOctavia:
		return append([]string{a.subnet}, a.clients...) // a load balancer that runs on machines of the cloud connects from its own port in this subnet
	case v1alpha1.EndpointAddress, v1alpha1.EndpointDirect:
		return a.api
	}
	return nil
}

// ruleSet collects the rules of one role.
type ruleSet struct {
	a     Access
	rules []Rule
}

func (b *ruleSet) add(r Rule) {
	if !slices.Contains(b.rules, r) {
		b.rules = append(b.rules, r)
	}
}

func (b *ruleSet) cidrs(protocol string, first, last int, cidrs ...string) {
	for _, c := range cidrs {
		b.add(Rule{directionIn, etherTypeV4, protocol, first, last, c, ""})
	}
}

func (b *ruleSet) roles(protocol string, first, last int, from ...provider.Role) {
	for _, r := range from {
		if slices.Contains(b.a.Roles, r) {
			b.add(Rule{directionIn, etherTypeV4, protocol, first, last, "", r})
		}
	}
}

// ssh opens SSH to the outside only on machines that are reached from there: those with a floating IP, or all machines if none has one and
// there is no gateway. Other machines are reached through the gateways or through a machine with a floating IP.
func (b *ruleSet) ssh(r provider.Role) {
	outside := false
	for _, f := range b.a.floating {
		outside = outside || f
	}
	if b.a.floating[r] || !outside && b.a.noGateways {
		b.cidrs(protocolTCP, portSSH, portSSH, b.a.ssh...)
	}
	if b.a.noGateways {
		b.roles(protocolTCP, portSSH, portSSH, b.a.Roles...)
	} else {
		b.roles(protocolTCP, portSSH, portSSH, provider.Gateway)
	}
}

// node allows the traffic between nodes: the kubelets' API, and the pod network.
func (b *ruleSet) node() {
	if b.a.anyPodNet { // the user's own pod network may use any protocol
		b.roles(protocolAny, 0, 0, provider.ControlPlane, provider.Worker)
		return
	}
	b.roles(protocolTCP, portKubelet, portKubelet, provider.ControlPlane, provider.Worker)
	for _, port := range b.a.metrics {
		b.roles(protocolTCP, port, port, provider.ControlPlane, provider.Worker)
	}
	b.roles(protocolUDP, portVXLAN, portVXLAN, provider.ControlPlane, provider.Worker)
}

// services allows traffic to NodePorts: from load balancers, which are in the machines' own network, and from the document's networks.
func (b *ruleSet) services() {
	from := append([]string{b.a.subnet}, b.a.nodePorts...)
	b.cidrs(protocolTCP, portNodeFirst, portNodeLast, from...)
	b.cidrs(protocolUDP, portNodeFirst, portNodeLast, from...)
}

// Request converts a rule to a request to Neutron.
func (r Rule) Request(group string, groupOf func(provider.Role) string) rules.CreateOpts {
	o := rules.CreateOpts{
		Direction: rules.RuleDirection(r.direction), EtherType: rules.RuleEtherType(r.ether), SecGroupID: group,
		Protocol: rules.RuleProtocol(r.protocol), PortRangeMin: r.first, PortRangeMax: r.last, RemoteIPPrefix: r.cidr,
	}
	if r.from != "" {
		o.RemoteGroupID = groupOf(r.from)
	}
	return o
}

// Same reports whether an existing rule is equivalent to a wanted one, in any of Neutron's notations.
func Same(have rules.SecGroupRule, want rules.CreateOpts) bool {
	return have.Direction == string(want.Direction) && have.EtherType == string(want.EtherType) &&
		protocol(have.Protocol) == protocol(string(want.Protocol)) &&
		have.PortRangeMin == want.PortRangeMin && have.PortRangeMax == want.PortRangeMax &&
		have.RemoteGroupID == want.RemoteGroupID && have.RemoteAddressGroupID == "" &&
		prefix(have.RemoteIPPrefix, have.EtherType) == prefix(want.RemoteIPPrefix, have.EtherType)
}

func protocol(s string) string {
	switch s {
	case "any", "0":
		return ""
	case "vrrp":
		return protocolVRRP
	case "1":
		return protocolICMP
	case "6":
		return protocolTCP
	case "17":
		return protocolUDP
	}
	return s
}

func prefix(cidr, ether string) string {
	if cidr == everywhere && ether == etherTypeV4 {
		return ""
	}
	return cidr
}
