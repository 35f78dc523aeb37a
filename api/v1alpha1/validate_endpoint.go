package v1alpha1

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
)

// Ports that gateways use themselves.
const (
	sshPort   = 22
	statsPort = 8404
)

// checkEndpoint checks the fields that belong to the kind of endpoint, and that the others are left out.
func (c *Cluster) checkEndpoint(r *findings) {
	const path = "spec.endpoint"
	e := c.Spec.Endpoint
	if r.IsWrong(path + ".kind") {
		return
	}
	for _, f := range []struct {
		key, kind string
		given     bool
	}{
		{"gateways", EndpointGateways, e.Gateways != nil},
		{"vip", EndpointGateways, e.VIP != ""},
		{"address", EndpointAddress, e.Address != ""},
		{"octavia", EndpointOctavia, e.Octavia != nil},
	} {
		if f.given && e.Kind != f.kind {
			r.Add(path+"."+f.key, fmt.Sprintf("belongs to endpoint kind %s, but kind is %s", f.kind, e.Kind), "remove it or change the kind")
		}
	}
	c.checkFront(r, path)
	switch e.Kind {
	case EndpointGateways:
		c.checkGateways(r, path)
	case EndpointOctavia:
		c.checkOctavia(r, path)
	case EndpointAddress:
		c.checkEndpointAddress(r, path)
	case EndpointDirect:
		if n := c.Spec.ControlPlane.Replicas; n > 1 {
			r.Add(path+".kind", fmt.Sprintf("direct needs a single control-plane machine, %d are wanted", n),
				"take kind gateways or address, or set spec.controlPlane.replicas to 1", "spec.controlPlane.replicas")
		}
		if e.Port != APIServerPort {
			r.Add(path+".port", fmt.Sprintf("is %d, but the API server listens on %d and kind direct has nothing between", e.Port, APIServerPort), "leave it out")
		}
	}
}

// checkFront checks the API's address for clients outside the cluster.
func (c *Cluster) checkFront(r *findings, path string) {
	e := c.Spec.Endpoint
	switch _, err := netip.ParseAddr(e.DNSName); {
	case e.DNSName == "":
	case e.Kind == EndpointAddress:
		r.Add(path+".dnsName", "is given, but with kind address the API is reached by spec.endpoint.address", "remove it", path+".address")
	case err == nil || len(validation.IsDNS1123Subdomain(e.DNSName)) > 0:
		r.Add(path+".dnsName", strict.Quote(e.DNSName)+" is not a host name in lower case", `write it like "k8s.example.org"`)
	}
	if e.FloatingIP == "" {
		return
	}
	problem, hint := checkAddress(e.FloatingIP)
	switch {
	case c.Spec.Provider.OpenStack == nil:
		problem, hint = "belongs to provider openstack, but the provider is another", "remove it"
	case e.Kind != EndpointOctavia && e.Kind != EndpointGateways:
		problem, hint = "belongs to endpoint kinds octavia and gateways, but kind is "+e.Kind, "remove it or change the kind"
	case e.Octavia != nil && e.Octavia.Internal:
		problem, hint = "is given, but spec.endpoint.octavia.internal keeps the load balancer's address inside", "remove one of them"
	}
	if problem != "" {
		r.Add(path+".floatingIP", problem, hint)
	}
}

// checkGateways checks the virtual address and the port that gateways listen on.
func (c *Cluster) checkGateways(r *findings, path string) {
	e := c.Spec.Endpoint
	switch {
	case c.Spec.Provider.Local != nil && e.VIP != "":
		r.Add(path+".vip", "can't be chosen with provider local", "remove it: the provider takes the tenth address of its network", "spec.provider")
	case c.Spec.Provider.OpenStack != nil && e.VIP != "":
		r.Add(path+".vip", "can't be chosen with provider openstack", "remove it: it is the address of a port that the provider makes", "spec.provider")
	case c.Spec.Provider.Hosts != nil && e.VIP == "":
		r.Add(path+".vip", "is required with provider hosts and kind gateways", "give a free address in the gateways' network, or take another kind of endpoint", "spec.provider")
	case c.Spec.Provider.Metal != nil && e.VIP == "":
		r.Add(path+".vip", "is required with provider metal and kind gateways", "give a free address in the gateways' network, or take another kind of endpoint", "spec.provider")
	case e.VIP != "":
		if problem, hint := checkAddress(e.VIP); problem != "" {
			r.Add(path+".vip", problem, hint)
		}
	}
	if e.Gateways != nil {
		c.checkIngress(r, path+".gateways.ingress", e.Gateways.Ingress)
	}
	if e.Port == sshPort || e.Port == statsPort {
		r.Add(path+".port", fmt.Sprintf("gateways use port %d themselves", e.Port), "6443 is usual")
	}
}

