package runner

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// proxyConfig renders the load balancers as one HAProxy configuration, and lists the features that it can't render. socket is the path of
// HAProxy's control socket. The configuration contains its own digest, so that a running HAProxy can report which configuration it has read.
func proxyConfig(socket string, all []balancer) (text string, problems []string) {
	var body strings.Builder
	p := &proxyText{b: &body}
	for _, b := range all {
		for _, l := range b.Listeners {
			p.listener(b, l)
		}
	}
	sum := sha256.Sum256([]byte(body.String()))
	head := fmt.Sprintf(`# made by naupegos' runner from Octavia's API
global
	description %s
	stats socket %s mode 600 level admin expose-fd listeners
	maxconn 4096
defaults
	option redispatch
	retries 3
	timeout connect 5s
	timeout client 50s
	timeout server 50s
	timeout check 5s
`, hex.EncodeToString(sum[:8]), socket)
	return head + body.String(), p.problems
}

type proxyText struct {
	b        *strings.Builder
	problems []string
}

func (p *proxyText) line(format string, args ...any) { fmt.Fprintf(p.b, format+"\n", args...) }

func (p *proxyText) problem(b balancer, format string, args ...any) {
	p.problems = append(p.problems, "load balancer "+b.Name+": "+fmt.Sprintf(format, args...))
}

func (p *proxyText) listener(b balancer, l listener) {
	mode := "tcp"
	switch l.Protocol {
	case "TCP", "HTTPS", "PROXY": // HTTPS is passed through
	case "HTTP":
		mode = "http"
	default:
		p.problem(b, "listener %d: protocol %s is not carried over", l.Port, l.Protocol)
		return
	}
	p.line("\nfrontend listener-%s", l.ID)
	p.line("\tmode %s\n\tbind %s", mode, netip.AddrPortFrom(b.VIP, uint16(l.Port)))
	if l.Limit > 0 {
		p.line("\tmaxconn %d", l.Limit)
	}
	p.timeout("client", l.Client)
	if len(l.Allowed) > 0 {
		p.line("\ttcp-request connection reject if !{ src %s }", strings.Join(l.Allowed, " "))
	}
	if l.Pool == nil {
		return // HAProxy accepts and closes connections, as Octavia's amphora does
	}
	p.line("\tdefault_backend pool-%s-%s", l.Pool.ID, l.ID)
	p.backend(b, l, mode)
}

// backend renders a pool for one listener, because the listener holds the timeouts for members.
func (p *proxyText) backend(b balancer, l listener, mode string) {
	pool := l.Pool
	p.line("\nbackend pool-%s-%s", pool.ID, l.ID)
	method, ok := map[string]string{
		"ROUND_ROBIN": "roundrobin", "LEAST_CONNECTIONS": "leastconn", "SOURCE_IP": "source", "SOURCE_IP_PORT": "source",
	}[pool.Method]
	if !ok {
		p.problem(b, "pool %s: algorithm %s is not carried over, round robin is used", pool.ID, pool.Method)
		method = "roundrobin"
	}
	p.line("\tmode %s\n\tbalance %s", mode, method)
	p.timeout("connect", l.Connect)
	p.timeout("server", l.Member)
	switch pool.Persistence {
	case "":
	case "SOURCE_IP":
		p.line("\tstick-table type ip size 10k\n\tstick on src")
	default:
		p.problem(b, "pool %s: session persistence %s is not carried over", pool.ID, pool.Persistence)
	}
	check := p.monitor(b, pool)
	if pool.Protocol == "PROXY" {
		check += " send-proxy"
	}
	for _, m := range pool.Members {
		p.line("\tserver member-%s %s:%d weight %d%s%s", m.ID, m.Address, m.Port, m.Weight, check, memberOptions(m, check))
	}
}

func memberOptions(m member, check string) string {
	var out string
	if m.Backup {
		out += " backup"
	}
	if check != "" && m.MonitorAddress != "" {
		out += " addr " + m.MonitorAddress
	}
	if check != "" && m.MonitorPort != 0 {
		out += fmt.Sprintf(" port %d", m.MonitorPort)
	}
	return out
}

// monitor renders the health check of a pool: it adds lines to the backend and returns the options of each server line.
func (p *proxyText) monitor(b balancer, pool *pool) string {
	m := pool.Monitor
	if m == nil {
		return ""
	}
	p.timeout("check", m.Timeout)
	check := fmt.Sprintf(" check inter %dms rise %d fall %d on-marked-down shutdown-sessions", m.Delay.Milliseconds(), max(m.Up, 1), max(m.Down, 1))
	switch m.Type {
	case "TCP":
		return check
	case "TLS-HELLO":
		return check + " check-ssl verify none" // a real handshake: option ssl-hello-chk uses SSLv3, which servers log as errors
	case "HTTP", "HTTPS":
		version := cmp.Or(m.Version, "1.0")
		request := fmt.Sprintf("\thttp-check send meth %s uri %s ver HTTP/%s", cmp.Or(m.Method, "GET"), cmp.Or(m.Path, "/"), version)
		if m.Domain != "" {
			request += " hdr Host " + m.Domain
		}
		p.line("\toption httpchk\n%s\n\thttp-check expect status %s", request, cmp.Or(m.Codes, "200"))
		if m.Type == "HTTPS" {
			check += " check-ssl verify none"
		}
		return check
	default:
		p.problem(b, "pool %s: health monitor %s is not carried over, members are not checked", pool.ID, m.Type)
		return ""
	}
}

func (p *proxyText) timeout(of string, d time.Duration) {
	if d > 0 {
		p.line("\ttimeout %s %dms", of, d.Milliseconds())
	}
}

// vips returns the addresses of the load balancers on one network.
func vips(all []balancer, network string) []netip.Addr {
	var out []netip.Addr
	for _, b := range all {
		if b.Network == network && !slices.Contains(out, b.VIP) {
			out = append(out, b.VIP)
		}
	}
	return out
}
