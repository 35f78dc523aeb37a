package openstack

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestNoValidHost: the error has Nova's own words and a remedy, after a bounded number of attempts; the next apply succeeds.
func TestNoValidHost(t *testing.T) {
	useFake(t)
	doc := fakeDocument(t)
	f := newFakeCloud()
	f.buildErr = func(name string) string {
		if name == "t3-life-w-1" {
			return "No valid host was found. There are not enough hosts available."
		}
		return ""
	}
	testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, doc)), fail.Refused, "t3-life-w-1", "No valid host was found", "no hypervisor has room for flavor m1.small")
	made := slices.DeleteFunc(slices.Clone(f.calls), func(c string) bool { return c != "POST /v2.1/servers" })
	if len(made) != 1+maxMakes {
		t.Errorf("%d servers were asked for", len(made))
	}
	inv, err := fakeProvider(t, f, doc).Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(inv.Machines, func(m provider.Machine) bool { return m.Name == "t3-life-w-1" }); i < 0 ||
		inv.Machines[i].State != provider.Partial || !strings.Contains(inv.Machines[i].Detail, "No valid host") {
		t.Errorf("%+v", inv.Machines)
	}
	f.buildErr = nil
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	good := newFakeCloud()
	if err := apply(t.Context(), fakeProvider(t, good, doc)); err != nil {
		t.Fatal(err)
	}
	if got, want := f.listing(), good.listing(); !slices.Equal(got, want) {
		t.Error(difference(got, want))
	}
}

// TestRefusals: one clear error each, in the cloud's own words.
func TestRefusals(t *testing.T) {
	useFake(t)
	t.Setenv("OS_PASSWORD", "s3cret")
	at := func(call string, what fault0) func(int, string) fault0 {
		return func(_ int, c string) fault0 {
			if c == call {
				return what
			}
			return fault0{}
		}
	}
	for name, tc := range map[string]struct {
		fault func(int, string) fault0
		kind  fail.Kind
		words []string
	}{
		"wrong password":  {at("POST /v3/auth/tokens", fault0{status: 401, text: "The request you have made requires authentication."}), fail.Unauthorized, []string{"the OS_* variables", "requires authentication", "user, password"}},
		"missing role":    {at("POST /v2.0/networks", fault0{status: 403, text: "rule:create_network is disallowed by policy"}), fail.Refused, []string{"make network t3-life-0badc0de", "disallowed by policy", "lack a role"}},
		"server quota":    {at("POST /v2.1/servers", fault0{status: 403, text: "Quota exceeded for cores: Requested 2, but already used 19 of 20 cores"}), fail.Refused, []string{"used 19 of 20 cores", "larger quota"}},
		"volume quota":    {at("POST /v3/project/volumes", fault0{status: 413, retryAfter: "0", text: "VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded"}), fail.Refused, []string{"allowed (10) exceeded"}},
		"port quota":      {at("POST /v2.0/ports", fault0{status: 409, text: "Quota exceeded for resources: ['port']."}), fail.Refused, []string{"Quota exceeded for resources"}},
		"broken for good": {at("POST /v2.0/routers", fault0{status: 500, text: "DB is away"}), fail.NotReady, []string{"make router", "DB is away"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeCloud()
			f.fault = tc.fault
			p := fakeProvider(t, f, fakeDocument(t), func(o *Options) { o.Timeouts.Step = 200 * time.Millisecond })
			testkit.Fails(t, apply(t.Context(), p), tc.kind, tc.words...)
		})
	}
}

// TestUserDataTooLong: user-data that the cloud can't take is refused before anything is created.
func TestUserDataTooLong(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	p := fakeProvider(t, f, fakeDocument(t))
	w := wanted(p.opts.Cluster)
	w.Machines[1].UserData = noise(60000)
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Steps(t.Context(), w, inv)
	testkit.Fails(t, err, fail.Refused, w.Machines[1].Name, "80", "65535")
	for _, c := range f.calls {
		if !strings.HasPrefix(c, "GET ") && !strings.HasSuffix(c, "/auth/tokens") {
			t.Errorf("%s was made", c)
		}
	}
}

// noise is incompressible.
func noise(n int) []byte {
	out, x := make([]byte, n), uint32(1)
	for i := range out {
		x = x*1664525 + 1013904223
		out[i] = byte(x >> 24)
	}
	return out
}

