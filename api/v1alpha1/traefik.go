package v1alpha1

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1/ports"
)

// Traefik passes requests on to pods, as Ingresses and Gateways of the Gateway API say.
type Traefik struct {
	// How clients reach it: at the address of a load balancer, at a port of all nodes (NodePort), or at ports of the nodes that run its pods (HostPort), which are then all nodes that take ordinary pods. Left out: NodePort if spec.endpoint has ingress, or if the cluster has no load balancers (provider openstack, addon metallb); LoadBalancer otherwise.
	Expose string `json:"expose,omitempty" yaml:"expose,omitempty" jsonschema:"enum=LoadBalancer,enum=NodePort,enum=HostPort"`
	// Port of the nodes for HTTP. Left out: that of spec.endpoint's ingress, or else 30080, with NodePort, and 80 with HostPort.
	HTTPPort int `json:"httpPort,omitempty" yaml:"httpPort,omitempty" jsonschema:"minimum=1,maximum=65535" host:"none"`
	// Port of the nodes for HTTPS. Left out: that of spec.endpoint's ingress, or else 30443, with NodePort, and 443 with HostPort.
	HTTPSPort int `json:"httpsPort,omitempty" yaml:"httpsPort,omitempty" jsonschema:"minimum=1,maximum=65535" host:"none"`
	// Pods. With 2, requests are served while a node is away. With HostPort each node runs one.
	Replicas int `json:"replicas,omitempty" yaml:"replicas,omitempty" jsonschema:"default=2,minimum=1,maximum=20"`
	// Annotations of the Service of type LoadBalancer, as metallb.io/address-pool or loadbalancer.openstack.org/keep-floatingip.
	Annotations map[string]string `json:"annotations,omitempty" yaml:"annotations,omitempty"`
	// Let only nodes that run a pod of Traefik take requests of the Service, so that pods see the clients' addresses (externalTrafficPolicy Local).
	KeepClientAddress bool `json:"keepClientAddress,omitempty" yaml:"keepClientAddress,omitempty" jsonschema:"default=false" host:"none"`
	// Serve Ingresses that name no class, too.
	DefaultClass *bool `json:"defaultClass,omitempty" yaml:"defaultClass,omitempty" jsonschema:"default=true"`
	// Serve Gateways of GatewayClass traefik. The addon brings the standard definitions of the Gateway API.
	GatewayAPI bool `json:"gatewayAPI,omitempty" yaml:"gatewayAPI,omitempty" jsonschema:"default=false"`
	// Serve Ingresses of class nginx as ingress-nginx did, with its annotations except snippets.
	IngressNGINX bool `json:"ingressNGINX,omitempty" yaml:"ingressNGINX,omitempty" jsonschema:"default=false"`
	// Serve Traefik's own kinds, such as IngressRoute and Middleware. The addon brings their definitions.
	CustomResources bool `json:"customResources,omitempty" yaml:"customResources,omitempty" jsonschema:"default=false"`
	// Redirect all requests by HTTP to HTTPS.
	RedirectToHTTPS bool `json:"redirectToHTTPS,omitempty" yaml:"redirectToHTTPS,omitempty" jsonschema:"default=false"`
	// Oldest version of TLS that clients may speak.
	MinTLS string `json:"minTLS,omitempty" yaml:"minTLS,omitempty" jsonschema:"default=TLS1.2,enum=TLS1.2,enum=TLS1.3"`
	// Secret of type kubernetes.io/tls in the namespace traefik with the certificate for names that have no other. Left out: a self-signed one.
	DefaultCertificate string `json:"defaultCertificate,omitempty" yaml:"defaultCertificate,omitempty" jsonschema:"maxLength=253" host:"none"`
	// Addresses and networks of proxies whose X-Forwarded headers are believed.
	TrustedProxies []string `json:"trustedProxies,omitempty" yaml:"trustedProxies,omitempty" jsonschema:"maxItems=50"`
	// Read the clients' addresses from the PROXY protocol that trustedProxies speak.
	ProxyProtocol bool `json:"proxyProtocol,omitempty" yaml:"proxyProtocol,omitempty" jsonschema:"default=false"`
	// Write each request into the pods' logs, as JSON without headers.
	AccessLog bool `json:"accessLog,omitempty" yaml:"accessLog,omitempty" jsonschema:"default=false"`
	// Longest time in which a client may send a request with its body, up to 24h.
	ReadTimeout Duration `json:"readTimeout,omitzero" yaml:"readTimeout,omitempty" jsonschema:"default=1m"`
	// Further ports, for Gateways and for Traefik's kinds IngressRouteTCP and IngressRouteUDP.
	EntryPoints []EntryPoint `json:"entryPoints,omitempty" yaml:"entryPoints,omitempty" jsonschema:"maxItems=20"`
}

