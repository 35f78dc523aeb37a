package openstack

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestSubnetOfAKilledRun: a killed run's request takes effect after the next run has looked.
func TestSubnetOfAKilledRun(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	f.fault = func(_ int, call string) fault0 {
		if call == http.MethodPost+" /v2.0/subnets" {
			net := f.kinds["networks"][len(f.kinds["networks"])-1]
			f.makeNeutron("subnets", thing{
				"network_id": net["id"], "cidr": "10.77.0.0/24", "ip_version": 4, "name": net["name"], "description": net["description"],
			})
		}
		return fault0{}
	}
	if err := apply(t.Context(), fakeProvider(t, f, fakeDocument(t))); err != nil {
		t.Fatal(err)
	}
	if n := len(f.kinds["subnets"]); n != 1 {
		t.Errorf("%d subnets", n)
	}
}

// TestTwinOfAKilledRun: the cloud refuses a second resource of a unique kind; a killed run's request took effect after the next run had looked.
func TestTwinOfAKilledRun(t *testing.T) {
	useFake(t)
	for call, c := range map[string]struct {
		kind   string
		status int
	}{
		"/v2.0/floatingips":                         {"floatingips", http.StatusConflict},
		"/v2.1/servers":                             {"servers", http.StatusBadRequest},
		"/v2.1/os-keypairs":                         {"keypairs", http.StatusConflict},
		"/v2.0/security-group-rules":                {"security-group-rules", http.StatusConflict},
		"/v2.0/routers/ROUTER/add_router_interface": {"routers", http.StatusConflict},
		"/v2.0/ports":                               {"ports", http.StatusConflict},
	} {
		t.Run(c.kind, func(t *testing.T) {
			f, doc := newFakeCloud(), fakeDocument(t)
			testkit.Must(t, apply(t.Context(), fakeProvider(t, f, doc)))
			want := len(f.kinds[c.kind])
			f, refused := newFakeCloud(), 0
			f.fault = func(_ int, said string) fault0 {
				path := strings.Split(call, "ROUTER")
				if refused > 0 || !strings.HasPrefix(said, "POST "+path[0]) && !strings.HasPrefix(said, "PUT "+path[0]) || !strings.HasSuffix(said, path[len(path)-1]) {
					return fault0{}
				}
				refused++
				return fault0{status: c.status, text: "there is one", late: true}
			}
			testkit.Must(t, apply(t.Context(), fakeProvider(t, f, doc)))
			if got := len(f.kinds[c.kind]); got != want || refused != 1 {
				t.Errorf("%d, %d are wanted; %d calls were refused", got, want, refused)
			}
		})
	}
}

// TestServerGroupTwice: Nova permits two server groups with one name. Of those from a killed run, the one with servers stays.
func TestServerGroupTwice(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	testkit.Must(t, apply(t.Context(), fakeProvider(t, f, doc)))
	want := len(f.kinds["os-server-groups"])
	used := f.kinds["os-server-groups"][0]
	used["members"] = []any{"a-server"}
	twin := maps.Clone(used)
	twin["id"], twin["members"] = "twin", []any{}
	f.kinds["os-server-groups"] = append([]thing{twin}, f.kinds["os-server-groups"]...)
	lost := f.kinds["servers"][0] // without missing machines, no run lists server groups
	f.dropServer(lost)
	p := fakeProvider(t, f, doc)
	inv := testkit.Value(p.Observe(t.Context()))(t)
	steps := testkit.Value(p.Steps(t.Context(), wanted(doc), inv))(t)
	if len(steps) == 0 || steps[0].ID != serverGroupsStep || steps[0].Action != plan.Change || len(steps[0].Details) != 1 {
		t.Fatalf("planned: %+v", steps)
	}
	testkit.Must(t, apply(t.Context(), fakeProvider(t, f, doc)))
	if got := f.kinds["os-server-groups"]; len(got) != want || f.get("os-server-groups", "twin") != nil || f.get("os-server-groups", used.str("id")) == nil {
		t.Errorf("there are %v", got)
	}
	twin["members"] = []any{"another"} // both are used: neither can go
	f.kinds["os-server-groups"] = append(f.kinds["os-server-groups"], twin)
	f.calls = nil
	p = fakeProvider(t, f, doc)
	inv = testkit.Value(p.Observe(t.Context()))(t)
	if steps := testkit.Value(p.Steps(t.Context(), wanted(doc), inv))(t); len(steps) > 0 {
		t.Errorf("planned: %+v", steps[0])
	}
	if slices.ContainsFunc(f.calls, func(c string) bool { return strings.Contains(c, "os-server-groups") }) {
		t.Errorf("nothing is missing, and server groups were listed: %v", f.calls)
	}
	f.dropServer(f.kinds["servers"][0])
	p = fakeProvider(t, f, doc)
	inv = testkit.Value(p.Observe(t.Context()))(t)
	for _, s := range testkit.Value(p.Steps(t.Context(), wanted(doc), inv))(t) {
		if s.ID == serverGroupsStep {
			t.Errorf("planned: %+v", s)
		}
	}
}

// TestServerShownLate: a run was killed while it asked for a server. Nova has reserved the server's volume, or does so after this run has looked, and
// shows the server only later: the next run adopts it, or destroys it with the rest.
func TestServerShownLate(t *testing.T) {
	useFake(t)
	for _, c := range []struct {
		name     string
		reserved bool // before this run looks at volumes, else after it
		run      func(context.Context, *Provider) error
	}{
		{"apply", true, apply},
		{"apply, reserved later", false, apply},
		{"destroy", true, destroy},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, doc := newFakeCloud(), fakeDocument(t)
			testkit.Must(t, apply(t.Context(), fakeProvider(t, f, doc)))
			want := f.listing()
			at := slices.IndexFunc(f.kinds["servers"], func(s thing) bool { return f.volumeOf(s) != nil })
			late := f.kinds["servers"][at]
			v := f.volumeOf(late)
			f.kinds["servers"] = slices.Delete(f.kinds["servers"], at, at+1)
			v["status"] = "available"
			if c.reserved {
				v["status"] = "reserved"
			}
			refused := 0
			f.fault = func(_ int, call string) fault0 {
				switch {
				case strings.HasPrefix(call, "DELETE ") && strings.HasSuffix(call, v.str("id")):
					if refused++; refused == 2 {
						f.kinds["servers"] = append(f.kinds["servers"], late)
						v["status"] = "in-use"
					}
				case call == "POST /v2.1/servers":
					v["status"] = "reserved"
					return fault0{status: http.StatusBadRequest, text: "Block Device Mapping is Invalid"}
				}
				return fault0{}
			}
			if c.name == "destroy" {
				want = newFakeCloud().listing()
			}
			testkit.Must(t, c.run(t.Context(), fakeProvider(t, f, doc)))
			if got := f.listing(); !slices.Equal(got, want) || refused < 2 {
				t.Errorf("%d calls were refused; %s", refused, difference(got, want))
			}
		})
	}
}
