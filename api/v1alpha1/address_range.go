package v1alpha1

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/naupegos/naupegos/api/strict"
)

// AddressRange is a range of IPv4 addresses, both ends included.
type AddressRange struct{ First, Last netip.Addr }

// Contains reports whether an address is in the range.
func (r AddressRange) Contains(a netip.Addr) bool { return !a.Less(r.First) && !r.Last.Less(a) }

// Overlaps reports whether an address is in both ranges.
func (r AddressRange) Overlaps(o AddressRange) bool {
	return r.Contains(o.First) || o.Contains(r.First)
}

// Ranges returns the pool's valid ranges.
func (p *AddressPool) Ranges() []AddressRange {
	var out []AddressRange
	for _, s := range p.Addresses {
		if r, problem, _ := ParseRange(s); problem == "" {
			out = append(out, r)
		}
	}
	return out
}

// ParseRange parses "192.168.1.200-192.168.1.220" or "192.168.1.192/28", or returns the reason why it can't.
func ParseRange(s string) (r AddressRange, problem, hint string) {
	if strings.Contains(s, "/") {
		p, problem, hint := ParseNetwork(s)
		if problem != "" {
			return r, problem, hint
		}
		return RangeOf(p), "", ""
	}
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		return r, strict.Quote(s) + " is no range of addresses", "write it like 192.168.1.200-192.168.1.220 or 192.168.1.192/28"
	}
	ends := [2]netip.Addr{}
	for i, end := range []string{from, to} {
		a, err := netip.ParseAddr(strings.TrimSpace(end))
		if err != nil || !a.Is4() {
			return r, fmt.Sprintf("%s: %s is not an IPv4 address", strict.Quote(s), strict.Quote(strings.TrimSpace(end))), "write it like 192.168.1.200-192.168.1.220"
		}
		ends[i] = a
	}
	if ends[1].Less(ends[0]) {
		return r, fmt.Sprintf("%s ends before it begins", strict.Quote(s)), "the lower address comes first"
	}
	return AddressRange{ends[0], ends[1]}, "", ""
}

// RangeOf returns the addresses of a network.
func RangeOf(p netip.Prefix) AddressRange { return AddressRange{p.Addr(), lastOf(p)} }

// lastOf returns the last address of an IPv4 network.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}

// ParseNetwork parses an IPv4 network, or returns what is wrong with it and how to mend it. For an address inside a network, such as 10.0.0.5/24, p is valid as well.
func ParseNetwork(s string) (p netip.Prefix, problem, hint string) {
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return p, strict.Quote(s) + " is not a network", "write it like 10.1.0.0/16"
	case !p.Addr().Is4():
		return netip.Prefix{}, strict.Quote(s) + " is an IPv6 network", "only IPv4 is supported"
	case p != p.Masked():
		return p, strict.Quote(s) + " is an address inside a network", "the network is " + p.Masked().String()
	}
	return p, "", ""
}
