//go:build openstack

package openstack

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestWhatIsTheUsersAndWhatIsTheClusters: on real services the user's floating IP leads to the API and is the user's again at the end; resources that
// an unreachable cluster created for a Service and a claim are removed, so that its network can be.
func TestWhatIsTheUsersAndWhatIsTheClusters(t *testing.T) {
	useCloud(t)
	for i, endpoint := range []string{"kind: gateways", "kind: octavia"} {
		t.Run(endpoint, func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("t4-fip-%d", i)
			ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
			defer cancel()
			mine := reserve(ctx, t)
			spec := strings.NewReplacer("10.78.", fmt.Sprintf("10.%d.", 87+i),
				"kind: octavia, octavia: {provider: amphora, ingress: {}, allowedCIDRs: [203.0.113.0/24]}", endpoint+", floatingIP: "+mine.FloatingIP).Replace(balancedSpec)
			doc, id := testDocument(t, name, spec), name+"-0badcafe"
			clean(t, doc, id)
			p, _ := testProvider(t, doc, id, patient)
			inv, err := p.Observe(ctx)
			testkit.Must(t, err)
			steps, err := p.Steps(t.Context(), wanted(doc), inv)
			testkit.Must(t, err)
			testkit.Must(t, execute(ctx, "apply", withoutMachines(steps)))
			if got, err := p.PublicVIP(ctx); err != nil || got != mine.FloatingIP {
				t.Errorf("the API is at %q, not at %s: %v", got, mine.FloatingIP, err)
			}

			again, _ := testProvider(t, doc, id, patient)
			inv, err = again.Observe(ctx)
			testkit.Must(t, err)
			steps, err = again.Steps(t.Context(), wanted(doc), inv)
			testkit.Must(t, err)
			for _, s := range withoutMachines(steps) {
				t.Errorf("there is still to do: %s: %s %v", s.ID, s.Reason, s.Details)
			}
			for _, named := range []string{"", mine.FloatingIP} { // the document forgets it, and remembers
				doc.Spec.Endpoint.FloatingIP = named
				other, _ := testProvider(t, doc, id, patient)
				inv, err = other.Observe(ctx)
				testkit.Must(t, err)
				steps, err = other.Steps(t.Context(), wanted(doc), inv)
				testkit.Must(t, err)
				testkit.Must(t, executeWith(ctx, "apply", withoutMachines(steps), time.Second, provider.ConsentAddresses))
				if got, err := other.PublicVIP(ctx); err != nil || (got == mine.FloatingIP) != (named != "") {
					t.Errorf("the API is at %q, the document names %q: %v", got, named, err)
				}
				again = other
			}
			leaveBehind(ctx, t, again)
			seen, err := again.Leftovers(ctx)
			testkit.Must(t, err)
			testkit.Must(t, execute(ctx, "destroy", []*plan.Step{again.FreeLeftovers(seen, false)}))
			if left, err := again.Leftovers(ctx); err != nil || len(left.LoadBalancers)+len(left.Volumes) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
			testkit.Must(t, destroy(ctx, again))
			isEmpty(ctx, t, doc, id)
			f, err := floatingips.Get(ctx, p.session.c.Network, mine.ID).Extract()
			if err != nil || f.PortID != "" {
				t.Errorf("the user's floating IP: %+v %v", f, err)
			}
		})
	}
}

// TestFloatingIPBecomesTheUsersInACloud: a floating IP that was created for the API, and that the document names later, always leads there, and stays
// when the cluster is removed.
func TestFloatingIPBecomesTheUsersInACloud(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	spec := strings.NewReplacer("10.78.", "10.89.",
		"kind: octavia, octavia: {provider: amphora, ingress: {}, allowedCIDRs: [203.0.113.0/24]}", "kind: gateways").Replace(balancedSpec)
	doc, id := testDocument(t, "t4-fip-own", spec), "t4-fip-own-0badcafe"
	clean(t, doc, id)
	run := func() *Provider {
		t.Helper()
		p, _ := testProvider(t, doc, id, patient)
		inv, err := p.Observe(ctx)
		testkit.Must(t, err)
		steps, err := p.Steps(t.Context(), wanted(doc), inv)
		testkit.Must(t, err)
		testkit.Must(t, execute(ctx, "apply", withoutMachines(steps)))
		return p
	}
	p := run()
	made, ok := p.floating.Of(p.frontPort())
	if !ok {
		t.Fatal("the API has no floating IP")
	}
	doc.Spec.Endpoint.FloatingIP = made.FloatingIP
	p = run()
	t.Cleanup(func() { // nothing else would remove it
		if err := floatingips.Delete(context.Background(), p.session.c.Network, made.ID).ExtractErr(); err != nil {
			t.Error(err)
		}
	})
	now, err := floatingips.Get(ctx, p.session.c.Network, made.ID).Extract()
	if err != nil || now.PortID != made.PortID || now.Description != "" || len(now.Tags) > 0 {
		t.Errorf("it is %+v: %v", now, err)
	}
	testkit.Must(t, destroy(ctx, p))
	isEmpty(ctx, t, doc, id)
	if now, err = floatingips.Get(ctx, p.session.c.Network, made.ID).Extract(); err != nil || now.PortID != "" {
		t.Errorf("after the cluster's end it is %+v: %v", now, err)
	}
}

// reserve makes a floating IP that no cluster made.
func reserve(ctx context.Context, t *testing.T) *floatingips.FloatingIP {
	t.Helper()
	p, _ := testProvider(t, testDocument(t, "t4-user", balancedSpec), "t4-user-0badcafe")
	external, err := p.existing.External(ctx)
	testkit.Must(t, err)
	f, err := floatingips.Create(ctx, p.session.c.Network, floatingips.CreateOpts{FloatingNetworkID: external, Description: "a user's"}).Extract()
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := floatingips.Delete(context.Background(), p.session.c.Network, f.ID).ExtractErr(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// leaveBehind creates the resources of the cluster's controllers for a Service and a claim.
func leaveBehind(ctx context.Context, t *testing.T, p *Provider) {
	t.Helper()
	lb, err := p.balancer.Client(ctx)
	testkit.Must(t, err)
	sub, err := p.subnet(ctx)
	testkit.Must(t, err)
	external, err := p.existing.External(ctx)
	testkit.Must(t, err)
	b, err := loadbalancers.Create(ctx, lb, loadbalancers.CreateOpts{Name: "kube_service_" + p.n.ID + "_" + "shop_front", VipSubnetID: sub.ID}).Extract()
	testkit.Must(t, err)
	_, err = floatingips.Create(ctx, p.session.c.Network, floatingips.CreateOpts{
		FloatingNetworkID: external, PortID: b.VipPortID, Description: "Floating IP for Kubernetes external service shop/front from cluster " + p.n.ID,
	}).Extract()
	testkit.Must(t, err)
	meta := map[string]string{csiCluster: p.n.ID}
	_, err = volumes.Create(ctx, p.session.c.Volume, volumes.CreateOpts{Name: "pvc-1", Size: 1, Metadata: meta}, nil).Extract()
	testkit.Must(t, err)
}
