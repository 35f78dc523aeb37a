package openstack

import (
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestExistingSubnetSuits: a network that is there already keeps clear of the cluster's own, and has room.
func TestExistingSubnetSuits(t *testing.T) {
	useFake(t)
	doc := fakeDocument(t)
	for _, c := range []struct {
		cidr, first, last string
		says              []string
	}{
		{"192.168.5.0/24", "192.168.5.10", "192.168.5.200", nil},
		{"192.168.5.0/24", "192.168.5.10", "192.168.5.11", nil}, // two machines
		{"192.168.5.0/24", "192.168.5.10", "192.168.5.10", []string{"gives out 1 addresses, 2 more are needed"}},
		{"10.244.7.0/24", "10.244.7.10", "10.244.7.200", []string{"subnet mine (10.244.7.0/24) overlaps spec.kubernetes.podCIDR (10.244.0.0/16)"}},
		{"10.0.0.0/8", "10.0.0.10", "10.0.0.200", []string{"podCIDR", "spec.kubernetes.serviceCIDR (10.96.0.0/16)"}},
	} {
		f := preflight{Provider: fakeProvider(t, newFakeCloud(), doc), want: wanted(doc), found: &findings{}}
		f.suits(subnets.Subnet{Name: "mine", CIDR: c.cidr, AllocationPools: []subnets.AllocationPool{{Start: c.first, End: c.last}}})
		all := strings.Join(f.found.all(), "\n")
		for _, w := range c.says {
			if !strings.Contains(all, w) {
				t.Errorf("%s: %q is not in %q", c.cidr, w, all)
			}
		}
		if len(c.says) == 0 && all != "" {
			t.Errorf("%s: %s", c.cidr, all)
		}
	}
}

// TestTooOldServices: a cloud whose APIs can't do what is needed is told so before anything is made, in versions and by a release's name.
func TestTooOldServices(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), withBalancer(t, "")
	f.compute = "2.78"
	_, err := fakeProvider(t, f, doc).Observe(t.Context())
	testkit.Fails(t, err, fail.Refused, "Version 2.79 is not supported by the API. Minimum is 2.1 and maximum is 2.78.", "OpenStack Train (2019) or later is needed")
	f.compute = "2.79"
	if _, err := fakeProvider(t, f, doc).Observe(t.Context()); err != nil {
		t.Error(err)
	}
	for newest, says := range map[string]string{
		"2.5":  "the load-balancer service speaks versions up to 2.5, 2.12 (OpenStack Train, 2019) is needed",
		"2.12": "", "2.27": "",
	} {
		f.balancing = newest
		p := fakeProvider(t, f, doc)
		c, err := p.cloud(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		check := preflight{Provider: p, c: c, want: wanted(doc), found: &findings{}}
		if err := check.versions(t.Context()); err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(check.found.all(), "\n"); all != says {
			t.Errorf("Octavia %s: %q is said, want %q", newest, all, says)
		}
	}
}
