package v1alpha1

import (
	"net"
	"strconv"
)

// Endpoint is where clients and nodes reach the Kubernetes API.
type Endpoint struct {
	// How the API is reached: gateways (machines with a load balancer and a shared virtual address), octavia (the cloud's load balancer; only with provider openstack), address (a load balancer of your own), or direct (the single control-plane machine itself). Default: address where address is given, octavia where octavia is given, else gateways.
	Kind string `json:"kind,omitempty" yaml:"kind,omitempty" jsonschema:"default=gateways,enum=gateways,enum=octavia,enum=address,enum=direct"`
	// The cloud's load balancer, for kind octavia.
	Octavia *Octavia `json:"octavia,omitempty" yaml:"octavia,omitempty"`
	// The gateway machines, for kind gateways.
	Gateways *Gateways `json:"gateways,omitempty" yaml:"gateways,omitempty"`
	// Virtual IPv4 address that the gateways share. Needed with provider hosts: a free address in the gateways' own network. The local provider chooses its own.
	VIP string `json:"vip,omitempty" yaml:"vip,omitempty" host:"cluster"`
	// DNS name by which people reach the API. It goes into kubeconfigs and the API servers' certificates. You create the DNS record yourself, unless spec.provider.openstack.dns does; with that, the default is api.CLUSTER.ZONE. With kind address, put the name in address instead.
	DNSName string `json:"dnsName,omitempty" yaml:"dnsName,omitempty" jsonschema:"maxLength=253" host:"none"`
	// Existing floating IP of the project that leads to the API. It is kept when the cluster is destroyed. Left out: Naupegos creates one. Only with provider openstack and kinds octavia and gateways.
	FloatingIP string `json:"floatingIP,omitempty" yaml:"floatingIP,omitempty" host:"cluster"`
	// Host or host:port of your load balancer, for kind address. Forward the port to port 6443 of every control-plane machine.
	Address string `json:"address,omitempty" yaml:"address,omitempty" host:"cluster"`
	// Port of the API at the endpoint. Default: the port in address, else 6443.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"default=6443,minimum=1,maximum=65535" host:"none"`
}

// The kinds of endpoint.
const (
	EndpointGateways = "gateways"
	EndpointOctavia  = "octavia"
	EndpointAddress  = "address"
	EndpointDirect   = "direct"
)

// APIServerPort is the port that the API servers themselves listen on.
const APIServerPort = 6443

// Gateways are machines that run HAProxy and keepalived.
type Gateways struct {
	// How many. With provider hosts, the default is the number of machines with that role.
	Replicas int `json:"replicas,omitempty" yaml:"replicas,omitempty" jsonschema:"default=2,minimum=1,maximum=5"`
	// Also listen on ports 80 and 443 and pass them to NodePorts of the workers.
	Ingress *Ingress `json:"ingress,omitempty" yaml:"ingress,omitempty"`
	// Size, image and placement of the gateway machines. Only with provider openstack.
	Machine MachineShape `json:"machine,omitzero" yaml:"machine,omitempty"`
	// Settings of these machines, in addition to spec.machines.
	Machines MachineSettings `json:"machines,omitzero" yaml:"machines,omitempty"`
}

// Octavia is a load balancer of an OpenStack cloud.
type Octavia struct {
	// Octavia provider of the load balancers, both the API's and those of Services: amphora, ovn, or another one that the cloud offers. Left out: the cloud's default. With ovn, machines see the clients' own addresses, and access.nodePortCIDRs says who may reach Services.
	Provider string `json:"provider,omitempty" yaml:"provider,omitempty" jsonschema:"maxLength=255"`
	// Networks in CIDR form that may reach the API through the load balancer. Left out: all.
	AllowedCIDRs []string `json:"allowedCIDRs,omitempty" yaml:"allowedCIDRs,omitempty" jsonschema:"maxItems=100"`
	// How the load balancer checks an API server: tls (a TLS handshake) or tcp (a connection, as always with provider ovn).
	Monitor string `json:"monitor,omitempty" yaml:"monitor,omitempty" jsonschema:"default=tls,enum=tls,enum=tcp"`
	// Name or ID of the load balancer's flavor, which decides, for example, whether it runs as one instance or as two. Left out: the cloud's default.
	Flavor string `json:"flavor,omitempty" yaml:"flavor,omitempty" jsonschema:"maxLength=255"`
	// Availability zone of the load balancer. Left out: the cloud chooses.
	Zone string `json:"zone,omitempty" yaml:"zone,omitempty" jsonschema:"maxLength=255"`
	// Keep the load balancer's address inside the machines' network: no floating IP.
	Internal bool `json:"internal,omitempty" yaml:"internal,omitempty" jsonschema:"default=false"`
	// Also listen on ports 80 and 443 and pass them to NodePorts of the workers.
	Ingress *Ingress `json:"ingress,omitempty" yaml:"ingress,omitempty"`
}

// ProviderOVN is the Octavia provider that needs no machines of its own: OVN distributes connections where they originate.
const ProviderOVN = "ovn"

// OVN reports whether OVN implements the load balancer. OVN preserves the clients' addresses.
func (o *Octavia) OVN() bool { return o != nil && o.Provider == ProviderOVN }

// Ingress passes web traffic to NodePorts of the workers.
type Ingress struct {
	// NodePort that port 80 is passed to.
	HTTPNodePort int `json:"httpNodePort,omitempty" yaml:"httpNodePort,omitempty" jsonschema:"default=30080,minimum=30000,maximum=32767" host:"none"`
	// NodePort that port 443 is passed to.
	HTTPSNodePort int `json:"httpsNodePort,omitempty" yaml:"httpsNodePort,omitempty" jsonschema:"default=30443,minimum=30000,maximum=32767" host:"none"`
}

// LoadBalancer returns the settings of the cloud's load balancer, or nil if the endpoint is of another kind.
func (e Endpoint) LoadBalancer() *Octavia {
	if e.Kind != EndpointOctavia {
		return nil
	}
	if e.Octavia == nil {
		return &Octavia{}
	}
	return e.Octavia
}

// IngressWanted returns the web traffic that the endpoint forwards in addition to the API, or nil for none.
func (e Endpoint) IngressWanted() *Ingress {
	switch {
	case e.Kind == EndpointGateways && e.Gateways != nil:
		return e.Gateways.Ingress
	case e.Kind == EndpointOctavia && e.Octavia != nil:
		return e.Octavia.Ingress
	}
	return nil
}

// The ports on which an endpoint with Ingress listens for web traffic.
const (
	HTTPPort  = 80
	HTTPSPort = 443
)

// AddressHostPort splits Address into host and port. The port is 0 if Address contains no valid port.
func (e Endpoint) AddressHostPort() (host string, port int) {
	h, p, err := net.SplitHostPort(e.Address)
	if err != nil {
		return e.Address, 0
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 1 || port > 65535 {
		return h, 0
	}
	return h, port
}
