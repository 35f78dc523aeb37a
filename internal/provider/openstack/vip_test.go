package openstack

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

func gatewaysDocument(t *testing.T) *v1alpha1.Cluster {
	t.Helper()
	return testDocument(t, "t3-life", strings.NewReplacer(
		"v1.small", "m1.small", "{kind: direct}", "{kind: gateways, gateways: {replicas: 2}}", "machine: {floatingIP: true}", "machine: {floatingIP: false}",
	).Replace(smallSpec))
}

// TestGatewaysShareAnAddress: a port that belongs to no machine reserves it, has a floating IP, and every gateway may use it.
func TestGatewaysShareAnAddress(t *testing.T) {
	useFake(t)
	doc, f := gatewaysDocument(t), newFakeCloud()
	p := fakeProvider(t, f, doc)
	if _, err := p.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.VIP(t.Context()); fail.KindOf(err) != fail.NotFound {
		t.Errorf("before anything is made: %v", err)
	}
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p = fakeProvider(t, f, doc) // as a new run finds it
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	vip, err := p.VIP(t.Context())
	if err != nil || vip == "" || inv.VIP != vip {
		t.Fatalf("VIP %q, the inventory's %q: %v", vip, inv.VIP, err)
	}
	public, err := p.PublicVIP(t.Context())
	if err != nil || public == "" {
		t.Errorf("public VIP %q: %v", public, err)
	}
	for _, m := range inv.Machines {
		port, _ := p.portOf(m.Name)
		may := len(port.AllowedAddressPairs) == 1 && port.AllowedAddressPairs[0].IPAddress == vip
		if may != (m.Role == provider.Gateway) {
			t.Errorf("%s: allowed addresses %v", m.Name, port.AllowedAddressPairs)
		}
		if m.Address == vip || m.Public == public {
			t.Errorf("%s has the virtual address as its own", m.Name)
		}
	}
	if port, _ := p.vipPort(); port.DeviceID != "" || len(port.SecurityGroups) != 0 {
		t.Errorf("the port of the virtual address is bound: %+v", port)
	}
	if err := destroy(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got, want := f.listing(), newFakeCloud().listing(); !slices.Equal(got, want) {
		t.Errorf("left: %s", difference(got, want))
	}
}

// TestVirtualAddressTwice: Neutron creates a second port for a run that did not see the port of a killed run. The one in use stays: the one with the
// floating IP, or else the one that the gateways' ports allow.
func TestVirtualAddressTwice(t *testing.T) {
	useFake(t)
	for _, floating := range []bool{true, false} {
		doc, f := gatewaysDocument(t), newFakeCloud()
		testkit.Must(t, apply(t.Context(), fakeProvider(t, f, doc)))
		want := f.listing()
		p := fakeProvider(t, f, doc)
		at := slices.IndexFunc(f.kinds["ports"], func(o thing) bool { return o.str("name") == p.n.Name(vipRole) })
		twin := maps.Clone(f.kinds["ports"][at])
		twin["id"], twin["fixed_ips"] = "twin", []any{thing{"subnet_id": f.kinds["subnets"][0]["id"], "ip_address": "10.77.0.250"}}
		f.kinds["ports"] = append([]thing{twin}, f.kinds["ports"]...)
		if !floating {
			used := f.kinds["ports"][at+1].str("id")
			f.kinds["floatingips"] = slices.DeleteFunc(f.kinds["floatingips"], func(f thing) bool { return f.str("port_id") == used })
		}
		inv := testkit.Value(p.Observe(t.Context()))(t)
		if inv.VIP == "10.77.0.250" {
			t.Errorf("floating IP %t: the second virtual address is taken for the one in use", floating)
		}
		steps := testkit.Value(p.Steps(t.Context(), wanted(doc), inv))(t)
		if len(steps) != 1 || steps[0].ID != vipStep || floating && steps[0].Action != plan.Change || steps[0].Consent != "" {
			t.Errorf("floating IP %t: planned: %+v", floating, steps)
		}
		testkit.Must(t, apply(t.Context(), p))
		if got := f.listing(); !slices.Equal(got, want) {
			t.Errorf("floating IP %t: %s", floating, difference(got, want))
		}
	}
}

// TestEveryCallOfTheVIP has every call that makes the port and its floating IP go wrong.
func TestEveryCallOfTheVIP(t *testing.T) {
	useFake(t)
	doc, good := gatewaysDocument(t), newFakeCloud()
	if err := apply(t.Context(), fakeProvider(t, good, doc)); err != nil {
		t.Fatal(err)
	}
	want := good.listing()
	for n, call := range good.calls {
		if strings.HasPrefix(call, "GET ") || !strings.Contains(call, "ports") && !strings.Contains(call, "floatingips") {
			continue
		}
		for _, m := range mishaps {
			f := newFakeCloud()
			ctx, cancel := f.strike(n+1, m.what, m.dies)
			first := apply(ctx, fakeProvider(t, f, doc))
			cancel()
			f.fault = nil
			if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
				t.Errorf("%s: call %d (%s): first run %v, second run: %v", m.name, n+1, call, first, err)
			} else if got := f.listing(); !slices.Equal(got, want) {
				t.Errorf("%s: call %d (%s): after the second run (the first: %v)\n%s", m.name, n+1, call, first, difference(got, want))
			}
		}
	}
}
