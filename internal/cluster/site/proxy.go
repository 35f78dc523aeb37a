package site

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/machine"
)

// The files in which programs on a machine find the proxy.
const (
	ProxyEnvironment   = "/etc/naupegos/proxy.env"
	NoProxyEnvironment = "/etc/naupegos/no-proxy.env"
	aptProxy           = "/etc/apt/apt.conf.d/90-naupegos-proxy.conf"
	proxyDropIn        = "30-naupegos-proxy.conf"
)

// ProxyParams describe how machines reach destinations outside the cluster.
type ProxyParams struct {
	Proxy    v1alpha1.Proxy
	Account  *Account       // for the proxy; nil: none
	Inside   []string       // destinations that machines reach without the proxy, from NoProxy
	Runtimes []machine.Unit // units on this machine that connect to the outside
	Servers  []string       // addresses of the machines that serve the registry inside
}

// NoProxy returns the destinations that machines reach without the proxy: those in the document and those in the cluster, sorted and without
// duplicates.
func NoProxy(doc *v1alpha1.Cluster, endpoint string, machines, networks []string) []string {
	host := endpoint
	if h, _, err := net.SplitHostPort(endpoint); err == nil {
		host = h
	}
	k := doc.Spec.Kubernetes
	all := slices.Concat(doc.Spec.Proxy.NoProxy, machines, networks, []string{
		"localhost", "127.0.0.0/8", "::1", "169.254.169.254", k.PodCIDR, k.ServiceCIDR, ".svc", "." + k.DNSDomain, "kubernetes", "kubernetes.default", host, doc.Spec.Endpoint.DNSName,
	})
	covered := prefixes(all)
	all = slices.DeleteFunc(all, func(to string) bool {
		a, err := netip.ParseAddr(to)
		return to == "" || err == nil && slices.ContainsFunc(covered, func(p netip.Prefix) bool { return p.Contains(a) })
	})
	slices.Sort(all)
	return slices.Compact(all)
}

func prefixes(list []string) (out []netip.Prefix) {
	for _, s := range list {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// Proxy renders the files of the proxy, and drop-ins for the units that pull images. These units restart when the proxy changes but not when a
// machine joins: they need only the endpoint and the networks, which do not change. containerd also needs the machines that serve the registry inside:
// it restarts when one of them is replaced, unless the new one is in a network that was known before.
func Proxy(p ProxyParams) machine.Config {
	var env, apt strings.Builder
	for _, s := range []struct{ name, scheme, address string }{{"HTTP_PROXY", "http", p.Proxy.HTTP}, {"HTTPS_PROXY", "https", p.Proxy.HTTPS}} {
		if s.address == "" {
			continue
		}
		address := withAccount(s.address, p.Account)
		fmt.Fprintf(&env, "%s=\"%s\"\n%s=\"%s\"\n", s.name, address, strings.ToLower(s.name), address)
		fmt.Fprintf(&apt, "Acquire::%s::Proxy \"%s\";\n", s.scheme, address)
		for _, host := range aptDirect(p.Proxy.NoProxy) {
			fmt.Fprintf(&apt, "Acquire::%s::Proxy::%s \"DIRECT\";\n", s.scheme, host)
		}
	}
	inside := strings.Join(p.Inside, ",")
	c := machine.Config{Files: []machine.File{text(ProxyEnvironment, env.String()), text(aptProxy, apt.String())}}
	if p.Account != nil {
		for i := range c.Files {
			c.Files[i].Mode, c.Files[i].Secret = 0o600, true
		}
	}
	c.Files = append(c.Files, text(NoProxyEnvironment, fmt.Sprintf("NO_PROXY=\"%s\"\nno_proxy=\"%s\"\n", inside, inside)))
	dropIn := "# The document's noProxy: " + strings.Join(p.Proxy.NoProxy, " ") + "\n[Service]\nEnvironmentFile=" + ProxyEnvironment + "\nEnvironmentFile=" + NoProxyEnvironment + "\n"
	servers := slices.DeleteFunc(slices.Clone(p.Servers), func(a string) bool { return !slices.Contains(p.Inside, a) })
	slices.Sort(servers)
	for _, u := range p.Runtimes {
		content := dropIn
		if u.Name == "containerd.service" && len(servers) > 0 {
			content = "# The registry inside is reached without the proxy: " + strings.Join(servers, " ") + "\n" + dropIn
		}
		c.Units = append(c.Units, machine.Unit{
			Name: u.Name, Enabled: u.Enabled, Active: u.Active, Reload: u.Reload, OnDemand: u.OnDemand,
			DropIns: []machine.DropIn{{Name: proxyDropIn, Content: content}}, Watches: []string{ProxyEnvironment},
		})
	}
	return c
}

// withAccount adds user and password to a proxy's address.
func withAccount(address string, a *Account) string {
	u, err := url.Parse(address)
	if a == nil || err != nil {
		return address
	}
	u.User = url.UserPassword(a.User, a.Password)
	return u.String()
}

// aptDirect returns the items of noProxy that apt understands: names of single hosts.
func aptDirect(noProxy []string) (hosts []string) {
	for _, to := range noProxy {
		if strings.HasPrefix(to, ".") || strings.ContainsAny(to, "*/:") {
			continue
		}
		hosts = append(hosts, to)
	}
	return hosts
}
