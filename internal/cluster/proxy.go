package cluster

import (
	"context"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/site"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/machine"
)

// proxyNote describes what machines will reach without the proxy, if a plan changes that; else it returns "".
func (c *Cluster) proxyNote(o *observe.Observed) string {
	if c.Doc.Spec.Proxy == nil {
		return ""
	}
	changes := slices.ContainsFunc(o.Want, func(s wanted.Slot) bool {
		seen := o.Machines[s.Name]
		return seen == nil || seen.Report == nil || slices.ContainsFunc(seen.Report.Changes, func(ch machine.Change) bool { return ch.Name == site.NoProxyEnvironment })
	})
	if !changes {
		return ""
	}
	inside, err := c.NoProxy(context.Background())
	if err != nil { // addresses that the plan itself makes known
		return "machines reach without the proxy (with the machines' addresses, once they are known): " + strings.Join(site.NoProxy(c.Doc, "", nil, nil), ",")
	}
	return "machines reach without the proxy: " + strings.Join(inside, ",")
}