// checkOctavia checks the cloud's load balancer.
func (c *Cluster) checkOctavia(r *findings, path string) {
	if c.Spec.Provider.OpenStack == nil {
		r.Add(path+".kind", "octavia is a load balancer of OpenStack, but the provider is another", "take kind gateways, address or direct", "spec.provider")
		return
	}
	o := c.Spec.Endpoint.Octavia
	checkCIDRList(r, path+".octavia.allowedCIDRs", o.AllowedCIDRs)
	checkCloudName(r, path+".octavia.provider", o.Provider)
	for _, f := range []struct{ key, value string }{{"flavor", o.Flavor}, {"zone", o.Zone}} {
		field := path + ".octavia." + f.key
		checkCloudName(r, field, f.value)
		if o.OVN() && f.value != "" {
			r.Add(field, "is given, but the load balancers of provider ovn have none", "remove it", path+".octavia.provider")
		}
	}
	c.checkIngress(r, path+".octavia.ingress", o.Ingress)
}

// checkIngress checks the ports through which web traffic reaches the workers.
func (c *Cluster) checkIngress(r *findings, field string, in *Ingress) {
	if in == nil {
		return
	}
	if in.HTTPNodePort == in.HTTPSNodePort {
		r.Add(field+".httpsNodePort", fmt.Sprintf("is %d, the same as httpNodePort", in.HTTPSNodePort), "one NodePort serves one of them", field+".httpNodePort")
	}
	if port := c.Spec.Endpoint.Port; port == HTTPPort || port == HTTPSPort {
		r.Add("spec.endpoint.port", fmt.Sprintf("is %d, which ingress listens on", port), "6443 is usual", field)
	}
	if len(c.Spec.Workers) == 0 {
		r.Add(field, "has no worker to pass traffic to", "add a pool, or remove it", "spec.workers")
	}
}

// checkEndpointAddress checks host[:port].
func (c *Cluster) checkEndpointAddress(r *findings, path string) {
	e := c.Spec.Endpoint
	field := path + ".address"
	if e.Address == "" {
		r.Add(field, "is required with kind address", `give the host or host:port of your load balancer`)
		return
	}
	if problem, hint := checkHostPort(e.Address); problem != "" {
		r.Add(field, problem, hint)
		return
	}
	if _, port := e.AddressHostPort(); port != 0 && e.Port != port {
		r.Add(path+".port", fmt.Sprintf("is %d, but spec.endpoint.address says %d", e.Port, port), "give it once", field)
	}
}

// checkHostPort reports why a text is not a host or host:port; empty if it is.
func checkHostPort(s string) (problem, hint string) {
	hint = `write it like "k8s.example.org" or "192.0.2.10:6443"`
	host := s
	if strings.Contains(s, "://") || strings.Contains(s, "/") {
		return strict.Quote(s) + " is a URL", hint
	}
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil && a.Is6() {
		return strict.Quote(s) + " is an IPv6 address", "only IPv4 is supported"
	}
	if strings.Contains(s, ":") {
		h, p, err := net.SplitHostPort(s)
		if err != nil {
			return strict.Quote(s) + " is not host:port", hint
		}
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 || p != strconv.Itoa(n) {
			return strict.Quote(p) + " is not a port", "ports go from 1 to 65535"
		}
		host = h
	}
	if regexp.MustCompile(`^[0-9.]+$`).MatchString(host) {
		return checkAddress(host)
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
		return strict.Quote(s) + " has an IPv6 address", "only IPv4 is supported"
	}
	if len(validation.IsDNS1123Subdomain(host)) > 0 {
		return strict.Quote(host) + " is not a host name in lower case", hint
	}
	return "", ""
}
