package openstack

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestBalancerFlavor: the load balancer is made of the flavor and in the zone that the document names, and stays of them.
func TestBalancerFlavor(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	f.add("flavors", thing{"name": "pair"}) // the fake cloud has one list for machines and load balancers
	testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, withBalancer(t, "flavor: triple"))), fail.Refused, "no load-balancer flavor called triple", "spec.endpoint.octavia.flavor")
	doc := withBalancer(t, "flavor: pair, zone: az1")
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	lb, pair := f.kinds["loadbalancers"][0], f.kinds["flavors"][1]
	if lb.str("flavor_id") != pair.str("id") || lb.str("availability_zone") != "az1" {
		t.Errorf("the load balancer is %v", lb)
	}
	nothingLeftToDo(t, f, doc)
	testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, withBalancer(t, "flavor: m1.small"))), fail.Refused, "spec.endpoint.octavia.flavor", "another cluster")
	testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, withBalancer(t, "zone: az2"))), fail.Refused, "spec.endpoint.octavia.zone", `is in zone "az1"`)
	nothingLeftToDo(t, f, withBalancer(t, ""))
}

// withBalancer is a small document with further settings of a load balancer.
func withBalancer(t *testing.T, more string) *v1alpha1.Cluster {
	t.Helper()
	return testDocument(t, "t3-life", strings.NewReplacer("v1.small", "m1.small", "{kind: direct}", "{kind: octavia, octavia: {"+more+"}}").Replace(smallSpec))
}

// TestBalancerOfOVN: a load balancer of OVN gets only what OVN supports; clients reach the machines with their own addresses.
func TestBalancerOfOVN(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	f.balancers = "ovn"
	testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, withBalancer(t, ""))), fail.Refused, "the cloud makes load balancers with ovn", "spec.endpoint.octavia.provider")
	doc := withBalancer(t, "provider: ovn, allowedCIDRs: [203.0.113.0/24], ingress: {}")
	doc.Spec.Provider.OpenStack.Machine.Zones = []string{"a"}
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	p := fakeProvider(t, f, doc)
	inv, err := p.Observe(t.Context())
	if err == nil {
		err = execute(t.Context(), "apply", p.Balance(wanted(doc), inv))
	}
	if err != nil || len(f.kinds["pools"]) != 3 || len(f.kinds["loadbalancers"]) != 1 {
		t.Fatalf("%d pools, %d load balancers: %v", len(f.kinds["pools"]), len(f.kinds["loadbalancers"]), err)
	}
	for i, l := range f.kinds["listeners"] {
		pool, monitor := f.kinds["pools"][i], f.kinds["healthmonitors"][i]
		if l["allowed_cidrs"] != nil || pool.str("lb_algorithm") != "SOURCE_IP_PORT" || monitor.str("type") != "TCP" {
			t.Errorf("%v\n%v\n%v", l, pool, monitor)
		}
	}
	nothingLeftToDo(t, f, doc)
	if info, err := p.CloudInfo(t.Context()); err != nil || info.LBProvider != "ovn" || info.LBMethod != "SOURCE_IP_PORT" {
		t.Errorf("%+v: %v", info, err)
	}
	testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, withBalancer(t, "provider: amphora"))), fail.Refused, "spec.endpoint.octavia.provider", "another cluster")
}

// TestProvidersOfTheCloud names the providers and zones that there are.
func TestProvidersOfTheCloud(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	check := func(octavia, says string) {
		t.Helper()
		p := fakeProvider(t, f, withBalancer(t, octavia))
		c := testkit.Value(p.balancer.Client(t.Context()))(t)
		if err := p.balancer.CheckPlace(t.Context(), c); says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", octavia, err)
		}
	}
	f.add("providers", thing{"name": "ovn"})
	check("", "has only the provider ovn")
	f.add("providers", thing{"name": "octavia"})
	f.add("providers", thing{"name": "amphora"})
	check("", "")
	check("provider: amphora", "")
	check("provider: f5", "no provider f5; there are: amphora, octavia, ovn")
	check("", "")
	check("zone: az1", "") // an older service, which has no zones
	f.add("availabilityzones", thing{"name": "old", "enabled": false})
	check("zone: old", "has no availability zones")
	f.add("availabilityzones", thing{"name": "az1", "enabled": true})
	f.add("availabilityzones", thing{"name": "az2"})
	check("zone: az2", "")
	check("zone: old", "no availability zone old; there are: az1, az2")
}
