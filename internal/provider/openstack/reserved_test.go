package openstack

import (
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestReservedFloatingIP: the user's own floating IP leads to the API, and is the user's again when the cluster is gone.
func TestReservedFloatingIP(t *testing.T) {
	useFake(t)
	for _, endpoint := range []string{"kind: octavia", "kind: gateways"} {
		t.Run(endpoint, func(t *testing.T) {
			f := newFakeCloud()
			mine := f.add("floatingips", thing{"floating_ip_address": "198.51.100.251", "project_id": f.project, "description": "announced"})
			document := func(more string) *v1alpha1.Cluster {
				spec := strings.NewReplacer("v1.small", "m1.small", "{kind: direct}", "{"+endpoint+more+"}").Replace(smallSpec)
				return testDocument(t, "t3-life", spec)
			}
			plain, reserved := document(""), document(", floatingIP: 198.51.100.251")
			if err := apply(t.Context(), fakeProvider(t, f, plain)); err != nil {
				t.Fatal(err)
			}
			had := len(f.kinds["floatingips"])
			testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, reserved)), fail.Refused, "--consent "+provider.ConsentAddresses)
			p := fakeProvider(t, f, reserved)
			if err := applyWith(t.Context(), p, provider.ConsentAddresses); err != nil {
				t.Fatal(err)
			}
			if got, err := p.PublicVIP(t.Context()); err != nil || got != "198.51.100.251" || mine.str("port_id") != p.frontPort() {
				t.Errorf("the API is at %q: %v; its port is %s, the floating IP's %s", got, err, p.frontPort(), mine.str("port_id"))
			}
			if len(f.kinds["floatingips"]) != had-1 {
				t.Errorf("%d floating IPs, there were %d and one is of no use any more", len(f.kinds["floatingips"]), had)
			}
			nothingLeftToDo(t, f, reserved)
			other := f.add("floatingips", thing{"floating_ip_address": "198.51.100.252", "project_id": f.project})
			for _, doc := range []*v1alpha1.Cluster{plain, reserved, document(", floatingIP: 198.51.100.252"), reserved} { // there and back again
				testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, doc)), fail.Refused, "--consent "+provider.ConsentAddresses)
				p := fakeProvider(t, f, doc)
				if err := applyWith(t.Context(), p, provider.ConsentAddresses); err != nil {
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
	steps, err := p.Steps(t.Context(), wanted(doc), inv)
	for _, s := range steps {
		t.Errorf("there is still to do: %s: %s %v", s.ID, s.Reason, s.Details)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReservedFloatingIPRefused: it must exist and be free before any change.
func TestReservedFloatingIPRefused(t *testing.T) {
	useFake(t)
	spec := strings.NewReplacer("v1.small", "m1.small", "{kind: direct}", "{kind: octavia, floatingIP: 198.51.100.251}").Replace(smallSpec)
	for _, c := range []struct {
		name string
		have thing
		says []string
	}{
		{"it does not exist", thing{"floating_ip_address": "198.51.100.250"}, []string{"the project has no floating IP 198.51.100.251", "openstack floating ip create"}},
		{"it is another project's", thing{"project_id": "other"}, []string{"the project has no floating IP 198.51.100.251"}},
		{"it leads elsewhere", thing{"port_id": "web", "fixed_ip_address": "10.9.9.9"}, []string{"leads to port web (10.9.9.9) already"}},
		{"it is a machine's", thing{"tags": []any{"naupegos-cluster=t3-life-0badc0de", "naupegos-machine=t3-life-cp-1"}}, []string{"was made for machine t3-life-cp-1, and is released with it"}},
		{"it is another cluster's", thing{"description": "naupegos-cluster=t3-life-0badc0de0"}, []string{"was made for cluster t3-life-0badc0de0, and is released with it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, doc := newFakeCloud(), testDocument(t, "t3-life", spec)
			for k, v := range map[string]any{"floating_ip_address": "198.51.100.251", "project_id": f.project} {
				if c.have[k] == nil {
					c.have[k] = v
				}
			}
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
			for _, w := range append(c.says, "spec.endpoint.floatingIP") {
				if !strings.Contains(said, w) {
					t.Errorf("%q is not in %q", w, said)
				}
			}
			testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, doc)), fail.Refused, c.says...)
		})
	}
}

