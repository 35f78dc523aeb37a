//go:build openstack

package openstack

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/balancer"
	"github.com/naupegos/naupegos/internal/testkit"
)

const balancedSpec = `  provider:
    openstack:
      externalNetwork: public
      trustOnFirstUse: true
      network: {cidr: 10.78.0.0/24}
      machine: {flavor: v1.small, image: debian-12, rootVolumeGiB: 1}
  endpoint: {kind: octavia, octavia: {provider: amphora, ingress: {}, allowedCIDRs: [203.0.113.0/24]}}
  controlPlane: {replicas: 3}
  workers:
    - {name: w, replicas: 2}
`

// patient is for a test bed whose host is busy.
func patient(o *Options) {
	o.Timeouts.Step, o.Timeouts.Boot, o.Timeouts.Delete = 10*time.Minute, 10*time.Minute, 10*time.Minute
}

// withoutMachines drops the steps that make servers: ports are enough to be members of pools.
func withoutMachines(steps []*plan.Step) []*plan.Step {
	return slices.DeleteFunc(steps, func(s *plan.Step) bool {
		return s.ID == provider.MachineStep(s.Subject) || s.ID == keypairStep || s.ID == serverGroupsStep
	})
}

// TestBalancerLife takes a load balancer of a real Octavia through its life: made with one member, then all members and the
// ingress, changed settings, a member that leaves, no ingress, a foreign listener in the way, a change while another one is under way,
// and its end.
func TestBalancerLife(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	doc := testDocument(t, "t4-lb", balancedSpec)
	const id = "t4-lb-0badcafe"
	clean(t, doc, id)

	p, calls := testProvider(t, doc, id, patient)
	inv, err := p.Observe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := p.Steps(t.Context(), wanted(doc), inv)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := execute(ctx, "apply", withoutMachines(steps)); err != nil {
		t.Fatal(err)
	}
	t.Logf("network, ports and load balancer: %d calls, %s", calls.n.Load(), time.Since(began).Round(100*time.Millisecond))
	members(ctx, t, p, map[string]string{balancer.FrontAPI: "t4-lb-cp-1", balancer.FrontHTTP: "", balancer.FrontHTTPS: ""})
	vip, err := p.VIP(ctx)
	if err != nil || !strings.HasPrefix(vip, "10.78.0.") {
		t.Fatalf("VIP %q: %v", vip, err)
	}
	if public, err := p.PublicVIP(ctx); err != nil || !strings.HasPrefix(public, "198.51.100.") {
		t.Errorf("public VIP %q: %v", public, err)
	}

	balance(ctx, t, p)
	members(ctx, t, p, map[string]string{
		balancer.FrontAPI: "t4-lb-cp-1 t4-lb-cp-2 t4-lb-cp-3", balancer.FrontHTTP: "t4-lb-w-1 t4-lb-w-2", balancer.FrontHTTPS: "t4-lb-w-1 t4-lb-w-2",
	})
	p = balanced(ctx, t, p)

	// A second provider, as a new run has one, changes settings; a user changed others by hand meanwhile.
	p.opts.Cluster.Spec.Endpoint.Octavia.AllowedCIDRs = []string{"192.0.2.0/24"}
	p.opts.Cluster.Spec.Endpoint.Octavia.Monitor = "tcp"
	mend(ctx, t, p)
	api := p.balancer.Seen().Front(p.n.Name(balancer.FrontAPI))
	if !slices.Equal(slices.Sorted(slices.Values(api.Listener.AllowedCIDRs)), []string{"10.78.0.0/24", "192.0.2.0/24"}) || api.Monitor.Type != "TCP" {
		t.Errorf("after the change the API is open to %v and checked by %s", api.Listener.AllowedCIDRs, api.Monitor.Type)
	}

	gone := provider.Machine{Name: "t4-lb-w-1", Role: provider.Worker}
	if err := p.balancer.RemoveMember(ctx, gone, silent{}); err != nil {
		t.Fatal(err)
	}
	members(ctx, t, p, map[string]string{balancer.FrontAPI: "t4-lb-cp-1 t4-lb-cp-2 t4-lb-cp-3", balancer.FrontHTTP: "t4-lb-w-2", balancer.FrontHTTPS: "t4-lb-w-2"})
	if p.balancer.Seen().Serves(gone) {
		t.Error("one that is out is still seen")
	}

	withoutIngress(ctx, t, p)
	changeMeanwhile(ctx, t, p)

	if err := destroy(ctx, p); err != nil {
		t.Fatal(err)
	}
	isEmpty(ctx, t, doc, id)
}

