// Package peer limits the cost of clients without credentials: the rate of their requests and the log lines that they cause.
//
// IPv6 addresses count by their /64, because one host owns all of it. Every table has a fixed size. The package knows nothing of HTTP or of the
// requests' content.
package peer

import (
	"net/netip"
	"strings"

	"github.com/naupegos/naupegos/internal/plan/words"
)

// Key returns the key that an address counts under: the address itself, or the /64 of an IPv6 address. It takes HOST and HOST:PORT. Other text, such
// as the name of a Unix socket, is its own key.
func Key(address string) string {
	ip, err := netip.ParseAddr(strings.Trim(address, "[]"))
	if err != nil {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return words.Clip(address, 100)
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
