package policy

import (
	"net/netip"

	"github.com/naupegos/naupegos/internal/place"
)

// CheckRepository refuses a repository of documents at the server itself or beside it: at loopback and link-local addresses and at clouds' metadata services,
// unless the policy lists it. resolved are the addresses of its host.
func (p *Policy) CheckRepository(cluster string, to place.Address, resolved []netip.Addr) error {
	c := &check{rule: p.rules.For(cluster)}
	if c.listed(to) {
		return nil
	}
	inner := Localhost(to.Host)
	for _, ip := range resolved {
		inner = inner || Inner(ip)
	}
	if inner {
		return refuse("repository", "cluster %s may not connect to %s from the server", cluster, to).Do("the server's administrator can allow it with endpoints")
	}
	return nil
}