// EntryPoint is a further port of Traefik's.
type EntryPoint struct {
	// Name by which routes refer to it.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=15,pattern=^[a-z](-?[a-z0-9])*$"`
	// Port of the load balancer, or of the nodes with HostPort.
	Port int `json:"port" yaml:"port" jsonschema:"required,minimum=1,maximum=65535" host:"none"`
	// Protocol.
	Protocol string `json:"protocol,omitempty" yaml:"protocol,omitempty" jsonschema:"default=tcp,enum=tcp,enum=udp"`
	// Port of all nodes, with NodePort. Left out: the API server chooses one.
	NodePort int `json:"nodePort,omitempty" yaml:"nodePort,omitempty" jsonschema:"minimum=30000,maximum=32767" host:"none"`
}

// The ways to reach Traefik, and the port of its pods for metrics and for kubelet's questions.
const (
	ExposeLoadBalancer, ExposeNodePort, ExposeHostPort = "LoadBalancer", "NodePort", "HostPort"

	TraefikHealthPort = 8990
)

func (t *Traefik) fill(c *Cluster) {
	in := c.Spec.Endpoint.IngressWanted()
	if t.Expose == "" {
		t.Expose = ExposeNodePort
		if in == nil && (c.Spec.Provider.OpenStack != nil || c.Addon(AddonMetalLB) != nil) {
			t.Expose = ExposeLoadBalancer
		}
	}
	switch t.Expose {
	case ExposeHostPort:
		t.HTTPPort, t.HTTPSPort = cmp.Or(t.HTTPPort, HTTPPort), cmp.Or(t.HTTPSPort, HTTPSPort)
	case ExposeNodePort:
		if in == nil {
			in = &Ingress{}
		}
		t.HTTPPort, t.HTTPSPort = cmp.Or(t.HTTPPort, in.HTTPNodePort, 30080), cmp.Or(t.HTTPSPort, in.HTTPSNodePort, 30443)
	}
}

