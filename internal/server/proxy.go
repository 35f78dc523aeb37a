package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// ParseProxies parses addresses and networks of proxies.
func ParseProxies(texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if ip, e := netip.ParseAddr(text); e == nil {
			p, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		if err != nil || p.Bits() == 0 {
			return nil, fail.New(fail.Invalid, "--trusted-proxy %q is not an address or a network", text).Do("give an address, or a network such as 10.0.0.0/24")
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// trusted reports whether an address belongs to a trusted proxy.
func (s *Server) trusted(ip netip.Addr) bool {
	for _, p := range s.c.Proxies {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// forwarded replaces the remote address of a request from a trusted proxy by the last address in X-Forwarded-For that is not a trusted proxy; the client
// controls all addresses before it. It ignores the header from other addresses.
func (s *Server) forwarded(r *http.Request) {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !s.trusted(at.Addr().Unmap()) {
		return
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		ip, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return // no trusted proxy wrote this
		}
		if ip = ip.Unmap(); !s.trusted(ip) {
			r.RemoteAddr = net.JoinHostPort(ip.WithZone("").String(), "0")
			return
		}
	}
}
