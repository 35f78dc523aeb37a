package validation

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// checkProxy checks the proxy settings.
func checkProxy(c *v1alpha1.Cluster, r *findings) {
	const at = "spec.proxy"
	p := c.Spec.Proxy
	if p == nil {
		return
	}
	if p.HTTP == "" && p.HTTPS == "" {
		r.Add(at, "names no proxy", "give it http, https or both, or remove it")
	}
	for key, address := range map[string]string{"http": p.HTTP, "https": p.HTTPS} {
		checkWebAddress(r, at+"."+key, address, "http://proxy.example.org:3128", "a proxy")
		if u, err := url.Parse(address); address != "" && err == nil && strings.Trim(u.Path, "/") != "" {
			r.Add(at+"."+key, strict.Quote(address)+" has a path, and proxies have none", "as http://proxy.example.org:3128")
		}
	}
	for i, to := range p.NoProxy {
		if !isNoProxy(to) {
			r.Add(strict.Item(at+".noProxy", i), strict.Quote(to)+" is not a name, a domain, an address or a network", `as .example.org, 10.0.0.7 or 10.0.0.0/8`)
		}
	}
	checkAuth(r, at+".auth", p.Auth)
}

// isNoProxy reports whether programs understand an item of NO_PROXY.
func isNoProxy(to string) bool {
	if _, err := netip.ParsePrefix(to); err == nil {
		return true
	}
	host := to
	if h, port, err := net.SplitHostPort(to); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return false
		}
		host = h
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	host = strings.TrimPrefix(strings.TrimPrefix(host, "*"), ".")
	return len(validation.IsDNS1123Subdomain(host)) == 0
}

func checkAuth(r *findings, at string, a *v1alpha1.BasicAuth) {
	switch {
	case a == nil:
		return
	case a.Credential == "" && a.CredentialsFile == "":
		r.Add(at, "names neither a credential nor a file", "give it credential or credentialsFile, or remove it")
	case a.CredentialsFile != "" && !plainPath(a.CredentialsFile):
		r.Add(at+".credentialsFile", strict.Quote(a.CredentialsFile)+" is not an absolute path", "as /etc/naupegos/registry")
	}
	checkCredential(r, at, "credentialsFile", a.CredentialsFile, a.Credential)
}

// checkRegistries checks how machines reach registries.
func checkRegistries(c *v1alpha1.Cluster, r *findings) {
	seen := map[string]int{}
	for i, g := range c.Spec.Registries {
		p := strict.Item("spec.registries", i)
		host := v1alpha1.RegistryHost(g.Host)
		first, again := seen[host]
		switch {
		case g.Host == "":
			// reported as required
		case !isRegistryHost(g.Host):
			r.Add(p+".host", strict.Quote(g.Host)+" is not the host of a registry", `as docker.io or registry.example.org:5000, without https:// and path; "*" for all others`)
		case again:
			r.Add(p+".host", fmt.Sprintf("%s is already the host of spec.registries[%d]", strict.Quote(g.Host), first), "keep one of them")
		case g.Host == v1alpha1.AnyRegistry && (g.CA != "" || g.Auth != nil || g.Insecure):
			r.Add(p, `"*" is no registry, so ca, auth and insecure say nothing`, "give them to mirrors, or to registries with a host")
		case len(g.Mirrors) == 0 && g.CA == "" && g.Auth == nil && !g.Insecure:
			r.Add(p, "says nothing about the registry", "give it mirrors, ca, auth or insecure, or remove it")
		}
		seen[host] = i
		checkTrust(r, p, g.CA, g.Insecure)
		checkAuth(r, p+".auth", g.Auth)
		urls := map[string]int{}
		for j, m := range g.Mirrors {
			q := strict.Item(p+".mirrors", j)
			checkMirror(m, r, q)
			url := strings.TrimRight(m.URL, "/") // as containerd gets it
			if first, again := urls[url]; again && url != "" {
				r.Add(q+".url", fmt.Sprintf("%s is already the url of mirrors[%d]", strict.Quote(m.URL), first), "keep one of them")
			}
			urls[url] = j
		}
	}
}

// checkImageRegistry checks the registry inside the cluster; nil is valid.
func checkImageRegistry(g *v1alpha1.ImageRegistry, r *findings) {
	if g == nil {
		return
	}
	for i, name := range g.Sets {
		at := strict.Item("spec.registry.sets", i)
		if len(validation.IsDNS1123Label(name)) > 0 {
			r.Add(at, strict.Quote(name)+" can't be the name of a set of images", "naupegos bundle list shows the sets")
		} else if slices.Index(g.Sets, name) < i {
			r.Add(at, strict.Quote(name)+" is given twice", "remove it")
		}
	}
}

func checkMirror(m v1alpha1.Mirror, r *findings, at string) {
	checkWebAddress(r, at+".url", m.URL, "https://mirror.example.org", "a mirror")
	for i, what := range m.Capabilities {
		if what != "pull" && what != "resolve" {
			r.Add(strict.Item(at+".capabilities", i), "unknown value "+strict.Quote(what), "known: pull, resolve")
		} else if slices.Index(m.Capabilities, what) < i {
			r.Add(strict.Item(at+".capabilities", i), strict.Quote(what)+" is given twice", "remove it")
		}
	}
	plain := strings.HasPrefix(m.URL, "http://")
	switch {
	case plain && m.Auth != nil:
		r.Add(at+".auth", "would send a password in plain text: the mirror is reached by http", "write https", at+".url")
	case plain && m.CA != "":
		r.Add(at+".ca", "is given, but the mirror is not reached by https", "remove it, or write https", at+".url")
	case plain && !m.Insecure:
		r.Add(at+".url", strict.Quote(m.URL)+" is not encrypted", "write https, or set insecure to true", at+".insecure")
	}
	if !plain {
		checkTrust(r, at, m.CA, m.Insecure)
	}
	checkAuth(r, at+".auth", m.Auth)
}

func checkTrust(r *findings, at, ca string, insecure bool) {
	if ca != "" {
		checkAuthorities(r, at+".ca", ca)
	}
	if ca != "" && insecure {
		r.Add(at+".insecure", "accepts any certificate, so ca says nothing", "keep one of them", at+".ca")
	}
}

func isRegistryHost(text string) bool {
	if text == v1alpha1.AnyRegistry {
		return true
	}
	host := text
	if h, port, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return false
		}
		host = h
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Is4()
	}
	return len(validation.IsDNS1123Subdomain(host)) == 0
}

// checkRegistriesExpiry is checkAuthoritiesLast for registries.
func checkRegistriesExpiry(c *v1alpha1.Cluster, r *findings, now time.Time) {
	for i, g := range c.Spec.Registries {
		p := strict.Item("spec.registries", i)
		checkExpiry(r, p+".ca", g.CA, now)
		for j, m := range g.Mirrors {
			checkExpiry(r, strict.Item(p+".mirrors", j)+".ca", m.CA, now)
		}
	}
}
