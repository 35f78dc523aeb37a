package validation

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/ports"
)

func checkTraefik(t *v1alpha1.Traefik, r *findings, c *v1alpha1.Cluster, field string) {
	s := c.Spec
	if t.Expose == v1alpha1.ExposeLoadBalancer && s.Provider.OpenStack == nil && c.Addon(v1alpha1.AddonMetalLB) == nil && len(s.Charts)+len(s.Manifests) == 0 && s.Kubernetes.CNI != v1alpha1.CNINone {
		r.Add(field+".expose", "nothing gives addresses to Services of type LoadBalancer", "list metallb, or use NodePort or HostPort")
	}
	if t.Expose == v1alpha1.ExposeHostPort && s.Provider.OpenStack != nil {
		r.Add(field+".expose", "the machines' security groups admit no clients to such ports", "use LoadBalancer or NodePort")
	}
	checkTraefikPorts(t, r, c, field)
	if t.Expose != v1alpha1.ExposeLoadBalancer && len(t.Annotations) > 0 {
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

// checkTraefikPorts checks that each port of the nodes, of the Service and of the pods is used once.
func checkTraefikPorts(t *v1alpha1.Traefik, r *findings, c *v1alpha1.Cluster, field string) {
	nodes, pods := machinePorts(c), ports.Pod()
	if t.Expose == v1alpha1.ExposeNodePort {
		nodes = ports.Services()
	}
	if e := c.Addon(v1alpha1.AddonNodeExporter); e != nil && e.NodeExporter != nil {
		nodes.Hold("tcp", e.NodeExporter.Port, v1alpha1.AddonNodeExporter)
	}
	onNode := func(at, protocol string, port int, who string) {
		switch {
		case port == 0:
		case t.Expose == v1alpha1.ExposeLoadBalancer:
			r.Add(at, "is a port of nodes, which expose LoadBalancer does not use", "remove it, or change expose", field+".expose")
		default:
			nodes.Claim(r, at, protocol, port, who, "take another", field+".expose")
		}
	}
	onNode(field+".httpPort", "tcp", t.HTTPPort, "HTTP")
	onNode(field+".httpsPort", "tcp", t.HTTPSPort, "HTTPS")
	pods.Hold("tcp", v1alpha1.HTTPPort, "HTTP")
	pods.Hold("tcp", v1alpha1.HTTPSPort, "HTTPS")
	pods.Hold("tcp", v1alpha1.TraefikHealthPort, "the metrics of Traefik")
	for i, e := range t.EntryPoints {
		at := strict.Item(field+".entryPoints", i)
		switch {
		case len(validation.IsValidPortName(e.Name)) > 0:
			r.Add(at+".name", strict.Quote(e.Name)+" is not the name of a port", "use up to 15 lower-case letters, digits and single dashes")
		case slices.Contains([]string{"web", "websecure", "traefik", "metrics"}, e.Name):
			r.Add(at+".name", strict.Quote(e.Name)+" is one of Traefik's own entry points", "take another name")
		case slices.ContainsFunc(t.EntryPoints[:i], func(o v1alpha1.EntryPoint) bool { return o.Name == e.Name }):
			r.Add(at+".name", "entry point "+e.Name+" is already listed", "take another name")
		}
		pods.Claim(r, at+".port", e.Protocol, e.Port, "entry point "+e.Name, "take another")
		switch {
		case t.Expose == v1alpha1.ExposeHostPort && e.NodePort == 0:
			onNode(at+".port", e.Protocol, e.Port, "entry point "+e.Name)
		case e.NodePort != 0 && t.Expose != v1alpha1.ExposeNodePort:
			r.Add(at+".nodePort", "belongs to expose NodePort", "remove it", field+".expose")
		default:
			onNode(at+".nodePort", e.Protocol, e.NodePort, "entry point "+e.Name)
		}
		if !t.CustomResources && (!t.GatewayAPI || e.Protocol == "udp") {
			r.Add(at, "nothing can send requests of this port to pods", "set customResources to true, or, for TLS, gatewayAPI", field+".customResources")
		}
	}
}
