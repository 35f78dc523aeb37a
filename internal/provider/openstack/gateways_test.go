package openstack

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/provider"
)

// TestGateways: gateways have floating IPs and may use the virtual address, the others neither; a second run changes nothing.
func TestGateways(t *testing.T) {
	useFake(t)
	doc := testDocument(t, "t3-life", strings.Replace(strings.ReplaceAll(smallSpec, "v1.small", "m1.small"), "endpoint: {kind: direct}", "endpoint: {kind: gateways}", 1))
	no := false
	doc.Spec.ControlPlane.Machine.FloatingIP = &no
	f := newFakeCloud()
	p := fakeProvider(t, f, doc)
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	vip, err := p.VIP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if public, err := p.PublicVIP(t.Context()); err != nil || public == "" || public == vip {
		t.Errorf("public address %q of %q: %v", public, vip, err)
	}
	p = fakeProvider(t, f, doc)
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if inv.VIP != vip || len(inv.Machines) != 4 {
		t.Errorf("%+v", inv)
	}
	for _, m := range inv.Machines {
		port, _ := p.portOf(m.Name)
		gateway := m.Role == provider.Gateway
		if (m.Public != "") != gateway || (len(port.AllowedAddressPairs) == 1 && port.AllowedAddressPairs[0].IPAddress == vip) != gateway {
			t.Errorf("%s: floating IP %q, may use %v", m.Name, m.Public, port.AllowedAddressPairs)
		}
	}
	steps, err := p.Steps(t.Context(), wanted(doc), inv)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		t.Errorf("there is still to do: %s %v", s.ID, s.Details)
	}
	if err := destroy(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	if got, want := f.listing(), newFakeCloud().listing(); len(got) != len(want) {
		t.Error(difference(got, want))
	}
}
