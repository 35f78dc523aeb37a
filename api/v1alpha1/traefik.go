package v1alpha1

import (
	"cmp"
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

// The ways to reach Traefik.
const (
	ExposeLoadBalancer = "LoadBalancer"
	ExposeNodePort     = "NodePort"
	ExposeHostPort     = "HostPort"
)

// TraefikHealthPort is the port of Traefik's pods for metrics and kubelet's probes.
const TraefikHealthPort = 8990

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
