package wireguard

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gateway"
)

// Rotate creates new keys for all gateways, and for the peers whose keys Naupegos generated, and returns their names.
func (n Network) Rotate(ctx context.Context) ([]string, error) {
	ends := n.wanted()
	for _, p := range n.Spec.Peers {
		if p.PublicKey != "" {
			ends = slices.DeleteFunc(ends, func(e End) bool { return e == peerEnd(p.Name) })
		}
	}
	var done []string
	for _, end := range ends {
		private, err := gateway.NewWireGuardKey()
		if err == nil {
			err = n.Secrets.Put(ctx, end.secret(), []byte(private))
		}
		if err != nil {
			return done, err
		}
		done = append(done, end.String())
	}
	return done, nil
}

// Clients renders a configuration for each peer and gateway, by file name ("anna-demo-gw-1.conf"); host returns a gateway's outside address. The
// configurations contain the private keys of peers whose keys Naupegos generated. Clients returns fail.NotReady if a gateway or peer was not
// applied yet.
func (n Network) Clients(ctx context.Context, reach []string, host func(ctx context.Context, gateway string) (string, error)) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range n.Gateways {
		endpoint, err := host(ctx, name)
		if err != nil {
			return nil, err
		}
		private, address, err := n.remembered(ctx, gatewayEnd(name))
		if err != nil {
			return nil, err
		}
		client := gateway.WireGuardClient{
			ClusterName: n.Cluster, Gateway: name, Endpoint: endpoint, Port: n.Spec.Port, Reach: append(slices.Clone(reach), address+"/32"),
		}
		if client.GatewayKey, err = gateway.WireGuardPublicKey(private); err != nil {
			return nil, err
		}
		for _, p := range n.Spec.Peers {
			if client, err = n.forPeer(ctx, client, p); err != nil {
				return nil, err
			}
			files[p.Name+"-"+name+".conf"] = client.Config()
		}
	}
	return files, nil
}

// forPeer adds the peer's own settings.
func (n Network) forPeer(ctx context.Context, client gateway.WireGuardClient, p v1alpha1.WireGuardPeer) (gateway.WireGuardClient, error) {
	client.Peer, client.PrivateKey, client.Address = p.Name, "", n.Facts.Of(memory.WireGuardPeer, p.Name)
	var err error
	if p.PublicKey == "" {
		client.PrivateKey, client.Address, err = n.remembered(ctx, peerEnd(p.Name))
	} else if client.Address == "" {
		err = n.notYet(peerEnd(p.Name))
	}
	return client, err
}

// remembered returns the recorded key and address of a gateway or peer.
func (n Network) remembered(ctx context.Context, end End) (private, address string, err error) {
	key, err := n.Secrets.Get(ctx, end.secret())
	address = n.Facts.Of(end.kind, end.name)
	if fail.KindOf(err) == fail.NotFound || err == nil && address == "" {
		err = n.notYet(end)
	}
	return string(key), address, err
}

func (n Network) notYet(end End) error {
	return fail.New(fail.NotReady, "%s has no WireGuard key and address yet", end).At(n.Cluster).
		Do("naupegos apply makes them")
}
