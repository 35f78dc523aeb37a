// Package wireguard manages the members of a cluster's WireGuard network with their addresses and keys, and renders the configurations of
// gateways and peers.
//
// Addresses and keys come from the cluster's memory; the caller provides the reachable networks and the gateways' addresses.
package wireguard

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gateway"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
)

// Network is the WireGuard network of one cluster: a gateway for each of the cluster's gateways, and the peers of its document.
type Network struct {
	Spec     *v1alpha1.WireGuard // from the document; nil if it wants none
	Cluster  string
	Gateways []string      // names of the wanted gateways, in order
	Facts    *memory.Facts // contains the addresses
	Secrets  pki.Secrets   // private keys
}

// Gateway returns the configuration with which a gateway admits peers to the machines' network. reach returns the addresses that they may reach.
// Gateway allocates and records missing addresses and keys.
func (n Network) Gateway(ctx context.Context, name string, reach func(context.Context) ([]string, error)) (machine.Config, error) {
	if err := n.allocate(ctx); err != nil {
		return machine.Config{}, err
	}
	g := gateway.WireGuard{
		ClusterName: n.Cluster, Gateway: name, Network: n.Spec.CIDR, Address: n.Facts.Of(memory.WireGuardGateway, name), Port: n.Spec.Port,
	}
	var err error
	if g.PrivateKey, err = n.key(ctx, gatewayEnd(name)); err != nil {
		return machine.Config{}, err
	}
	if g.Reach, err = reach(ctx); err != nil {
		return machine.Config{}, err
	}
	for _, p := range n.Spec.Peers {
		peer := gateway.WireGuardPeer{Name: p.Name, Address: n.Facts.Of(memory.WireGuardPeer, p.Name), PublicKey: p.PublicKey}
		if p.PublicKey == "" {
			private, err := n.key(ctx, peerEnd(p.Name))
			if err != nil {
				return machine.Config{}, err
			}
			if peer.PublicKey, err = gateway.WireGuardPublicKey(private); err != nil {
				return machine.Config{}, err
			}
		}
		g.Peers = append(g.Peers, peer)
	}
	return gateway.WireGuardConfig(g)
}

// End is a gateway or a peer with a recorded address (a fact) and private key (a secret). An address, once assigned, stays.
type End struct {
	kind memory.Kind // of its address
	name string
}

func gatewayEnd(name string) End { return End{memory.WireGuardGateway, name} }
func peerEnd(name string) End    { return End{memory.WireGuardPeer, name} }

// String is the end for people: "peer/anna".
func (e End) String() string {
	return strings.TrimPrefix(string(e.kind), "wireguard-") + "/" + e.name
}

// secret is the name of its private key.
func (e End) secret() string { return "wireguard/" + e.String() }

// ends returns the recorded addresses by end.
func (n Network) ends() map[End]string {
	all := map[End]string{}
	for _, kind := range []memory.Kind{memory.WireGuardGateway, memory.WireGuardPeer} {
		for name, address := range n.Facts.Each(kind) {
			all[End{kind, name}] = address
		}
	}
	return all
}

// key returns a private key, and creates it if it does not exist.
func (n Network) key(ctx context.Context, end End) (string, error) {
	have, err := n.Secrets.Get(ctx, end.secret())
	if fail.KindOf(err) != fail.NotFound {
		return string(have), err
	}
	private, err := gateway.NewWireGuardKey()
	if err != nil {
		return "", err
	}
	have, err = n.Secrets.PutIfAbsent(ctx, end.secret(), []byte(private))
	return string(have), err
}

// allocate gives every wanted gateway and peer an address of its own. Concurrent steps get the same result, because it depends only on the
// document and the facts.
func (n Network) allocate(ctx context.Context) error {
	network, err := netip.ParsePrefix(n.Spec.CIDR)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "spec.access.wireguard.cidr") // the document was checked
	}
	wanted, known := n.wanted(), n.ends()
	taken, inUse := map[netip.Addr]bool{}, map[netip.Addr]bool{} // by any end; by wanted ends
	for end, value := range known {
		a, err := netip.ParseAddr(value)
		if err != nil {
			return fail.Wrap(fail.Internal, err, "the remembered address of %s", end)
		}
		taken[a] = true
		inUse[a] = inUse[a] || slices.Contains(wanted, end)
	}
	for _, end := range wanted {
		if a, err := netip.ParseAddr(known[end]); err == nil && network.Contains(a) {
			continue
		}
		a, ok := freeAddress(network, func(a netip.Addr) bool { return taken[a] })
		if !ok { // take the address of a removed peer
			a, ok = freeAddress(network, func(a netip.Addr) bool { return inUse[a] })
		}
		if !ok {
			return fail.New(fail.Refused, "no address is left in %s for %s", network, end).At("spec.access.wireguard.cidr").Do("choose a larger network")
		}
		taken[a], inUse[a] = true, true
		if err := n.Facts.SetOf(ctx, end.kind, end.name, a.String()); err != nil {
			return err
		}
	}
	return nil
}

// wanted lists all who want an address: gateways, then peers in the document's order.
func (n Network) wanted() []End {
	var ends []End
	for _, g := range n.Gateways {
		ends = append(ends, gatewayEnd(g))
	}
	for _, p := range n.Spec.Peers {
		ends = append(ends, peerEnd(p.Name))
	}
	return ends
}

// freeAddress finds the first host address that is not taken.
func freeAddress(network netip.Prefix, taken func(netip.Addr) bool) (netip.Addr, bool) {
	for a := network.Addr().Next(); network.Contains(a.Next()); a = a.Next() { // neither the network's nor the broadcast address
		if !taken(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// Stale lists gateways and peers that are no longer wanted.
func (n Network) Stale() []End {
	var wanted, stale []End
	if n.Spec != nil {
		wanted = n.wanted()
	}
	for end := range n.ends() {
		if !slices.Contains(wanted, end) {
			stale = append(stale, end)
		}
	}
	slices.SortFunc(stale, func(a, b End) int { return strings.Compare(a.String(), b.String()) })
	return stale
}

// Forget deletes keys before addresses, so that an interrupted call can find the rest by the addresses.
func (n Network) Forget(ctx context.Context, ends []End) error {
	for _, end := range ends {
		if err := n.Secrets.Delete(ctx, end.secret()); err != nil {
			return err
		}
		if err := n.Facts.SetOf(ctx, end.kind, end.name, ""); err != nil {
			return err
		}
	}
	return nil
}
