package nodedns

import (
	"net/netip"
	"time"

	"github.com/naupegos/naupegos/api/strict"
)

// maxTTL is the longest time for which an answer may be kept.
const maxTTL = time.Hour

// Check reports invalid settings.
func (n *NodeLocalDNS) Check(r *strict.Findings, field string) {
	switch a, err := netip.ParseAddr(n.Address); {
	case err != nil || !a.Is4() || !a.IsLinkLocalUnicast():
		r.Add(field+".address", strict.Quote(n.Address)+" is not a link-local IPv4 address", "take one of 169.254.0.0/16, such as 169.254.20.10")
	case a == netip.AddrFrom4([4]byte{169, 254, 169, 254}):
		r.Add(field+".address", n.Address+" is the address of clouds' metadata", "take another, such as 169.254.20.10")
	}
	if n.MaxTTL.Duration > maxTTL {
		r.Add(field+".maxTTL", n.MaxTTL.String()+" is longer than 1h", "")
	}
}
