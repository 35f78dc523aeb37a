// Package place reads and compares addresses of services, and the places that policies and credentials allow.
//
// It opens no connection and knows no document.
package place

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Address is where Naupegos connects to: what a document names, in parts.
type Address struct {
	Scheme string // http, https or ssh
	Host   string // a name in lower case, or an IP address
	Port   int
}

// String writes the address as people know it.
func (a Address) String() string {
	return a.Scheme + "://" + net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
}

// ParseAddress reads the URL of a service.
func ParseAddress(text string) (Address, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" { // the URL may hold a password: it is not repeated
		return Address{}, fmt.Errorf("is not the address of a service")
	}
	port := 443
	if u.Scheme == "http" {
		port = 80
	}
	if p := u.Port(); p != "" {
		if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65535 {
			return Address{}, fmt.Errorf("has no valid port")
		}
	}
	return Address{u.Scheme, plainHost(u.Hostname()), port}, nil
}

// plainHost writes a host in the one form in which hosts are compared.
func plainHost(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().WithZone("").String()
	}
	return host
}

// Place says where a server may connect to, or send a credential: a host, or all addresses of a network. Without a scheme, a place is reached by TLS
// or SSH only.
type Place struct {
	scheme string // empty: https and ssh
	host   string // empty: network says it
	net    netip.Prefix
	port   int // 0: all
}

var placeName = regexp.MustCompile(`^[a-z0-9_]([-a-z0-9_.]*[a-z0-9_])?$`)

// ParsePlace reads HOST, HOST:PORT, http://HOST:PORT, https://HOST:PORT or a network as 10.0.0.0/16.
func ParsePlace(text string) (Place, error) {
	bad := fmt.Errorf("is not HOST, HOST:PORT, http://HOST:PORT or a network: vault.example.org:8200, 10.0.0.0/16")
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		a, err := ParseAddress(text)
		if u, e := url.Parse(text); err != nil || e != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || rest == "" {
			return Place{}, bad
		}
		p, err := ParsePlace(a.Host)
		if err != nil || p.net.IsValid() {
			return Place{}, bad
		}
		p.scheme, p.port = scheme, a.Port
		return p, nil
	}
	if n, err := netip.ParsePrefix(text); err == nil {
		if n.Masked() != n {
			return Place{}, fmt.Errorf("is not a network: %s is", n.Masked())
		}
		return Place{net: n}, nil
	}
	if ip, err := netip.ParseAddr(text); err == nil {
		return Place{host: ip.Unmap().String()}, nil
	}
	p := Place{host: text}
	if host, port, err := net.SplitHostPort(text); err == nil {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 {
			return Place{}, bad
		}
		p.host, p.port = host, n
	}
	if p.host = plainHost(p.host); !placeName.MatchString(p.host) {
		if _, err := netip.ParseAddr(p.host); err != nil {
			return Place{}, bad
		}
	}
	return p, nil
}

// Covers reports whether an address is at the place. A name is never looked up: a network covers addresses alone.
func (p Place) Covers(a Address) bool {
	switch {
	case p.scheme == "" && a.Scheme == "http", p.scheme != "" && p.scheme != a.Scheme, p.port != 0 && p.port != a.Port:
		return false
	case !p.net.IsValid():
		return p.host == a.Host
	}
	ip, err := netip.ParseAddr(a.Host)
	return err == nil && p.net.Contains(ip)
}
