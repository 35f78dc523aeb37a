package openstack

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// twoOfEach is a cloud with networks and routers of others.
func twoOfEach() *fakeCloud {
	f := newFakeCloud()
	f.add("networks", thing{"name": "partners", "router:external": true})
	for _, name := range []string{"mine", "yours"} {
		n := f.add("networks", thing{"name": name})
		s := f.add("subnets", thing{"name": name, "network_id": n["id"], "cidr": "10.78.0.0/24", "gateway_ip": "10.78.0.1"})
		n["subnets"] = []any{s["id"]}
		f.add("routers", thing{"name": name, "external_gateway_info": thing{"network_id": f.kinds["networks"][0]["id"]}})
	}
	return f
}

// TestLasting: a change that is impossible in an existing cluster is refused with the field, and nothing changes.
func TestLasting(t *testing.T) {
	useFake(t)
	own := func(o *v1alpha1.OpenStack) { o.Network = v1alpha1.OpenStackNetwork{CIDR: "10.77.0.0/24"} }
	existing := func(name string) func(*v1alpha1.OpenStack) {
		return func(o *v1alpha1.OpenStack) { o.Network = v1alpha1.OpenStackNetwork{Existing: name} }
	}
	router := func(name string) func(*v1alpha1.OpenStack) {
		return func(o *v1alpha1.OpenStack) { o.Network.Router = name }
	}
	for _, c := range []struct {
		name, field   string
		before, after func(*v1alpha1.OpenStack)
	}{
		{"own network to an existing one", "network.existing", own, existing("mine")},
		{"existing network to an own one", "network.existing", existing("mine"), own},
		{"another existing network", "network.existing", existing("mine"), existing("yours")},
		{"own router to an existing one", "network.router", own, router("mine")},
		{"existing router to an own one", "network.router", router("mine"), router("")},
		{"another existing router", "network.router", router("mine"), router("yours")},
		{"another external network", "externalNetwork", own, func(o *v1alpha1.OpenStack) { o.ExternalNetwork = "partners" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, doc := twoOfEach(), fakeDocument(t)
			c.before(doc.Spec.Provider.OpenStack)
			if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
				t.Fatal(err)
			}
			if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
				t.Fatalf("nothing has changed, and yet: %v", err)
			}
			before := strings.Join(f.listing(), "\n")
			c.after(doc.Spec.Provider.OpenStack)
			testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, doc)), fail.Refused, c.field, "another cluster")
			if after := strings.Join(f.listing(), "\n"); after != before {
				t.Errorf("it was changed:\n%s\ninto\n%s", before, after)
			}
		})
	}
}

// TestExistingStays: resources that the document names as existing are used, and are unchanged after the cluster's removal.
func TestExistingStays(t *testing.T) {
	useFake(t)
	for _, network := range []v1alpha1.OpenStackNetwork{{Existing: "mine"}, {CIDR: "10.77.0.0/24", Router: "mine"}} {
		f, doc := twoOfEach(), fakeDocument(t)
		doc.Spec.Provider.OpenStack.Network = network
		before := f.listing()
		if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
			t.Fatal(err)
		}
		nothingLeftToDo(t, f, doc)
		if own := strings.Contains(f.names("routers", "name"), "t3-life"); own {
			t.Errorf("%+v: a router is created beside the existing one", network)
		}
		if err := destroy(t.Context(), fakeProvider(t, f, doc)); err != nil {
			t.Fatal(err)
		}
		if after := f.listing(); !slices.Equal(after, before) {
			t.Errorf("%+v:\n%s", network, difference(after, before))
		}
	}
}

// TestLastingEndpoint: the kind of the API's address can't change.
func TestLastingEndpoint(t *testing.T) {
	useFake(t)
	octavia := "endpoint: {kind: octavia}"
	for _, kinds := range [][2]string{{octavia, "endpoint: {kind: gateways}"}, {"endpoint: {kind: gateways}", octavia}} {
		f := newFakeCloud()
		document := func(endpoint string) *v1alpha1.Cluster {
			spec := strings.ReplaceAll(smallSpec, "v1.small", "m1.small")
			return testDocument(t, "t3-life", strings.Replace(spec, "endpoint: {kind: direct}", endpoint, 1))
		}
		if err := apply(t.Context(), fakeProvider(t, f, document(kinds[0]))); err != nil {
			t.Fatal(err)
		}
		testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, document(kinds[1]))), fail.Refused, "spec.endpoint.kind", "can't become "+kinds[1][len("endpoint: {kind: "):len(kinds[1])-1])
	}
}
