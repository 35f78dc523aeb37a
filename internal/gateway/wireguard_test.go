package gateway

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// Keys for these tests only.
const (
	gatewayKey = "oK56DE9Ue9zK76rAc8pBl6opph+1v36lm7cXXsQKrQM="
	peerKey    = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="
	peerKey2   = "TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0="
)

func wireGuard() WireGuard {
	return WireGuard{
		ClusterName: "demo", Gateway: "demo-gw-1", Network: "172.30.153.0/24", Address: "172.30.153.1", Port: 51820,
		PrivateKey: gatewayKey, Reach: []string{"10.77.0.0/24", "10.78.0.4/32"},
		Peers: []WireGuardPeer{{"anna", "172.30.153.3", peerKey}, {"ben", "172.30.153.4", peerKey2}},
	}
}

func wireGuardClient() WireGuardClient {
	return WireGuardClient{
		ClusterName: "demo", Peer: "anna", Address: "172.30.153.3", PrivateKey: gatewayKey, Gateway: "demo-gw-1", GatewayKey: peerKey,
		Endpoint: "198.51.100.7", Port: 51820, Reach: []string{"10.77.0.0/24", "172.30.153.1/32"},
	}
}

func TestWireGuardGolden(t *testing.T) {
	c, err := WireGuardConfig(wireGuard())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "wireguard.conf", content(t, c, WireGuardPath))
	testkit.Golden(t, "wireguard.nft", content(t, c, WireGuardRules))
	testkit.Golden(t, "wireguard.service", []byte(c.Units[0].Content))
	client := wireGuardClient()
	testkit.Golden(t, "wireguard-client.conf", client.Config())
	client.PrivateKey = ""
	testkit.Golden(t, "wireguard-client-own-key.conf", client.Config())
}

// TestWireGuardSecret: the private key is in one file, of mode 0600, and in no error.
func TestWireGuardSecret(t *testing.T) {
	c, err := WireGuardConfig(wireGuard())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Files {
		if holds := bytes.Contains(f.Content, []byte(gatewayKey)); holds != (f.Path == WireGuardPath) || holds && (f.Mode != 0o600 || !f.Secret) {
			t.Errorf("%s: holds the key: %t, mode %o, secret %t", f.Path, holds, f.Mode, f.Secret)
		}
	}
	if strings.Contains(c.Units[0].Content, gatewayKey) {
		t.Error("the unit holds the key")
	}
	w := wireGuard()
	w.PrivateKey += "x"
	if _, err := WireGuardConfig(w); fail.KindOf(err) != fail.Invalid || strings.Contains(err.Error(), gatewayKey[:20]) {
		t.Errorf("a bad key: %v", err)
	}
}

// TestWireGuardUnit: a change of peers is reloaded, a change of the address restarts.
func TestWireGuardUnit(t *testing.T) {
	before, err := WireGuardConfig(wireGuard())
	if err != nil {
		t.Fatal(err)
	}
	w := wireGuard()
	w.Peers = w.Peers[:1]
	w.Port++
	peers, err := WireGuardConfig(w)
	if err != nil {
		t.Fatal(err)
	}
	w.Address = "172.30.153.2"
	address, err := WireGuardConfig(w)
	if err != nil {
		t.Fatal(err)
	}
	u := before.Units[0]
	if u.Content != peers.Units[0].Content || u.Content == address.Units[0].Content {
		t.Error("the unit must change with the address, and with nothing else")
	}
	if !u.Reload || !slices.Contains(u.Watches, WireGuardPath) || !slices.Contains(u.Watches, WireGuardRules) {
		t.Errorf("unit %+v does not reload for its files", u)
	}
	if bytes.Contains(content(t, peers, WireGuardPath), []byte(peerKey2)) {
		t.Error("a removed peer is still there")
	}
}

func TestWireGuardRefuses(t *testing.T) {
	for name, change := range map[string]func(*WireGuard){
		"network":      func(w *WireGuard) { w.Network = "172.30.153.1/24" },
		"cluster":      func(w *WireGuard) { w.ClusterName = "a\nPostUp = reboot" },
		"gateway":      func(w *WireGuard) { w.Gateway = "" },
		"port":         func(w *WireGuard) { w.Port = 0 },
		"no reach":     func(w *WireGuard) { w.Reach = nil },
		"reach":        func(w *WireGuard) { w.Reach[0] = "10.0.0.0/8 }" },
		"reach inside": func(w *WireGuard) { w.Reach[0] = "172.16.0.0/12" },
		"key":          func(w *WireGuard) { w.PrivateKey = "" },
		"address":      func(w *WireGuard) { w.Address = "172.30.154.1" },
		"peer address": func(w *WireGuard) { w.Peers[0].Address = "172.30.153.1" },
		"peer twice":   func(w *WireGuard) { w.Peers[1].PublicKey = peerKey },
		"peer key":     func(w *WireGuard) { w.Peers[0].PublicKey = "x" },
		"peer name":    func(w *WireGuard) { w.Peers[0].Name = "a\n[Peer]" },
	} {
		w := wireGuard()
		change(&w)
		if _, err := WireGuardConfig(w); fail.KindOf(err) != fail.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWireGuardKeys(t *testing.T) {
	a, err := NewWireGuardKey()
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewWireGuardKey()
	if err != nil || a == b {
		t.Errorf("twice the same key (%v)", err)
	}
	if p, err := WireGuardPublicKey(a); err != nil || p == a || len(p) != 44 {
		t.Errorf("public key %q: %v", p, err)
	}
}
