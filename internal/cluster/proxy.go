package cluster

import (
	"context"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/site"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// directNote names the servers outside that API servers have to reach without the proxy, if a plan changes a control-plane machine; else it returns "".
func directNote(c *Cluster, o *observe.Observed) string {
	direct := site.Direct(c.Doc)
	changes := slices.ContainsFunc(o.Want, func(s wanted.Slot) bool {
		seen := o.Machines[s.Name]
		return s.Role == provider.ControlPlane && (seen == nil || seen.Report == nil || len(seen.Report.Changes) > 0)
	})
	if len(direct) == 0 || !changes {
		return ""
	}
	return "API servers do not use spec.proxy, and have to reach without it: " + strings.Join(direct, ", ") + "; open the way to them for control-plane machines, or list them in noProxy if they are inside"
}

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
