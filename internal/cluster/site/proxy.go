package site

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"

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
	Account  AccountOf      // for each of the proxies
	Sources  []string       // URLs of the machine's package repositories
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
func Proxy(p ProxyParams) (machine.Config, error) {
	var env, apt strings.Builder
	secret, direct := false, aptDirect(p)
	for _, s := range []struct{ name, scheme, address string }{{"HTTP_PROXY", "http", p.Proxy.HTTP}, {"HTTPS_PROXY", "https", p.Proxy.HTTPS}} {
		if s.address == "" {
			continue
		}
		account, err := p.Account(p.Proxy.Auth, s.address)
		if err != nil {
			return machine.Config{}, err
		}
		secret = secret || account != nil
		address := WithAccount(s.address, account)
		fmt.Fprintf(&env, "%s=\"%s\"\n%s=\"%s\"\n", s.name, address, strings.ToLower(s.name), address)
		fmt.Fprintf(&apt, "Acquire::%s::Proxy \"%s\";\n", s.scheme, address)
		for _, host := range direct {
			fmt.Fprintf(&apt, "Acquire::%s::Proxy::%s \"DIRECT\";\n", s.scheme, host)
		}
	}
	inside := strings.Join(p.Inside, ",")
	c := machine.Config{Files: []machine.File{text(ProxyEnvironment, env.String()), text(aptProxy, apt.String())}}
	if secret {
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
	return c, nil
}

// WithAccount adds user and password to a proxy's address; nil: none.
func WithAccount(address string, a *Account) string {
	u, err := url.Parse(address)
	if a == nil || err != nil {
		return address
	}
	u.User = url.UserPassword(a.User, a.Password)
	return u.String()
}

// Direct returns the servers in the document that API servers have to reach although machines reach them through the proxy: issuers and webhooks. API servers are
// containers, which do not get the proxy: its password would show in their pods.
func Direct(doc *v1alpha1.Cluster) (out []string) {
	if doc.Spec.Proxy == nil {
		return nil
	}
	var servers []string
	if w := doc.Spec.Kubernetes.APIServer.AuditWebhook; w != nil {
		servers = append(servers, w.URL)
	}
	for _, i := range doc.Spec.Identity.Issuers {
		servers = append(servers, i.URL)
	}
	for _, w := range doc.Spec.Identity.AuthorizationWebhooks {
		servers = append(servers, w.URL)
	}
	const proxied = "http://proxy.invalid"
	through := (&httpproxy.Config{HTTPProxy: proxied, HTTPSProxy: proxied, NoProxy: strings.Join(NoProxy(doc, "", nil, nil), ",")}).ProxyFunc()
	for _, server := range servers {
		u, err := url.Parse(server)
		if err != nil {
			continue
		}
		if proxy, err := through(u); err == nil && proxy != nil && !slices.Contains(out, u.Host) {
			out = append(out, u.Host)
		}
	}
	return out
}

// aptDirect returns the hosts that apt reaches without the proxy: the single names in noProxy, and the hosts of repositories that its domains and
// networks contain. apt understands neither domains nor networks.
func aptDirect(p ProxyParams) (hosts []string) {
	for _, to := range p.Proxy.NoProxy {
		if strings.HasPrefix(to, ".") || strings.ContainsAny(to, "*/:") {
			continue
		}
		hosts = append(hosts, to)
	}
	const proxied = "http://proxy.invalid"
	through := (&httpproxy.Config{HTTPProxy: proxied, HTTPSProxy: proxied, NoProxy: strings.Join(p.Proxy.NoProxy, ",")}).ProxyFunc()
	for _, source := range p.Sources {
		u, err := url.Parse(source)
		if err != nil || u.Hostname() == "" || slices.Contains(hosts, u.Hostname()) {
			continue
		}
		if proxy, err := through(u); err == nil && proxy == nil {
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}
