package local

import (
	"context"
	"net/netip"
)

// Network is the subnet of the cluster's machines; invalid where none is chosen yet.
func (p *Provider) Network(context.Context) (netip.Prefix, error) { return p.subnetOf() }
