package adopt

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/kube/layout"
)

const ownAddress = "give the API an address or a name of its own that all machines reach (a load balancer, kube-vip), put it into controlPlaneEndpoint of the ConfigMap kubeadm-config " +
	"and, with kubeadm init phase certs apiserver, into the API servers' certificates"

// endpoint finds the address at which machines reach the API.
func (d *drafting) endpoint() {
	e, cps := &d.want.Spec.Endpoint, d.controlPlane()
	if len(cps) == 0 {
		e.Kind = v1alpha1.EndpointDirect // without an API server; a finding reports where etcd is
		return
	}
	recorded := strings.ToLower(d.conf.ControlPlaneEndpoint) // names of hosts have no case
	host, port, err := net.SplitHostPort(recorded)
	if err != nil {
		host, port = recorded, strconv.Itoa(layout.APIServerPort)
	}
	first := net.JoinHostPort(cps[0].Address, strconv.Itoa(layout.APIServerPort))
	switch {
	case len(cps) == 1 && (host == "" || host == cps[0].Address && port == strconv.Itoa(layout.APIServerPort)):
		e.Kind = v1alpha1.EndpointDirect
	case len(cps) == 1 && local(host):
		e.Kind, d.conf.ControlPlaneEndpoint = v1alpha1.EndpointDirect, first
		d.add(Changes, whole, "kubeadm-config says that the API is at "+recorded+", which each machine leads on by itself: all use "+first, "")
	case host == "" || local(host):
		d.block(whole, ownAddress+"; then import again", "it has %d API servers, and kubeadm-config names no address for all of them (%q)", len(cps), recorded)
		e.Kind, e.Address = v1alpha1.EndpointAddress, first
	case isIPv6(host):
		d.block(whole, ownAddress+"; it must be IPv4", "the API's address in kubeadm-config, %s, is IPv6", recorded)
		e.Kind, e.Address = v1alpha1.EndpointAddress, first
	default:
		e.Kind, e.Address, d.conf.ControlPlaneEndpoint = v1alpha1.EndpointAddress, net.JoinHostPort(host, port), recorded
	}
	d.certNames(host)
	d.balancers(host)
}

// keepName adds a name to the API servers' certificates.
func (d *drafting) keepName(name string) {
	if !slices.Contains(d.apiNames, name) {
		d.apiNames = append(d.apiNames, name)
	}
}

func isIPv6(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Is6()
}

// local reports whether a host name or address leads to the machine itself.
func local(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && a.IsLoopback()
}

// certified lists the names and addresses that certificates of our API servers always hold.
func (d *drafting) certified(endpoint string) []string {
	k := d.want.Spec.Kubernetes
	names := []string{endpoint, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + k.DNSDomain, serviceIP(k.ServiceCIDR)}
	for _, h := range d.controlPlane() {
		names = append(names, h.Name, h.Address)
	}
	return names
}

// certNames finds the further names in the API servers' certificates. Names of machines and of the Service are in all certificates.
func (d *drafting) certNames(host string) {
	e, known := &d.want.Spec.Endpoint, d.certified(host)
	var further []string
	for _, san := range d.conf.APIServer.CertSANs {
		if local(san) {
			d.keepName(san)
		}
		if !local(san) && !slices.Contains(known, san) && !slices.Contains(further, san) {
			further = append(further, san)
		}
	}
	if _, err := netip.ParseAddr(first(further)); err != nil && len(further) == 1 && e.Kind == v1alpha1.EndpointDirect {
		e.DNSName, further = further[0], nil
	}
	d.sans = further
}

// serviceIP is the address of the Service kubernetes.
func serviceIP(network string) string {
	p, err := netip.ParsePrefix(network)
	if err != nil {
		return ""
	}
	return p.Masked().Addr().Next().String()
}

// balancers reports kubelets that reach the API servers otherwise than by the endpoint: through a load balancer of their own, as Kubespray's do, or by a
// former address. The API servers' certificates keep that name: else these kubelets would lose the API before their own turn comes.
func (d *drafting) balancers(endpoint string) {
	var hosts []string
	at := ""
	for line := range strings.Lines(d.f.Survey.Records["kube-proxy"]["kubeconfig.conf"]) {
		server, ok := strings.CutPrefix(strings.TrimSpace(line), "server:")
		if u, err := url.Parse(strings.TrimSpace(server)); ok && err == nil && u.Host != "" && !slices.Contains(d.certified(endpoint), u.Hostname()) {
			d.keepName(u.Hostname())
		}
	}
	for _, h := range d.f.Hosts {
		u, err := url.Parse(h.Facts["server"])
		if err != nil || u.Host == "" || h.isControlPlane() && local(u.Hostname()) || slices.Contains(d.certified(endpoint), u.Hostname()) {
			continue
		}
		d.keepName(u.Hostname())
		if local(u.Hostname()) {
			hosts, at = append(hosts, h.Name), u.Host
		} else {
			d.add(Changes, h.Name, "the kubelet reaches the API at "+u.Host+", which kubeadm-config does not name: the first apply points it at the endpoint", "")
		}
	}
	if len(hosts) == 0 {
		return
	}
	cps := d.controlPlane()
	g := Gap{Kind: Changes, Where: strings.Join(hosts, ", "), Restarts: "kubelet on each machine", Do: "remove the load balancer (such as nginx-proxy) after the first apply, unless the pod network uses it, too",
		What: "the kubelet reaches the API through a load balancer on its own host (" + at + "): the first apply points it at the endpoint"}
	host, _, _ := net.SplitHostPort(d.want.Spec.Endpoint.Address)
	for _, h := range cps {
		if len(cps) > 1 && host == h.Address {
			g.Kind, d.alone = Lost, true
			g.What += ", which is the address of " + h.Name + " alone: while that is down, no other kubelet reaches an API server"
			g.Do = ownAddress + ", before the import: the endpoint can't change later"
		}
	}
	d.gaps = append(d.gaps, g)
}
