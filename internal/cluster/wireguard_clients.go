package cluster

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gateway"
)

// RotateWireGuard makes new keys for all gateways, and for the peers whose keys Naupegos made, and returns who got one. The
// next apply carries them to the gateways; from then on every client configuration handed out before is void.
func (c *Cluster) RotateWireGuard(ctx context.Context) ([]string, error) {
	w := c.doc.Spec.Access.WireGuard
	if w == nil {
		return nil, fail.New(fail.Invalid, "cluster %s has no WireGuard", c.Name()).Do("spec.access.wireguard in its document turns it on")
	}
	if err := c.loadTarget(ctx); err != nil {
		return nil, err
	}
	ends := c.wireGuardWanted(w)
	for _, p := range w.Peers {
		if p.PublicKey != "" {
			ends = slices.DeleteFunc(ends, func(e wireGuardEnd) bool { return e == wireGuardPeer(p.Name) })
		}
	}
	var done []string
	for _, end := range ends {
		private, err := gateway.NewWireGuardKey()
		if err == nil {
			err = c.secrets.Put(ctx, end.secret(), []byte(private))
		}
		if err != nil {
			return done, err
		}
		done = append(done, end.String())
	}
	return done, nil
}

// WireGuardClients renders a configuration for each peer and gateway, by file name ("anna-demo-gw-1.conf"). They hold the
// private keys of peers whose keys Naupegos made. fail.NotReady where a gateway or peer was not carried out yet.
func (c *Cluster) WireGuardClients(ctx context.Context) (map[string][]byte, error) {
	w := c.doc.Spec.Access.WireGuard
	if w == nil {
		return nil, nil
	}
	if err := c.loadTarget(ctx); err != nil {
		return nil, err
	}
	reach, err := c.wireGuardReach(ctx)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, name := range c.gateways() {
		m, err := c.prov.Machine(ctx, name)
		if err != nil {
			return nil, err
		}
		private, address, err := c.wireGuardOf(ctx, wireGuardGateway(name))
		if err != nil {
			return nil, err
		}
		client := gateway.WireGuardClient{
			ClusterName: c.Name(), Gateway: name, Endpoint: toHost(m).Address, Port: w.Port, Reach: append(slices.Clone(reach), address+"/32"),
		}
		if client.GatewayKey, err = gateway.WireGuardPublicKey(private); err != nil {
			return nil, err
		}
		for _, p := range w.Peers {
			if client, err = c.forPeer(ctx, client, p); err != nil {
				return nil, err
			}
			files[p.Name+"-"+name+".conf"] = client.Config()
		}
	}
	return files, nil
}

// forPeer fills in what is the peer's own.
func (c *Cluster) forPeer(ctx context.Context, client gateway.WireGuardClient, p v1alpha1.WireGuardPeer) (gateway.WireGuardClient, error) {
	client.Peer, client.PrivateKey, client.Address = p.Name, "", c.facts.Of(memory.WireGuardPeer, p.Name)
	var err error
	if p.PublicKey == "" {
		client.PrivateKey, client.Address, err = c.wireGuardOf(ctx, wireGuardPeer(p.Name))
	} else if client.Address == "" {
		err = c.noWireGuardYet(wireGuardPeer(p.Name))
	}
	return client, err
}

// wireGuardOf returns what is remembered of a gateway or peer.
func (c *Cluster) wireGuardOf(ctx context.Context, end wireGuardEnd) (private, address string, err error) {
	key, err := c.secrets.Get(ctx, end.secret())
	address = c.facts.Of(end.kind, end.name)
	if fail.KindOf(err) == fail.NotFound || err == nil && address == "" {
		err = c.noWireGuardYet(end)
	}
	return string(key), address, err
}

func (c *Cluster) noWireGuardYet(end wireGuardEnd) error {
	return fail.New(fail.NotReady, "%s has no WireGuard key and address yet", end).At(c.Name()).
		Do("naupegos apply makes them")
}
