package validation

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

const (
	wireGuardField                         = "spec.access.wireguard"
	minWireGuardBits, maxWireGuardBits     = 16, 28
	wireGuardKeyBytes                  int = 32
)

// checkWireGuard checks the peers, and that there are gateways to connect to; checkNetworks checks the network.
func checkWireGuard(c *v1alpha1.Cluster, r *findings) {
	w := c.Spec.Access.WireGuard
	if w == nil {
		return
	}
	if kind := c.Spec.Endpoint.Kind; kind != v1alpha1.EndpointGateways {
		r.Add(wireGuardField, "needs gateways, but the endpoint's kind is "+strict.Quote(kind), "take endpoint kind gateways, or remove it", "spec.endpoint.kind")
	}
	names, keys := map[string]int{}, map[string]int{}
	for i, p := range w.Peers {
		at := strict.Item(wireGuardField+".peers", i)
		if p.Name != "" {
			checkLabelName(r, at+".name", p.Name)
			if first, again := names[p.Name]; again {
				r.Add(at+".name", fmt.Sprintf("%s is already the name of peers[%d]", strict.Quote(p.Name), first), "")
			}
			names[p.Name] = i
		}
		if p.PublicKey == "" {
			continue
		}
		if problem, hint := checkWireGuardKey(p.PublicKey); problem != "" {
			r.Add(at+".publicKey", problem, hint)
		} else if first, again := keys[p.PublicKey]; again {
			r.Add(at+".publicKey", fmt.Sprintf("is the same key as that of peers[%d]", first), "each peer needs a key of its own")
		}
		keys[p.PublicKey] = i
	}
}

// checkWireGuardKey reports what is wrong with a public key. It never shows the text, which may be a private key by mistake.
func checkWireGuardKey(s string) (problem, hint string) {
	const form = `it is what "wg pubkey" prints: 44 characters that end in "="`
	key, err := base64.StdEncoding.Strict().DecodeString(s)
	switch {
	case err != nil || strings.ContainsAny(s, "\r\n"): // the decoder would skip line breaks
		return "is not base64", form
	case len(key) != wireGuardKeyBytes:
		return fmt.Sprintf("has %d bytes, a WireGuard key has %d", len(key), wireGuardKeyBytes), form
	case bytes.Equal(key, make([]byte, wireGuardKeyBytes)):
		return "is all zero: no peer has that key", form
	}
	return "", ""
}

// checkWireGuardSpace requires a private network with an address for each gateway and each peer.
func checkWireGuardSpace(c *v1alpha1.Cluster, r *findings, n network) {
	checkPrivate(r, n)
	wanted := c.GatewayCount() + len(c.Spec.Access.WireGuard.Peers)
	if room := 1<<(32-n.prefix.Bits()) - 2; wanted > room {
		r.Add(n.field, fmt.Sprintf("%s has room for %d gateways and peers, %d are wanted", n.prefix, room, wanted), "choose a larger network",
			"spec.endpoint.gateways", wireGuardField+".peers")
	}
}