// frontDocument wants an endpoint, which is given as "kind: octavia, …".
func frontDocument(t *testing.T, endpoint string) *v1alpha1.Cluster {
	t.Helper()
	return testDocument(t, "t3-life", strings.NewReplacer("v1.small", "m1.small", "{kind: direct}", "{"+endpoint+"}").Replace(smallSpec))
}

// TestFloatingIPBecomesTheUsers: a user who names the floating IP that was created for the API keeps it, including foreign marks. An interrupted run
// is completed.
func TestFloatingIPBecomesTheUsers(t *testing.T) {
	useFake(t)
	for _, endpoint := range []string{"kind: octavia", "kind: gateways"} {
		t.Run(endpoint, func(t *testing.T) {
			f := newFakeCloud()
			p := fakeProvider(t, f, frontDocument(t, endpoint))
			if err := apply(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			front, ok := p.floating.Of(p.frontPort())
			if !ok {
				t.Fatal("the API has no floating IP")
			}
			it := f.get("floatingips", front.ID)
			it["tags"] = append(it["tags"].([]any), "in-dns")
			had, doc := len(f.kinds["floatingips"]), frontDocument(t, endpoint+", floatingIP: "+front.FloatingIP)
			f.fault = func(_ int, call string) fault0 {
				if strings.HasPrefix(call, "PUT ") && strings.HasSuffix(call, "/tags") {
					return fault0{status: 403, text: "not now"}
				}
				return fault0{}
			}
			testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, doc)), fail.Refused, "tags off floating IP "+front.FloatingIP, "not now")
			if it.str("port_id") != front.PortID {
				t.Errorf("meanwhile it leads to %q", it.str("port_id"))
			}
			f.fault = nil
			if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
				t.Fatal(err)
			}
			if tags := it["tags"].([]any); len(tags) != 1 || tags[0] != "in-dns" || it.str("description") != "" || it.str("port_id") != front.PortID {
				t.Errorf("it is %v", it)
			}
			if n := len(f.kinds["floatingips"]); n != had {
				t.Errorf("%d floating IPs, there were %d", n, had)
			}
			nothingLeftToDo(t, f, doc)
			if err := destroy(t.Context(), fakeProvider(t, f, doc)); err != nil {
				t.Fatal(err)
			}
			if left := f.kinds["floatingips"]; len(left) != 1 || left[0].str("id") != front.ID || it.str("port_id") != "" {
				t.Errorf("of the floating IPs are left %v", left)
			}
		})
	}
}

// TestDestroyKeepsTheNamedFloatingIP: one that the document names stays, even where no apply has made it the user's yet.
func TestDestroyKeepsTheNamedFloatingIP(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	p := fakeProvider(t, f, frontDocument(t, "kind: gateways"))
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	address, err := p.PublicVIP(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p = fakeProvider(t, f, frontDocument(t, "kind: gateways, floatingIP: "+address))
	inv, err := p.Observe(t.Context())
	if err != nil || slices.Contains(inv.Others, "floating IP "+address) {
		t.Errorf("%v would go: %v", inv.Others, err)
	}
	if err := destroy(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if left := f.kinds["floatingips"]; len(left) != 1 || left[0].str("floating_ip_address") != address || len(left[0]["tags"].([]any)) > 0 {
		t.Errorf("of the floating IPs are left %v", left)
	}
}

// TestInternalTakesTheFloatingIPOff: an API that is to be internal is not left public by a floating IP of the user's.
func TestInternalTakesTheFloatingIPOff(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	mine := f.add("floatingips", thing{"floating_ip_address": "198.51.100.251", "project_id": f.project})
	if err := apply(t.Context(), fakeProvider(t, f, frontDocument(t, "kind: octavia, floatingIP: 198.51.100.251"))); err != nil {
		t.Fatal(err)
	}
	doc := frontDocument(t, "kind: octavia, octavia: {internal: true}")
	testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, doc)), fail.Refused, "--consent "+provider.ConsentAddresses)
	if mine.str("port_id") == "" {
		t.Error("it is taken off without consent")
	}
	if err := applyWith(t.Context(), fakeProvider(t, f, doc), provider.ConsentAddresses); err != nil {
		t.Fatal(err)
	}
	if f.get("floatingips", mine.str("id")) == nil || mine.str("port_id") != "" {
		t.Errorf("the floating IP is %v", mine)
	}
	nothingLeftToDo(t, f, doc)
}

