package openstack

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
)

// TestReservedFloatingIP: the user's own floating IP leads to the API, and is the user's again when the cluster is gone.
func TestReservedFloatingIP(t *testing.T) {
	useFake(t)
	for _, endpoint := range []string{"kind: octavia", "kind: gateways"} {
		t.Run(endpoint, func(t *testing.T) {
			f := newFakeCloud()
			mine := f.add("floatingips", thing{"floating_ip_address": "198.51.100.251", "description": "announced"})
			document := func(more string) *v1alpha1.Cluster {
				spec := strings.NewReplacer("v1.small", "m1.small", "{kind: direct}", "{"+endpoint+more+"}").Replace(smallSpec)
				return testDocument(t, "t3-life", spec)
			}
			plain, reserved := document(""), document(", floatingIP: 198.51.100.251")
			if err := apply(t.Context(), fakeProvider(t, f, plain)); err != nil {
				t.Fatal(err)
			}
			had := len(f.kinds["floatingips"])
			failsWith(t, apply(t.Context(), fakeProvider(t, f, reserved)), fail.Refused, "--consent "+ConsentAddresses)
			p := fakeProvider(t, f, reserved)
			if err := applyWith(t.Context(), p, ConsentAddresses); err != nil {
				t.Fatal(err)
			}
			if got, err := p.PublicVIP(t.Context()); err != nil || got != "198.51.100.251" || mine.str("port_id") != p.frontPort() {
				t.Errorf("the API is at %q: %v; its port is %s, the floating IP's %s", got, err, p.frontPort(), mine.str("port_id"))
			}
			if len(f.kinds["floatingips"]) != had-1 {
				t.Errorf("%d floating IPs, there were %d and one is of no use any more", len(f.kinds["floatingips"]), had)
			}
			nothingLeftToDo(t, f, reserved)
			other := f.add("floatingips", thing{"floating_ip_address": "198.51.100.252"})
			for _, doc := range []*v1alpha1.Cluster{plain, reserved, document(", floatingIP: 198.51.100.252"), reserved} { // there and back again
				failsWith(t, apply(t.Context(), fakeProvider(t, f, doc)), fail.Refused, "--consent "+ConsentAddresses)
				p := fakeProvider(t, f, doc)
				if err := applyWith(t.Context(), p, ConsentAddresses); err != nil {
					t.Fatal(err)
				}
				want := doc.Spec.Endpoint.FloatingIP
				if got, err := p.PublicVIP(t.Context()); err != nil || want != "" && got != want || want == "" && (got == "" || mine.str("port_id") != "") {
					t.Errorf("the API is at %q, not %q: %v", got, want, err)
				}
				nothingLeftToDo(t, f, doc)
			}
			f.drop("floatingips", other.str("id"))
			if err := destroy(t.Context(), fakeProvider(t, f, plain)); err != nil { // which does not name it any more
				t.Fatal(err)
			}
			if left := f.kinds["floatingips"]; len(left) != 1 || left[0].str("id") != mine.str("id") || mine.str("port_id") != "" || mine.str("description") != "announced" {
				t.Errorf("of the floating IPs are left %v", left)
			}
			if err := apply(t.Context(), fakeProvider(t, f, reserved)); err != nil { // from the beginning
				t.Fatal(err)
			}
			nothingLeftToDo(t, f, reserved)
		})
	}
}

func nothingLeftToDo(t *testing.T, f *fakeCloud, doc *v1alpha1.Cluster) {
	t.Helper()
	p := fakeProvider(t, f, doc)
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	steps, err := p.Steps(wanted(doc), inv)
	for _, s := range steps {
		t.Errorf("there is still to do: %s: %s %v", s.ID, s.Reason, s.Details)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReservedFloatingIPRefused: it has to be there, and free, before anything is made.
func TestReservedFloatingIPRefused(t *testing.T) {
	useFake(t)
	spec := strings.NewReplacer("v1.small", "m1.small", "{kind: direct}", "{kind: octavia, floatingIP: 198.51.100.251}").Replace(smallSpec)
	for _, c := range []struct {
		name string
		have thing
		says []string
	}{
		{"it does not exist", thing{"floating_ip_address": "198.51.100.250"}, []string{"the project has no floating IP 198.51.100.251", "openstack floating ip create"}},
		{"it leads elsewhere", thing{"floating_ip_address": "198.51.100.251", "port_id": "web", "fixed_ip_address": "10.9.9.9"}, []string{"leads to port web (10.9.9.9) already"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, doc := newFakeCloud(), testDocument(t, "t3-life", spec)
			f.add("floatingips", c.have)
			p := fakeProvider(t, f, doc)
			if _, err := p.Observe(t.Context()); err != nil {
				t.Fatal(err)
			}
			check := preflight{Provider: p, want: wanted(doc), found: &findings{}}
			if err := check.networks(t.Context()); err != nil {
				t.Fatal(err)
			}
			said := strings.Join(check.found.all(), " ")
			for _, w := range append(c.says, reservedField) {
				if !strings.Contains(said, w) {
					t.Errorf("%q is not in %q", w, said)
				}
			}
			failsWith(t, apply(t.Context(), fakeProvider(t, f, doc)), fail.Refused, c.says...)
		})
	}
}
