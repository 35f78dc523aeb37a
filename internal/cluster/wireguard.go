package cluster

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/wireguard"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
)

// networked is a provider that knows the network its machines are in; invalid where it does not exist yet.
type networked interface {
	Network(ctx context.Context) (netip.Prefix, error)
}

// wireGuard is the cluster's WireGuard network.
func (c *Cluster) wireGuard() wireguard.Network {
	return wireguard.Network{Spec: c.doc.Spec.Access.WireGuard, Cluster: c.Name(), Gateways: c.gateways(), Facts: c.facts, Secrets: c.secrets}
}

// wireGuardLayer says what a gateway runs so that peers get into the machines' network; nothing where the document wants
// none. Addresses and keys that are absent are made, and remembered.
func (c *Cluster) wireGuardLayer(ctx context.Context, name string) (machine.Config, error) {
	if c.doc.Spec.Access.WireGuard == nil {
		return machine.Config{Machine: name}, nil
	}
	return c.wireGuard().Gateway(ctx, name, c.wireGuardReach)
}

// wireGuardReach lists what peers may reach: the machines' network or, where nobody knows that, each machine. Pods and
// Services are not among it: gateways are not nodes and have no way to them.
func (c *Cluster) wireGuardReach(ctx context.Context) ([]string, error) {
	p := c.doc.Spec.Provider
	switch {
	case p.OpenStack != nil && p.OpenStack.Network.CIDR != "":
		return []string{p.OpenStack.Network.CIDR}, nil
	case p.Local != nil && p.Local.Network.CIDR != "":
		return []string{p.Local.Network.CIDR}, nil
	}
	if n, ok := c.prov.(networked); ok {
		prefix, err := n.Network(ctx)
		if err != nil || prefix.IsValid() {
			return []string{prefix.String()}, err
		}
	}
	machines, err := c.addresses(ctx)
	if err != nil {
		return nil, err
	}
	var reach []string
	for _, m := range machines {
		reach = append(reach, m.Address+"/32")
	}
	if vip, err := c.prov.VIP(ctx); err == nil {
		reach = append(reach, vip+"/32")
	} else if fail.KindOf(err) != fail.NotFound {
		return nil, err
	}
	slices.Sort(reach)
	return slices.Compact(reach), nil
}

// planForgetWireGuard forgets addresses and keys of removed peers and gateways, once the gateways that are left no longer
// know them.
func (a *applying) planForgetWireGuard() {
	stale := a.wireGuard().Stale()
	if len(stale) == 0 {
		return
	}
	var names []string
	for _, end := range stale {
		names = append(names, end.String())
	}
	a.add(stageForget, &plan.Step{
		ID: "wireguard/forget", Action: plan.Change, Subject: "cluster", Title: "forget removed WireGuard peers",
		Reason: "no longer wanted: " + strings.Join(names, ", "),
		Run:    func(ctx context.Context, _ plan.Progress) error { return a.wireGuard().Forget(ctx, stale) },
	})
}

// RotateWireGuard makes new keys for all gateways, and for the peers whose keys Naupegos made, and returns who got one. The
// next apply carries them to the gateways; from then on every client configuration handed out before is void.
func (c *Cluster) RotateWireGuard(ctx context.Context) ([]string, error) {
	if c.doc.Spec.Access.WireGuard == nil {
		return nil, fail.New(fail.Invalid, "cluster %s has no WireGuard", c.Name()).Do("spec.access.wireguard in its document turns it on")
	}
	if err := c.loadTarget(ctx); err != nil {
		return nil, err
	}
	return c.wireGuard().Rotate(ctx)
}

// WireGuardClients renders a configuration for each peer and gateway, by file name ("anna-demo-gw-1.conf"). They hold the
// private keys of peers whose keys Naupegos made. fail.NotReady where a gateway or peer was not carried out yet.
func (c *Cluster) WireGuardClients(ctx context.Context) (map[string][]byte, error) {
	if c.doc.Spec.Access.WireGuard == nil {
		return nil, nil
	}
	if err := c.loadTarget(ctx); err != nil {
		return nil, err
	}
	reach, err := c.wireGuardReach(ctx)
	if err != nil {
		return nil, err
	}
	return c.wireGuard().Clients(ctx, reach, func(ctx context.Context, name string) (string, error) {
		m, err := c.prov.Machine(ctx, name)
		return toHost(m).Address, err
	})
}
