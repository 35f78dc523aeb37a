package wireguard

import (
	"context"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/gateway"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/store"
)

const ownKey = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg="

// spec wants these peers; "ben" brings a key of his own.
func spec(cidr string, peers ...string) *v1alpha1.WireGuard {
	w := &v1alpha1.WireGuard{CIDR: cidr, Port: 51820}
	for _, name := range peers {
		p := v1alpha1.WireGuardPeer{Name: name}
		if name == "ben" {
			p.PublicKey = ownKey
		}
		w.Peers = append(w.Peers, p)
	}
	return w
}

// network has two gateways and remembers nothing yet.
func network(w *v1alpha1.WireGuard) Network {
	return Network{
		Spec: w, Cluster: "demo", Gateways: []string{"demo-gw-1", "demo-gw-2"},
		Facts: memory.NewFacts(&store.Cluster{ID: "demo-0a0b0c0d"}, nil), Secrets: memory.NewOverlay(nil),
	}
}

// layers renders both gateways' layers.
func layers(t *testing.T, n Network) (first, second machine.Config) {
	t.Helper()
	reach := func(context.Context) ([]string, error) { return []string{"10.0.0.0/24"}, nil }
	first, err := n.Gateway(t.Context(), "demo-gw-1", reach)
	if err != nil {
		t.Fatal(err)
	}
	if second, err = n.Gateway(t.Context(), "demo-gw-2", reach); err != nil {
		t.Fatal(err)
	}
	return first, second
}

func wgConf(t *testing.T, c machine.Config) string {
	t.Helper()
	for _, f := range c.Files {
		if f.Path == gateway.WireGuardPath {
			return string(f.Content)
		}
	}
	t.Fatalf("no %s in %+v", gateway.WireGuardPath, c)
	return ""
}

// TestAddresses: each end gets an address once and keeps it; the address of a removed peer is reused only if no other is free.
func TestAddresses(t *testing.T) {
	n := network(spec("10.9.0.0/28", "anna", "ben"))
	first, second := layers(t, n)
	if a, b := wgConf(t, first), wgConf(t, second); a == b || !strings.Contains(a, "Address = 10.9.0.1/28") || !strings.Contains(b, "Address = 10.9.0.2/28") {
		t.Errorf("the gateways':\n%s\n%s", a, b)
	}
	again, _ := layers(t, n)
	if wgConf(t, again) != wgConf(t, first) {
		t.Error("differs from one call to the next")
	}
	if !strings.Contains(wgConf(t, first), "# ben\n[Peer]\nPublicKey = "+ownKey+"\nAllowedIPs = 10.9.0.4/32") {
		t.Errorf("ben is not there as the document says:\n%s", wgConf(t, first))
	}

	n.Spec = spec("10.9.0.0/28", "carl", "ben")
	after, _ := layers(t, n)
	for name, want := range map[string]string{"carl": "10.9.0.5", "ben": "10.9.0.4", "anna": "10.9.0.3"} {
		if got := n.Facts.Of(memory.WireGuardPeer, name); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
	if strings.Contains(wgConf(t, after), "anna") {
		t.Error("anna is gone, and still there")
	}

	// Fourteen addresses: two gateways and twelve new peers need those of anna and carl, too.
	var names []string
	for _, letter := range "cdefghijklmn" {
		names = append(names, "p"+string(letter))
	}
	n.Spec = spec("10.9.0.0/28", names...)
	layers(t, n)
	seen := map[string]bool{}
	for _, name := range names {
		a := n.Facts.Of(memory.WireGuardPeer, name)
		if a == "" || seen[a] || a == "10.9.0.15" || a == "10.9.0.0" {
			t.Errorf("%s has address %q", name, a)
		}
		seen[a] = true
	}

	n.Spec = spec("10.9.0.0/28", append(names[:len(names)-1:len(names)-1], "late")...)
	layers(t, n)
	if a, gone := n.Facts.Of(memory.WireGuardPeer, "late"), n.Facts.Of(memory.WireGuardPeer, names[len(names)-1]); a != gone || a == "" {
		t.Errorf("late has %s, only %s is to be had", a, gone)
	}

	n.Spec = spec("10.8.0.0/24", names[0])
	layers(t, n)
	if a := n.Facts.Of(memory.WireGuardPeer, names[0]); a != "10.8.0.3" {
		t.Errorf("in a new network: %s", a)
	}
}