// balance carries out the result of Balance, and checks that a second Balance is empty.
func balance(ctx context.Context, t *testing.T, p *Provider) {
	t.Helper()
	want := wanted(p.opts.Cluster)
	steps := p.Balance(want, nil)
	if len(steps) == 0 {
		t.Fatal("there is nothing to balance")
	}
	began := time.Now()
	if err := execute(ctx, "apply", steps); err != nil {
		t.Fatal(err)
	}
	t.Logf("balance: %s: %v", time.Since(began).Round(100*time.Millisecond), steps[0].Details)
	for _, s := range p.Balance(want, nil) {
		t.Errorf("there is still to balance: %v", s.Details)
	}
}

// mend carries out the pending changes of the load balancer, and checks that none remain.
func mend(ctx context.Context, t *testing.T, p *Provider) {
	t.Helper()
	want := wanted(p.opts.Cluster)
	steps := p.balancer.Steps(want)
	if len(steps) == 0 {
		t.Fatal("there is nothing to mend")
	}
	steps[0].Needs = nil
	began := time.Now()
	if err := execute(ctx, "apply", steps); err != nil {
		t.Fatal(err)
	}
	t.Logf("mend: %s: %v", time.Since(began).Round(100*time.Millisecond), steps[0].Details)
	for _, s := range p.balancer.Steps(want) {
		t.Errorf("there is still to mend: %v", s.Details)
	}
}

// balanced returns a new provider, which must find the load balancer as it is wanted.
func balanced(ctx context.Context, t *testing.T, old *Provider) *Provider {
	t.Helper()
	p, calls := testProvider(t, old.opts.Cluster, old.opts.ClusterID, patient)
	if _, err := p.Observe(ctx); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range calls.seen {
		if strings.Contains(c, "/lbaas/") {
			n++
		}
	}
	t.Logf("observed the load balancer with %d calls", n)
	if n > 7 {
		t.Errorf("%d calls", n)
	}
	want := wanted(p.opts.Cluster)
	for _, s := range append(p.balancer.Steps(want), p.Balance(want, nil)...) {
		t.Errorf("there is still to do: %s %v", s.ID, s.Details)
	}
	return p
}

// members compares the pools' members, as Octavia lists them, with these.
func members(ctx context.Context, t *testing.T, p *Provider, want map[string]string) {
	t.Helper()
	if err := p.balancer.Observe(ctx); err != nil {
		t.Fatal(err)
	}
	b := p.balancer.Seen()
	for name, w := range want {
		var got []string
		for _, m := range b.Front(p.n.Name(name)).Members {
			got = append(got, m.Name)
		}
		slices.Sort(got)
		if strings.Join(got, " ") != w {
			t.Errorf("pool %s has %v, want %s", name, got, w)
		}
	}
}

