package cluster

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
	"github.com/naupegos/naupegos/internal/plan"
)

// wireGuardEnd is a gateway or a peer, of whom an address (a fact) and a private key (a secret) are remembered: whoever once had an
// address keeps it.
type wireGuardEnd struct {
	kind memory.Kind // of its address
	name string
}

func wireGuardGateway(name string) wireGuardEnd { return wireGuardEnd{memory.WireGuardGateway, name} }
func wireGuardPeer(name string) wireGuardEnd    { return wireGuardEnd{memory.WireGuardPeer, name} }

// String is the end for people: "peer/anna".
func (e wireGuardEnd) String() string {
	return strings.TrimPrefix(string(e.kind), "wireguard-") + "/" + e.name
}

// secret is the name of its private key.
func (e wireGuardEnd) secret() string { return "wireguard/" + e.String() }

// wireGuardEnds returns what is remembered: addresses by end.
func (c *Cluster) wireGuardEnds() map[wireGuardEnd]string {
	all := map[wireGuardEnd]string{}
	for _, kind := range []memory.Kind{memory.WireGuardGateway, memory.WireGuardPeer} {
		for name, address := range c.facts.Each(kind) {
			all[wireGuardEnd{kind, name}] = address
		}
	}
	return all
}

// networked is a provider that knows the network its machines are in; invalid where it does not exist yet.
type networked interface {
	Network(ctx context.Context) (netip.Prefix, error)
}

// wireGuardLayer says what a gateway runs so that peers get into the machines' network; nothing where the document wants
// none. Addresses and keys that are absent are made, and remembered.
func (c *Cluster) wireGuardLayer(ctx context.Context, name string) (machine.Config, error) {
	w := c.doc.Spec.Access.WireGuard
	if w == nil {
		return machine.Config{Machine: name}, nil
	}
	if err := c.allocateWireGuard(ctx, w); err != nil {
		return machine.Config{}, err
	}
	g := gateway.WireGuard{
		ClusterName: c.Name(), Gateway: name, Network: w.CIDR, Address: c.facts.Of(memory.WireGuardGateway, name), Port: w.Port,
	}
	var err error
	if g.PrivateKey, err = c.wireGuardKey(ctx, wireGuardGateway(name)); err != nil {
		return machine.Config{}, err
	}
	if g.Reach, err = c.wireGuardReach(ctx); err != nil {
		return machine.Config{}, err
	}
	for _, p := range w.Peers {
		peer := gateway.WireGuardPeer{Name: p.Name, Address: c.facts.Of(memory.WireGuardPeer, p.Name), PublicKey: p.PublicKey}
		if p.PublicKey == "" {
			private, err := c.wireGuardKey(ctx, wireGuardPeer(p.Name))
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

// wireGuardKey returns a private key, made where there is none.
func (c *Cluster) wireGuardKey(ctx context.Context, end wireGuardEnd) (string, error) {
	have, err := c.secrets.Get(ctx, end.secret())
	if fail.KindOf(err) != fail.NotFound {
		return string(have), err
	}
	private, err := gateway.NewWireGuardKey()
	if err != nil {
		return "", err
	}
	have, err = c.secrets.PutIfAbsent(ctx, end.secret(), []byte(private))
	return string(have), err
}

// allocateWireGuard gives every wanted gateway and peer an address of its own. Steps that run side by side come to the same
// result: it follows from document and facts alone.
func (c *Cluster) allocateWireGuard(ctx context.Context, w *v1alpha1.WireGuard) error {
	network, err := netip.ParsePrefix(w.CIDR)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "spec.access.wireguard.cidr") // the document was checked
	}
	wanted, known := c.wireGuardWanted(w), c.wireGuardEnds()
	taken, inUse := map[netip.Addr]bool{}, map[netip.Addr]bool{} // by anybody, by those who are wanted
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
		if !ok { // nobody may use those of removed peers any more
			a, ok = freeAddress(network, func(a netip.Addr) bool { return inUse[a] })
		}
		if !ok {
			return fail.New(fail.Refused, "no address is left in %s for %s", network, end).At("spec.access.wireguard.cidr").Do("choose a larger network")
		}
		taken[a], inUse[a] = true, true
		if err := c.facts.SetOf(ctx, end.kind, end.name, a.String()); err != nil {
			return err
		}
	}
	return nil
}

// wireGuardWanted lists all who want an address: gateways, then peers in the document's order.
func (c *Cluster) wireGuardWanted(w *v1alpha1.WireGuard) []wireGuardEnd {
	var ends []wireGuardEnd
	for _, g := range c.gateways() {
		ends = append(ends, wireGuardGateway(g))
	}
	for _, p := range w.Peers {
		ends = append(ends, wireGuardPeer(p.Name))
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

// staleWireGuard lists gateways and peers that are no longer wanted.
func (c *Cluster) staleWireGuard() []wireGuardEnd {
	var wanted, stale []wireGuardEnd
	if w := c.doc.Spec.Access.WireGuard; w != nil {
		wanted = c.wireGuardWanted(w)
	}
	for end := range c.wireGuardEnds() {
		if !slices.Contains(wanted, end) {
			stale = append(stale, end)
		}
	}
	slices.SortFunc(stale, func(a, b wireGuardEnd) int { return strings.Compare(a.String(), b.String()) })
	return stale
}

// planForgetWireGuard forgets addresses and keys of removed peers and gateways, once the gateways that are left no longer
// know them.
func (a *applying) planForgetWireGuard() {
	stale := a.staleWireGuard()
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
		Run:    func(ctx context.Context, _ plan.Progress) error { return a.dropWireGuard(ctx, stale) },
	})
}

// dropWireGuard forgets keys, then addresses: what is interrupted is found again by the addresses.
func (c *Cluster) dropWireGuard(ctx context.Context, ends []wireGuardEnd) error {
	for _, end := range ends {
		if err := c.secrets.Delete(ctx, end.secret()); err != nil {
			return err
		}
		if err := c.facts.SetOf(ctx, end.kind, end.name, ""); err != nil {
			return err
		}
	}
	return nil
}
