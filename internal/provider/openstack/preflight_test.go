package openstack

import (
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
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