func octaviaOf(ctx context.Context, t *testing.T, p *Provider) *gophercloud.ServiceClient {
	t.Helper()
	c, err := p.balancer.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// withoutIngress drops the ingress from the document.
func withoutIngress(ctx context.Context, t *testing.T, p *Provider) {
	t.Helper()
	ingress := p.opts.Cluster.Spec.Endpoint.Octavia.Ingress
	p.opts.Cluster.Spec.Endpoint.Octavia.Ingress = nil
	balance(ctx, t, p)
	if b := p.balancer.Seen(); len(b.Ports) != 1 || len(b.Fronts) != 1 {
		t.Errorf("without ingress there are still %v", b.Ports)
	}
	p.opts.Cluster.Spec.Endpoint.Octavia.Ingress = ingress
	balance(ctx, t, p)
	if b := p.balancer.Seen(); b.Ports[80] == "" || b.Ports[443] == "" {
		t.Errorf("the ingress did not come back: %v", b.Ports)
	}
}

// changeMeanwhile begins a change of which Octavia has not finished another one: it must be waited for.
func changeMeanwhile(ctx context.Context, t *testing.T, p *Provider) {
	t.Helper()
	c := octaviaOf(ctx, t, p)
	b := p.balancer.Seen()
	refused := &conflicts{next: p.session.c.Client.HTTPClient.Transport}
	defer func() { p.session.c.Client.HTTPClient.Transport = refused.next }()
	web, secure := b.Front(p.n.Name(balancer.FrontHTTP)).Pool.ID, b.Front(p.n.Name(balancer.FrontHTTPS)).Pool.ID
	set := func(ctx context.Context, pool, name, address string, port int) error {
		return pools.BatchUpdateMembers(ctx, c, pool, []pools.BatchUpdateMemberOpts{{Name: &name, Address: address, ProtocolPort: port}}).ExtractErr()
	}
	for n := 1; refused.n == 0; n++ { // Octavia may be quick: again, until the change has met another
		if n > 20 {
			t.Fatal("not one of 20 changes met another one")
		}
		testkit.Until(t, 2*time.Minute, time.Second, func() error {
			return set(ctx, web, "by hand", "10.78.0.250", n)
		})
		p.session.c.Client.HTTPClient.Transport = refused // from here on conflicts count
		err := p.balancer.Change(ctx, c, b.LB.ID, "set members of a pool", silent{}, func(ctx context.Context) error {
			return set(ctx, secure, "x", "10.78.0.251", n+1)
		})
		if err != nil {
			t.Fatal(err)
		}
		p.session.c.Client.HTTPClient.Transport = refused.next
	}
	if err := p.balancer.Observe(ctx); err != nil {
		t.Fatal(err)
	}
	balance(ctx, t, p)
}

// conflicts counts the answers that refuse a call because of another one.
type conflicts struct {
	next http.RoundTripper
	n    int
}

// RoundTrip passes on and counts.
func (c *conflicts) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusConflict {
		c.n++
	}
	return resp, err
}

// TestBalancerDestroyedWhilePending destroys a load balancer that is still being made.
func TestBalancerDestroyedWhilePending(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	doc := testDocument(t, "t4-pending", strings.ReplaceAll(balancedSpec, "10.78.", "10.85."))
	const id = "t4-pending-0badcafe"
	clean(t, doc, id)
	p, _ := testProvider(t, doc, id, patient)
	if _, err := p.Observe(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.ensureNetwork(ctx, silent{}); err != nil {
		t.Fatal(err)
	}
	sub, err := p.subnet(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := octaviaOf(ctx, t, p)
	for range 2 { // one of them from a call that was cut off
		_, err := loadbalancers.Create(ctx, c, loadbalancers.CreateOpts{Name: p.n.Name(balancer.FrontAPI), VipSubnetID: sub.ID, Tags: p.n.RoleTags(balancer.FrontAPI)}).Extract()
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Observe(ctx); err != nil {
		t.Fatal(err)
	}
	if b := p.balancer.Seen(); b == nil || len(b.Surplus) != 1 || len(b.Others()) != 2 {
		t.Fatalf("seen: %+v", b)
	}
	if err := destroy(ctx, p); err != nil {
		t.Fatal(err)
	}
	isEmpty(ctx, t, doc, id)
}
