package validation

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// Ports that gateways use themselves.
const (
	sshPort   = 22
	statsPort = 8404
)

// checkEndpoint checks the fields that belong to the kind of endpoint, and that the others are left out.
func checkEndpoint(c *v1alpha1.Cluster, r *findings) {
	const path = "spec.endpoint"
	e := c.Spec.Endpoint
	if r.IsWrong(path + ".kind") {
		return
	}
	for _, f := range []struct {
		key, kind string
		given     bool
	}{
		{"gateways", v1alpha1.EndpointGateways, e.Gateways != nil},
		{"vip", v1alpha1.EndpointGateways, e.VIP != ""},
		{"address", v1alpha1.EndpointAddress, e.Address != ""},
		{"octavia", v1alpha1.EndpointOctavia, e.Octavia != nil},
	} {
		if f.given && e.Kind != f.kind {
			r.Add(path+"."+f.key, fmt.Sprintf("belongs to endpoint kind %s, but kind is %s", f.kind, e.Kind), "remove it or change the kind")
		}
	}
	checkFront(c, r, path)
	switch e.Kind {
	case v1alpha1.EndpointGateways:
		checkGateways(c, r, path)
	case v1alpha1.EndpointOctavia:
		checkOctavia(c, r, path)
	case v1alpha1.EndpointAddress:
		checkEndpointAddress(c, r, path)
	case v1alpha1.EndpointDirect:
		if n := c.Spec.ControlPlane.Replicas; n > 1 {
			r.Add(path+".kind", fmt.Sprintf("direct needs a single control-plane machine, %d are wanted", n),
				"take kind gateways or address, or set spec.controlPlane.replicas to 1", "spec.controlPlane.replicas")
		}
		if e.Port != v1alpha1.APIServerPort {
			r.Add(path+".port", fmt.Sprintf("is %d, but the API server listens on %d and kind direct has nothing between", e.Port, v1alpha1.APIServerPort), "leave it out")
		}
	}
}

// checkFront checks the API's address for clients outside the cluster.
func checkFront(c *v1alpha1.Cluster, r *findings, path string) {
	e := c.Spec.Endpoint
	switch _, err := netip.ParseAddr(e.DNSName); {
	case e.DNSName == "":
	case e.Kind == v1alpha1.EndpointAddress:
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
	case e.Kind != v1alpha1.EndpointOctavia && e.Kind != v1alpha1.EndpointGateways:
		problem, hint = "belongs to endpoint kinds octavia and gateways, but kind is "+e.Kind, "remove it or change the kind"
	case e.Octavia != nil && e.Octavia.Internal:
		problem, hint = "is given, but spec.endpoint.octavia.internal keeps the load balancer's address inside", "remove one of them"
	}
	if problem != "" {
		r.Add(path+".floatingIP", problem, hint)
	}
}

// checkGateways checks the virtual address and the port that gateways listen on.
func checkGateways(c *v1alpha1.Cluster, r *findings, path string) {
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
		checkIngress(c, r, path+".gateways.ingress", e.Gateways.Ingress)
	}
	if e.Port == sshPort || e.Port == statsPort {
		r.Add(path+".port", fmt.Sprintf("gateways use port %d themselves", e.Port), "6443 is usual")
	}
}

// checkOctavia checks the cloud's load balancer.
func checkOctavia(c *v1alpha1.Cluster, r *findings, path string) {
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
	checkIngress(c, r, path+".octavia.ingress", o.Ingress)
}

// checkIngress checks the ports through which web traffic reaches the workers.
func checkIngress(c *v1alpha1.Cluster, r *findings, field string, in *v1alpha1.Ingress) {
	if in == nil {
		return
	}
	if in.HTTPNodePort == in.HTTPSNodePort {
		r.Add(field+".httpsNodePort", fmt.Sprintf("is %d, the same as httpNodePort", in.HTTPSNodePort), "one NodePort serves one of them", field+".httpNodePort")
	}
	if port := c.Spec.Endpoint.Port; port == v1alpha1.HTTPPort || port == v1alpha1.HTTPSPort {
		r.Add("spec.endpoint.port", fmt.Sprintf("is %d, which ingress listens on", port), "6443 is usual", field)
	}
	if len(c.Spec.Workers) == 0 {
		r.Add(field, "has no worker to pass traffic to", "add a pool, or remove it", "spec.workers")
	}
}

// checkEndpointAddress checks host[:port].
func checkEndpointAddress(c *v1alpha1.Cluster, r *findings, path string) {
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
