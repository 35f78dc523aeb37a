// Package peer bounds what addresses without credentials may cost: how often each may ask, how many connections it holds, and how much it
// writes into the log.
//
// IPv6 addresses count by their /64, because one host owns all of it. Every table has a fixed size and forgets the entry that was used longest
// ago. The package knows nothing of HTTP and of what is asked.
package peer

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Key returns the name that an address counts under: the address itself, or the /64 of an IPv6 address. It takes HOST and HOST:PORT. Text that is
// no address, such as the name of a Unix socket, is its own key.
func Key(address string) string {
	ip, err := netip.ParseAddr(strings.Trim(address, "[]"))
	if err != nil {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return Clip(address, 100)
		}
		ip = at.Addr()
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	net, err := ip.Prefix(64)
	if err != nil {
		return ip.String() // every IPv6 address has a /64
	}
	return net.String()
}

// Clip returns text of a stranger for one line of a log: without control characters, and with at most n bytes, the last three of which are "…"
// where something is missing.
func Clip(s string, n int) string {
	const more = "…"
	long := len(s) > n
	if long {
		s = s[:max(0, n-len(more))]
		for len(s) > 0 {
			if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size > 1 {
				break
			}
			s = s[:len(s)-1]
		}
	}
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if long {
		s += more
	}
	return s
}