// TestExpiredToken: a token that expires during a run is renewed without an error.
func TestExpiredToken(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	once := false
	f.fault = func(_ int, call string) fault0 {
		if !once && call == "POST /v2.0/ports" {
			once = true
			return fault0{status: http.StatusUnauthorized, text: "token expired"}
		}
		return fault0{}
	}
	if err := apply(t.Context(), fakeProvider(t, f, fakeDocument(t))); err != nil {
		t.Fatal(err)
	}
	if !once {
		t.Error("the token was never refused")
	}
}

// TestBrokenServer: a server that ran and is in ERROR is not thrown away by an apply.
func TestBrokenServer(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	s := f.kinds["servers"][0]
	s["status"], s["fault"] = "ERROR", thing{"message": "disk is gone"}
	before := len(f.kinds["servers"])
	testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, doc)), fail.Refused, "disk is gone", "node replace t3-life "+s.str("name"))
	if f.get("servers", s.str("id")) == nil || len(f.kinds["servers"]) != before {
		t.Error("the server was thrown away")
	}
}

// TestSwitchedOff: a server that is off is switched on; Power switches both ways.
func TestSwitchedOff(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	p := fakeProvider(t, f, doc)
	if err := p.Power(t.Context(), "t3-life-w-1", "off"); err != nil {
		t.Fatal(err)
	}
	if m, err := p.Machine(t.Context(), "t3-life-w-1"); err != nil || m.State != provider.Stopped {
		t.Fatalf("%+v %v", m, err)
	}
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	p = fakeProvider(t, f, doc)
	if m, err := p.Machine(t.Context(), "t3-life-w-1"); err != nil || m.State != provider.Running {
		t.Fatalf("%+v %v", m, err)
	}
	if _, err := p.Machine(t.Context(), "t3-life-w-9"); fail.KindOf(err) != fail.NotFound {
		t.Errorf("an unknown machine: %v", err)
	}
}