// TestFloatingIPThatWasMovedMeanwhile: a floating IP that the user has attached elsewhere since the plan stays there; so does its replacement, which
// the user has not consented to detach.
func TestFloatingIPThatWasMovedMeanwhile(t *testing.T) {
	useFake(t)
	for _, endpoint := range []string{"kind: octavia, octavia: {internal: true}", "kind: gateways"} {
		t.Run(endpoint, func(t *testing.T) {
			f := newFakeCloud()
			mine := f.add("floatingips", thing{"floating_ip_address": "198.51.100.251", "project_id": f.project})
			kind, _, _ := strings.Cut(endpoint, ",")
			if err := apply(t.Context(), fakeProvider(t, f, frontDocument(t, kind+", floatingIP: 198.51.100.251"))); err != nil {
				t.Fatal(err)
			}
			front, doc := mine.str("port_id"), frontDocument(t, endpoint)
			p := fakeProvider(t, f, doc)
			inv, err := p.Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			steps, err := p.Steps(t.Context(), wanted(doc), inv)
			if err != nil || len(steps) == 0 {
				t.Fatal(steps, err)
			}
			mine["port_id"] = "web"
			other := f.add("floatingips", thing{"floating_ip_address": "198.51.100.252", "project_id": f.project, "port_id": front})
			if err := executeWith(t.Context(), "apply", steps, p.opts.Timeouts.Poll, provider.ConsentAddresses); err != nil {
				t.Fatal(err)
			}
			if mine.str("port_id") != "web" || other.str("port_id") != front {
				t.Errorf("the floating IPs lead to %q and %q", mine.str("port_id"), other.str("port_id"))
			}
		})
	}
}

// TestNamedFloatingIPIsForNoMachine: one that a run which was cut off has made, and that the document names since, is not given to a
// machine that lacks one.
func TestNamedFloatingIPIsForNoMachine(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	p := fakeProvider(t, f, frontDocument(t, "kind: octavia, floatingIP: 198.51.100.251"))
	f.add("floatingips", thing{"floating_ip_address": "198.51.100.251", "project_id": f.project, "description": p.n.Mark()})
	got, err := p.floating.Ensure(t.Context(), "port", p.n.Tags(wanted(p.opts.Cluster).Machines[0]))
	if err != nil || got.FloatingIP == "198.51.100.251" {
		t.Errorf("the machine gets %q: %v", got.FloatingIP, err)
	}
}

// TestMarksOfOthersAreSeenInEveryPlan: a floating IP that leads to the API and would be removed with another resource requires a step, and thus the
// check that refuses it.
func TestMarksOfOthersAreSeenInEveryPlan(t *testing.T) {
	useFake(t)
	for _, mark := range []string{"naupegos-machine=t3-life-cp-1", "naupegos-cluster=other-0badc0de"} {
		f := newFakeCloud()
		p := fakeProvider(t, f, frontDocument(t, "kind: gateways, floatingIP: 198.51.100.251"))
		f.add("floatingips", thing{"floating_ip_address": "198.51.100.251", "project_id": f.project, "tags": []any{mark}, "port_id": "front"})
		if err := p.known.reserved.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if lack := p.floating.FrontLack("front"); !strings.Contains(lack, "was made for") {
			t.Errorf("%s: %q", mark, lack)
		}
	}
}
