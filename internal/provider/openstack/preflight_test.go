package openstack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestExistingSubnetSuits: an existing network must not overlap the cluster's own, and must have room.
func TestExistingSubnetSuits(t *testing.T) {
	useFake(t)
	doc := fakeDocument(t)
	for _, c := range []struct {
		cidr, first, last string
		taken             int
		says              []string
	}{
		{"192.168.5.0/24", "192.168.5.10", "192.168.5.200", 0, nil},
		{"192.168.5.0/24", "192.168.5.10", "192.168.5.11", 0, nil}, // two machines
		{"192.168.5.0/24", "192.168.5.10", "192.168.5.15", 4, nil},
		{"192.168.5.0/24", "192.168.5.10", "192.168.5.15", 5, []string{"gives out 6 addresses, 5 of them are in use, and 2 more are needed"}},
		{"192.168.5.0/24", "192.168.5.10", "192.168.5.15", 6, []string{"6 of them are in use"}},
		{"192.168.5.0/24", "192.168.5.10", "192.168.5.10", 0, []string{"gives out 1 addresses, 0 of them are in use, and 2 more are needed"}},
		{"10.244.7.0/24", "10.244.7.10", "10.244.7.200", 0, []string{"subnet mine (10.244.7.0/24) overlaps spec.kubernetes.podCIDR (10.244.0.0/16)"}},
		{"10.0.0.0/8", "10.0.0.10", "10.0.0.200", 0, []string{"podCIDR", "spec.kubernetes.serviceCIDR (10.96.0.0/16)"}},
	} {
		f := preflight{Provider: fakeProvider(t, newFakeCloud(), doc), want: wanted(doc), found: &findings{}}
		f.suits(subnets.Subnet{Name: "mine", CIDR: c.cidr, AllocationPools: []subnets.AllocationPool{{Start: c.first, End: c.last}}}, c.taken)
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

// TestTooOldServices: the error for a cloud with too old APIs comes before any change, and names versions and a release.
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

// TestHiddenVersions: a proxy in front of Octavia may publish only the paths below v2.0.
func TestHiddenVersions(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), withBalancer(t, "")
	for status, text := range map[int]string{300: `{"choices": []}`, 401: `{}`, 403: `{}`, 404: "not found", 200: "<html>welcome</html>", 503: "later"} {
		f.front = func(w http.ResponseWriter) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		}
		p := fakeProvider(t, f, doc)
		check := preflight{Provider: p, c: testkit.Value(p.cloud(t.Context()))(t), want: wanted(doc), found: &findings{}}
		if err := check.versions(t.Context()); (err != nil) != (status == 503) {
			t.Errorf("%d: %v", status, err)
		}
		if all := check.found.all(); len(all) > 0 {
			t.Errorf("%d: %q", status, all)
		}
	}
}

// TestTakenAddresses: the plan counts the used addresses of an existing subnet's pool, and refuses before any change.
func TestTakenAddresses(t *testing.T) {
	useFake(t)
	doc := testDocument(t, "t3-life", harbourSpec("network", "existing: lan", "floating", "false"))
	for taken, refused := range map[int]bool{188: false, 189: false, 190: true, 191: true} { // of 191; the cluster has two machines
		f := newFakeCloud()
		f.lan(nil, nil)
		lan, sub := f.kinds["networks"][1], f.kinds["subnets"][0]
		for i := range taken {
			f.add("ports", thing{"network_id": lan["id"], "device_id": "x", "device_owner": "compute:nova", "security_groups": []any{},
				"fixed_ips": []any{map[string]any{"ip_address": fmt.Sprintf("192.168.20.%d", 10+i), "subnet_id": sub["id"]}}})
		}
		f.add("ports", thing{"network_id": lan["id"], "device_id": "y", "device_owner": "network:dhcp", "security_groups": []any{},
			"fixed_ips": []any{map[string]any{"ip_address": "192.168.20.2", "subnet_id": sub["id"]}}}) // outside of the pool
		err := planned(t, planProvider(t, f, doc))
		if refused {
			testkit.Fails(t, err, fail.Refused, fmt.Sprintf("gives out 191 addresses, %d of them are in use", taken))
		} else if err != nil {
			t.Errorf("%d are taken: %v", taken, err)
		}
	}
}

// TestRouterOfOthers: a network that overlaps another one at the same router is refused by the plan; once it is the cluster's own, it is not.
func TestRouterOfOthers(t *testing.T) {
	useFake(t)
	for cidr, refused := range map[string]string{
		"10.77.0.0/24": "spec.provider.openstack.network.cidr (10.77.0.0/24) overlaps subnet theirs (10.77.0.0/24)", "10.77.0.128/25": "overlaps subnet theirs (10.77.0.128/25)",
		"10.0.0.0/8": "spec.kubernetes.podCIDR", "10.78.0.0/24": "",
	} {
		f := newFakeCloud()
		doc := testDocument(t, "t3-life", harbourSpec("network", "cidr: 10.77.0.0/24, router: shared", "floating", "false"))
		out := f.kinds["networks"][0]["id"]
		r := f.add("routers", thing{"name": "shared", "external_gateway_info": map[string]any{"network_id": out}})
		net := f.add("networks", thing{"name": "theirs"})
		sub := f.add("subnets", thing{"name": "theirs", "network_id": net["id"], "cidr": cidr, "ip_version": 4})
		f.add("ports", thing{"network_id": net["id"], "device_id": r["id"], "device_owner": "network:router_interface", "security_groups": []any{},
			"fixed_ips": []any{map[string]any{"ip_address": "10.77.0.1", "subnet_id": sub["id"]}}})
		err := planned(t, planProvider(t, f, doc))
		if refused != "" {
			testkit.Fails(t, err, fail.Refused, refused, "router shared connects already")
			continue
		}
		testkit.Must(t, err)
		testkit.Must(t, apply(t.Context(), fakeProvider(t, f, doc)))
		testkit.Must(t, planned(t, planProvider(t, f, doc)))
	}
}