// TestRemovedByHand: apply recreates removed resources, and removes added rules.
func TestRemovedByHand(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	want := f.listing()
	f.kinds["floatingips"] = nil
	group := f.kinds["security-groups"][0].str("id")
	f.removeNeutron("security-group-rules", f.get("security-groups", group)["security_group_rules"].([]any)[3].(thing).str("id"))
	f.makeNeutron("security-group-rules", thing{"direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "port_range_min": 23, "port_range_max": 23, "security_group_id": group})
	f.kinds["networks"][1]["description"] = "somebody's own words"
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	if got := f.listing(); !slices.Equal(got, want) {
		t.Error(difference(got, want))
	}
}

// TestStuckVolume: one that stays in creating is waited for no longer than allowed; the next apply takes it over.
func TestStuckVolume(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	f.stuck = true
	p := fakeProvider(t, f, doc, func(o *Options) { o.Timeouts.Volume = 50 * time.Millisecond })
	testkit.Fails(t, apply(t.Context(), p), fail.Refused, "is still creating after 50ms", "Cinder is slow or stuck")
	f.stuck = false
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	if n := len(f.kinds["volumes"]); n != 2 {
		t.Errorf("%d volumes", n)
	}
}

// TestMadeTwice: a resource that the cloud created twice, because it answered too late, exists once after the next apply.
func TestMadeTwice(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	want := f.listing()
	for _, kind := range []string{"networks", "routers", "ports", "servers"} {
		for _, old := range slices.Clone(f.kinds[kind]) {
			if old.str("name") == "public" || old.str("name") == "t3-life-0badc0de.router" {
				continue
			}
			twin := thing{}
			for k, v := range old {
				twin[k] = v
			}
			delete(twin, "subnets")
			delete(twin, "block_device_mapping_v2")
			if kind == "ports" {
				twin["device_id"], twin["device_owner"] = "", ""
			}
			if kind == "servers" {
				twin["status"], twin["fault"] = "ERROR", thing{"message": "port is in use"}
				delete(twin, "OS-SRV-USG:launched_at")
			}
			f.add(kind, twin)
		}
	}
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	if got := f.listing(); !slices.Equal(got, want) {
		t.Error(difference(got, want))
	}
}

// TestFloatingIPComesAndGoes as the document says, without touching the server.
func TestFloatingIPComesAndGoes(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	server := f.kinds["servers"][0].str("id")
	for _, want := range []bool{false, true} {
		doc.Spec.ControlPlane.Machine.FloatingIP = &want
		p := fakeProvider(t, f, doc)
		if err := applyWith(t.Context(), p, provider.ConsentAddresses); err != nil {
			t.Fatal(err)
		}
		if m, err := p.Machine(t.Context(), "t3-life-cp-1"); err != nil || (m.Public != "") != want || len(f.kinds["floatingips"]) > 0 != want {
			t.Errorf("wanted %v: %+v %v", want, m, err)
		}
	}
	if f.get("servers", server) == nil {
		t.Error("the server was recreated")
	}
}

// TestDrift: apply reports differences that only a new machine can correct.
func TestDrift(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	doc.Spec.Workers[0].Machine.Flavor, doc.Spec.Workers[0].Machine.RootVolumeGiB = "m1.large", new(20)
	doc.Spec.ControlPlane.Machine.Zones = []string{"elsewhere"}
	p := fakeProvider(t, f, doc)
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := p.Drift(wanted(doc), inv)
	if len(d) != 1 || !slices.Equal(d["t3-life-w-1"], []string{"flavor is m1.small, m1.large is wanted", "size of the root volume in GiB is 1, 20 is wanted"}) {
		t.Errorf("%q", d)
	}
	doc.Spec.Workers[0].Machine.Flavor, doc.Spec.Workers[0].Machine.RootVolumeGiB = "", new(0)
	if d = p.Drift(wanted(doc), inv); len(d) != 1 || !slices.Equal(d["t3-life-w-1"], []string{"size of the root volume in GiB is 1, none is wanted"}) {
		t.Errorf("the pool wants no root volume: %q", d)
	}
}

// TestRootVolumeTakenBack: a pool wants no root volume any more, and a run was cut off between a machine's volume and its server.
func TestRootVolumeTakenBack(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	f.fault = func(_ int, call string) fault0 {
		if strings.HasPrefix(call, "POST ") && strings.HasSuffix(call, "/servers") {
			return fault0{status: 400, text: "not now"}
		}
		return fault0{}
	}
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err == nil || len(f.kinds["volumes"]) != 2 {
		t.Fatalf("%d volumes: %v", len(f.kinds["volumes"]), err)
	}
	f.fault = nil
	doc.Spec.Workers[0].Machine.RootVolumeGiB = new(0)
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	for _, v := range f.kinds["volumes"] {
		if v.str("name") == "t3-life-w-1" {
			t.Error("the volume is left, and nobody's")
		}
	}
	p := fakeProvider(t, f, doc)
	inv, err := p.Observe(t.Context())
	if d := p.Drift(wanted(doc), inv); err != nil || len(d) > 0 {
		t.Errorf("%v, %v", d, err)
	}
}

// TestDestroyMachine removes one machine and all that is its own, and nothing else.
func TestDestroyMachine(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Fatal(err)
	}
	want := keepIf(f.listing(), func(s string) bool { return !strings.Contains(s, "t3-life-cp-1") })
	p := fakeProvider(t, f, doc)
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.DestroyMachine(inv.Machines[0]).Run(t.Context(), silent{}); err != nil {
		t.Fatal(err)
	}
	if got := f.listing(); !slices.Equal(got, want) {
		t.Error(difference(got, want))
	}
}

// TestReplacedMachine: the step of a machine that was there when it was planned makes all that went with it meanwhile.
func TestReplacedMachine(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	testkit.Must(t, apply(t.Context(), fakeProvider(t, f, doc)))
	before := f.listing()
	p := fakeProvider(t, f, doc)
	inv := testkit.Value(p.Observe(t.Context()))(t)
	old := inv.Machines[0]
	inv.Machines = inv.Machines[1:]
	steps := testkit.Value(p.Steps(t.Context(), wanted(doc), inv))(t)
	i := slices.IndexFunc(steps, func(s *plan.Step) bool { return s.ID == provider.MachineStep(old.Name) })
	if i < 0 {
		t.Fatalf("no step makes %s: %v", old.Name, steps)
	}
	for _, s := range []*plan.Step{p.DestroyMachine(old), steps[i]} {
		testkit.Must(t, s.Run(t.Context(), silent{}))
	}
	if got := f.listing(); !slices.Equal(got, before) {
		t.Error(difference(got, before))
	}
}
