package openstack

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/balancer"
)

func balancedDocument(t *testing.T) *v1alpha1.Cluster {
	t.Helper()
	return testDocument(t, "t3-life", strings.NewReplacer(
		"v1.small", "m1.small", "{kind: direct}", "{kind: octavia, octavia: {ingress: {}}}", "machine: {floatingIP: true}", "machine: {floatingIP: false}",
	).Replace(smallSpec))
}

// applyBalanced is an apply as the command does it: infrastructure, then, the API being there, the balance.
func applyBalanced(ctx context.Context, p *Provider) error {
	if err := apply(ctx, p); err != nil {
		return err
	}
	return execute(ctx, "apply", p.Balance(wanted(p.opts.Cluster), nil))
}

// TestEveryCallOfBalancing has every call that concerns the load balancer go wrong in an apply, and in a destroy: one more run
// reaches the goal.
func TestEveryCallOfBalancing(t *testing.T) {
	useFake(t)
	doc := balancedDocument(t)
	good := newFakeCloud()
	if err := applyBalanced(t.Context(), fakeProvider(t, good, doc)); err != nil {
		t.Fatal(err)
	}
	want, calls := good.listing(), slices.Clone(good.calls)
	if n := len(good.kinds["members"]); n != 3 || len(good.kinds["listeners"]) != 3 || len(good.kinds["healthmonitors"]) != 3 {
		t.Fatalf("%d members\n%s", n, strings.Join(want, "\n"))
	}
	good.calls = nil
	if err := destroy(t.Context(), fakeProvider(t, good, doc)); err != nil {
		t.Fatal(err)
	}
	destroys, nothing := slices.Clone(good.calls), good.listing()
	if !slices.Equal(nothing, newFakeCloud().listing()) {
		t.Fatalf("a destroy leaves %s", difference(nothing, newFakeCloud().listing()))
	}
	for _, m := range mishaps {
		t.Run(m.name, func(t *testing.T) {
			for n, call := range calls {
				if !strings.Contains(call, "/lbaas/") && !strings.HasSuffix(call, "/floatingips") {
					continue
				}
				f := newFakeCloud()
				ctx, cancel := f.strike(n+1, m.what, m.dies)
				first := applyBalanced(ctx, fakeProvider(t, f, doc))
				cancel()
				f.fault = nil
				if err := applyBalanced(t.Context(), fakeProvider(t, f, doc)); err != nil {
					t.Errorf("call %d (%s): first run %v, second run: %v", n+1, call, first, err)
				} else if got := f.listing(); !slices.Equal(got, want) {
					t.Errorf("call %d (%s): after the second run (the first: %v)\n%s", n+1, call, first, difference(got, want))
				}
			}
			for n, call := range destroys {
				if !strings.Contains(call, "/lbaas/") {
					continue
				}
				f := newFakeCloud()
				if err := applyBalanced(t.Context(), fakeProvider(t, f, doc)); err != nil {
					t.Fatal(err)
				}
				f.calls = nil
				ctx, cancel := f.strike(n+1, m.what, m.dies)
				first := destroy(ctx, fakeProvider(t, f, doc))
				cancel()
				f.fault = nil
				if err := destroy(t.Context(), fakeProvider(t, f, doc)); err != nil {
					t.Errorf("destroy, call %d (%s): first run %v, second run: %v", n+1, call, first, err)
				} else if got := f.listing(); !slices.Equal(got, nothing) {
					t.Errorf("destroy, call %d (%s): left\n%s", n+1, call, difference(got, nothing))
				}
			}
		})
	}
}

// TestBrokenBalancer has Octavia give a load balancer up: it is recreated, with its address and floating IP; but not again and again.
func TestBrokenBalancer(t *testing.T) {
	useFake(t)
	doc := balancedDocument(t)
	f := newFakeCloud()
	p := fakeProvider(t, f, doc)
	if err := applyBalanced(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	vip, err := p.VIP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	public, err := p.PublicVIP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old := p.balancer.Seen().LB.ID
	f.kinds["loadbalancers"][0]["provisioning_status"] = balancer.Broken
	p = fakeProvider(t, f, doc)
	if err := applyBalanced(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if now := p.balancer.Seen(); now.LB.ID == old || now.LB.ProvisioningStatus != balancer.Active {
		t.Errorf("the load balancer is %s, %s", now.LB.ID, now.LB.ProvisioningStatus)
	}
	if v, _ := p.VIP(t.Context()); v != vip {
		t.Errorf("its address was %s and is %s", vip, v)
	}
	if a, err := p.PublicVIP(t.Context()); a != public {
		t.Errorf("its floating IP was %s and is %s, %v", public, a, err)
	}

	f = newFakeCloud()
	f.breakBalancers = 99
	err = apply(t.Context(), fakeProvider(t, f, doc))
	if err == nil || !strings.Contains(err.Error(), "ERROR") || !strings.Contains(err.Error(), "ask the cloud's operator") {
		t.Errorf("every load balancer breaks, and the error is: %v", err)
	}
	if f.breakBalancers < 99-2 {
		t.Errorf("%d load balancers were made", 99-f.breakBalancers)
	}
}

// TestImmutableBalancer: a load balancer never becomes ready for a change; the wait ends with an error that names the change.
func TestImmutableBalancer(t *testing.T) {
	useFake(t)
	doc := balancedDocument(t)
	f := newFakeCloud()
	if err := applyBalanced(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	p := fakeProvider(t, f, doc, func(o *Options) { o.Timeouts.Boot, o.Timeouts.Delete = 50*time.Millisecond, 50*time.Millisecond })
	if _, err := p.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.kinds["loadbalancers"][0]["provisioning_status"] = "PENDING_UPDATE"
	f.looks[f.kinds["loadbalancers"][0].str("id")] = -1 << 30
	err := p.balancer.RemoveMember(t.Context(), provider.Machine{Name: "t3-life-w-1"}, silent{})
	if fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), "take t3-life-w-1 out of pool") || !strings.Contains(err.Error(), "still PENDING_UPDATE") {
		t.Errorf("%v", err)
	}
	err = p.balancer.Destroy()[0].Run(t.Context(), silent{})
	if fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), "still PENDING_UPDATE") {
		t.Errorf("%v", err)
	}
}

// TestForeignListener finds the port taken that it needs.
func TestForeignListener(t *testing.T) {
	useFake(t)
	doc := balancedDocument(t)
	f := newFakeCloud()
	p := fakeProvider(t, f, doc)
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	f.add("listeners", thing{"name": "mine", "protocol_port": 80, "lb": p.balancer.Seen().LB.ID})
	err := execute(t.Context(), "apply", p.Balance(wanted(doc), nil))
	if err == nil || !strings.Contains(err.Error(), "port 80 is taken by listener") {
		t.Errorf("%v", err)
	}
}