func (t *Traefik) check(r *findings, c *Cluster, field string) {
	s := c.Spec
	if t.Expose == ExposeLoadBalancer && s.Provider.OpenStack == nil && c.Addon(AddonMetalLB) == nil && len(s.Charts)+len(s.Manifests) == 0 && s.Kubernetes.CNI != CNINone {
		r.Add(field+".expose", "nothing gives addresses to Services of type LoadBalancer", "list metallb, or use NodePort or HostPort")
	}
	if t.Expose == ExposeHostPort && s.Provider.OpenStack != nil {
		r.Add(field+".expose", "the machines' security groups admit no clients to such ports", "use LoadBalancer or NodePort")
	}
	t.checkPorts(r, c, field)
	if t.Expose != ExposeLoadBalancer && len(t.Annotations) > 0 {
		r.Add(field+".annotations", "there is no Service of type LoadBalancer", "remove them", field+".expose")
	}
	for _, k := range slices.Sorted(maps.Keys(t.Annotations)) {
		if len(validation.IsQualifiedName(strings.ToLower(k))) > 0 {
			r.Add(field+".annotations["+strict.Clip(k)+"]", strict.Quote(k)+" is not the key of an annotation", "write it like metallb.io/address-pool")
		}
	}
	if t.DefaultCertificate != "" && len(validation.IsDNS1123Subdomain(t.DefaultCertificate)) > 0 {
		r.Add(field+".defaultCertificate", strict.Quote(t.DefaultCertificate)+" is not the name of a Secret", "write the name alone; the namespace is traefik")
	}
	if t.ProxyProtocol && len(t.TrustedProxies) == 0 {
		r.Add(field+".proxyProtocol", "any client could claim any address", "list the proxies in trustedProxies", field+".trustedProxies")
	}
	for i, p := range t.TrustedProxies {
		_, noAddress := netip.ParseAddr(p)
		if _, err := netip.ParsePrefix(p); err != nil && noAddress != nil {
			r.Add(strict.Item(field+".trustedProxies", i), strict.Quote(p)+" is neither an address nor a network", "write it like 10.0.0.5 or 10.0.0.0/24")
		}
	}
}

// checkPorts checks that each port of the nodes, of the Service and of the pods is used once.
func (t *Traefik) checkPorts(r *findings, c *Cluster, field string) {
	nodes, pods := machinePorts(c), ports.Pod()
	if t.Expose == ExposeNodePort {
		nodes = ports.Services()
	}
	if e := c.Addon(AddonNodeExporter); e != nil && e.NodeExporter != nil {
		nodes.Hold("tcp", e.NodeExporter.Port, AddonNodeExporter)
	}
	onNode := func(at, protocol string, port int, who string) {
		switch {
		case port == 0:
		case t.Expose == ExposeLoadBalancer:
			r.Add(at, "is a port of nodes, which expose LoadBalancer does not use", "remove it, or change expose", field+".expose")
		default:
			nodes.Claim(r, at, protocol, port, who, "take another", field+".expose")
		}
	}
	onNode(field+".httpPort", "tcp", t.HTTPPort, "HTTP")
	onNode(field+".httpsPort", "tcp", t.HTTPSPort, "HTTPS")
	pods.Hold("tcp", HTTPPort, "HTTP")
	pods.Hold("tcp", HTTPSPort, "HTTPS")
	pods.Hold("tcp", TraefikHealthPort, "the metrics of Traefik")
	for i, e := range t.EntryPoints {
		at := strict.Item(field+".entryPoints", i)
		switch {
		case len(validation.IsValidPortName(e.Name)) > 0:
			r.Add(at+".name", strict.Quote(e.Name)+" is not the name of a port", "use up to 15 lower-case letters, digits and single dashes")
		case slices.Contains([]string{"web", "websecure", "traefik", "metrics"}, e.Name):
			r.Add(at+".name", strict.Quote(e.Name)+" is one of Traefik's own entry points", "take another name")
		case slices.ContainsFunc(t.EntryPoints[:i], func(o EntryPoint) bool { return o.Name == e.Name }):
			r.Add(at+".name", "entry point "+e.Name+" is already listed", "take another name")
		}
		pods.Claim(r, at+".port", e.Protocol, e.Port, "entry point "+e.Name, "take another")
		switch {
		case t.Expose == ExposeHostPort && e.NodePort == 0:
			onNode(at+".port", e.Protocol, e.Port, "entry point "+e.Name)
		case e.NodePort != 0 && t.Expose != ExposeNodePort:
			r.Add(at+".nodePort", "belongs to expose NodePort", "remove it", field+".expose")
		default:
			onNode(at+".nodePort", e.Protocol, e.NodePort, "entry point "+e.Name)
		}
		if !t.CustomResources && (!t.GatewayAPI || e.Protocol == "udp") {
			r.Add(at, "nothing can send requests of this port to pods", "set customResources to true, or, for TLS, gatewayAPI", field+".customResources")
		}
	}
}
