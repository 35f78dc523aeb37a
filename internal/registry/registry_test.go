package registry_test

import (
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

func newRegistry(t *testing.T, o registry.Options) *registry.Registry {
	t.Helper()
	s := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	t.Cleanup(func() { testkit.Must(t, s.Close()) })
	return registry.New(s.Metal(), o)
}

// simulated is a simulated machine.
type simulated struct {
	facts.Discovery
	key *ecdsa.PrivateKey // nil: as on machines of the older system
}

func uuidOf(n int) string { return fmt.Sprintf("5b7e1f3a-9c42-4d6b-8e21-%012d", n) }

func newSimulated(t *testing.T, n int, withKey bool) *simulated {
	mac := fmt.Sprintf("52:54:00:00:%02x:%02x", n/256, n%256)
	s := &simulated{Discovery: facts.Discovery{
		Boot:       facts.BootInfo{UUID: uuidOf(n), MAC: mac, RandomID: "boot-1"},
		Interfaces: []facts.Interface{{Name: "eth0", MAC: mac, IPv4: "10.0.0.1", CIDRv4: "10.0.0.1/16"}},
		Disks:      []facts.Disk{{Path: "/dev/sda", SizeBytes: 480_103_981_056}, {Path: "/dev/sdb", SizeBytes: 480_103_981_056}},
		LLDP:       facts.LLDP{Data: facts.LLDPData{Interfaces: []facts.Neighbour{{Name: "eth0", Chassis: facts.Chassis{ID: fmt.Sprint("switch-", n%3)}}}}},
		Journal:    []string{"began"}, System: &facts.System{Manufacturer: "QEMU"},
	}}
	if withKey {
		s.key = testkit.Value(facts.NewKey())(t)
		s.Enrolment = &facts.Enrolment{Request: testkit.Value(facts.NewRequest(s.key, s.Boot.UUID))(t)}
	}
	return s
}

// body returns the machine's next report, and its signature.
func (s *simulated) body(t *testing.T) ([]byte, string) {
	t.Helper()
	if s.key == nil {
		return testkit.Value(json.Marshal(s.Discovery))(t), ""
	}
	s.Enrolment.Sequence++
	raw := testkit.Value(json.Marshal(s.Discovery))(t)
	return raw, testkit.Value(facts.Sign(s.key, raw))(t)
}

func (s *simulated) send(t *testing.T, r *registry.Registry) (*registry.Discovery, error) {
	t.Helper()
	raw, sig := s.body(t)
	return r.Discover(t.Context(), raw, sig)
}

// issuer writes certificates that contain only the UUID.
type issuer struct{}

func (issuer) IssueMachine(uuid string, public any) ([]byte, error) {
	return []byte("certificate of " + uuid + " for " + facts.Fingerprint(public)), nil
}

func TestLife(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}}), t.Context()
	s := newSimulated(t, 1, true)
	d, err := s.send(t, r)
	if err != nil || !d.New || d.Approval != registry.Pending || d.Certificate != "" || d.Key != facts.Fingerprint(s.key.Public()) {
		t.Fatalf("%+v, %v", d, err)
	}
	m := testkit.Value(r.Machine(ctx, "52-54-00-00-00-01"))(t)
	if m.State != "discovered" || m.Record.Address != "10.0.0.1/16" || m.Record.Disks != "2 × 480.1 GB" || m.Facts.System.Manufacturer != "QEMU" {
		t.Errorf("%+v", m)
	}
	if a := testkit.Value(r.Authorize(ctx, m))(t); a.Granted || !strings.Contains(a.Why, "approved") {
		t.Errorf("an unapproved machine is installed: %+v", a)
	}
	_, err = r.Approve(ctx, m.UUID, "another", "ann")
	testkit.Fails(t, err, fail.Conflict, "another")
	testkit.Value(r.Approve(ctx, m.UUID, d.Key, "ann"))(t)
	d = testkit.Value(s.send(t, r))(t)
	if d.New || !d.Proven || !strings.Contains(d.Certificate, s.Boot.UUID) {
		t.Errorf("%+v", d)
	}
	m = testkit.Value(r.Machine(ctx, s.Boot.UUID))(t)
	testkit.Must(t, r.Knows(m, s.key.Public()))
	testkit.Fails(t, r.Knows(m, testkit.Value(facts.NewKey())(t).Public()), fail.Unauthorized)
	if a := testkit.Value(r.Authorize(ctx, m))(t); !a.Granted || time.Until(a.Expires) < 15*time.Minute {
		t.Errorf("%+v", a)
	}
	testkit.Must(t, r.Finish(ctx, m, true, []string{"written"}))
	if held := testkit.Value(r.Holders(ctx))(t); len(held) != 0 {
		t.Errorf("the authorization was not given back: %+v", held)
	}
	m = testkit.Value(r.Machine(ctx, s.Boot.UUID))(t)
	if a := testkit.Value(r.Authorize(ctx, m))(t); a.Granted || !strings.Contains(a.Why, "reinstall") || m.State != "installed" {
		t.Errorf("a machine was installed twice: %+v, %s", a, m.State)
	}
	testkit.Value(r.Want(ctx, m.UUID, "sha256:a"))(t)
	for n, digest := range []string{"sha256:b", "sha256:a"} {
		m = testkit.Value(r.Selected(ctx, facts.Selector{UUID: m.UUID}))(t)
		if is, err := r.Report(ctx, m, "boot-2", digest, int64(n+1)); err != nil || is != (n == 1) {
			t.Errorf("%s: %v, %v", digest, is, err)
		}
	}
	_, err = r.Report(ctx, m, "boot-2", "sha256:b", 2)
	testkit.Fails(t, err, fail.Conflict)
	if m = testkit.Value(r.Machine(ctx, m.UUID))(t); m.State != "running" || m.Record.Boot != "boot-2" {
		t.Errorf("%+v", m)
	}
	if j := testkit.Value(r.Journal(ctx, m.UUID, "", registry.InstallJournal))(t); !cmp.Equal(j.Lines, []string{"written"}) || j.BootID != "boot-1" {
		t.Errorf("%+v", j)
	}
	_, err = registry.Keep(ctx, r, m.UUID, "ann")
	testkit.Fails(t, err, fail.Conflict, "not to be reinstalled")
	testkit.Value(r.Reinstall(ctx, m.UUID, nil, "ann"))(t)
	if m = testkit.Value(registry.Keep(ctx, r, m.UUID, "ann"))(t); m.Record.Reinstall || !m.BootsFromDisk() {
		t.Errorf("a reinstallation that was taken back: %+v", m.Record)
	}
	testkit.Value(r.Reinstall(ctx, m.UUID, nil, "ann"))(t)
	m = testkit.Value(r.Machine(ctx, m.UUID))(t)
	if a := testkit.Value(r.Authorize(ctx, m))(t); !a.Granted {
		t.Errorf("%+v", a)
	}
	_, err = registry.Keep(ctx, r, m.UUID, "ann")
	testkit.Fails(t, err, fail.Refused, "has begun")
	for range 3 {
		testkit.Value(r.Authorize(ctx, m))(t)
		for range 4 { // a repeated report is no further attempt
			testkit.Must(t, r.Finish(ctx, m, false, []string{"no space"}))
			m = testkit.Value(r.Machine(ctx, m.UUID))(t)
		}
	}
	if a := testkit.Value(r.Authorize(ctx, m))(t); a.Granted || !strings.Contains(a.Why, "failed 3 times") {
		t.Errorf("%+v", a)
	}
}

// TestImpostors: other hosts claim to be a machine.
func TestImpostors(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{Issuer: issuer{}, Rules: []registry.Rule{{"manufacturer": "Q*"}}}), t.Context()
	s := newSimulated(t, 1, true)
	if d := testkit.Value(s.send(t, r))(t); d.Approval != registry.Approved || d.Certificate == "" {
		t.Fatalf("a rule approves a new machine: %+v", d)
	}
	raw, sig := s.body(t)
	testkit.Value(r.Discover(ctx, raw, sig))(t)
	_, err := r.Discover(ctx, raw, sig)
	testkit.Fails(t, err, fail.Conflict, "already") // replayed
	_, err = r.Discover(ctx, []byte(strings.Replace(string(raw), "sda", "sdx", 1)), sig)
	testkit.Fails(t, err, fail.Unauthorized)

	another := newSimulated(t, 1, true) // the same UUID and MAC address, another key
	another.Disks = nil
	d := testkit.Value(another.send(t, r))(t)
	if d.Certificate != "" || d.Proven || d.Approval != registry.Approved {
		t.Errorf("an impostor was given something: %+v", d)
	}
	m := testkit.Value(r.Machine(ctx, s.Boot.UUID))(t)
	if m.Record.Asks == nil || len(m.Facts.Disks) != 2 || r.Knows(m, another.key.Public()) == nil {
		t.Errorf("an impostor was believed: %+v", m)
	}
	another.key, another.Enrolment = nil, nil
	testkit.Value(another.send(t, r))(t) // a report without a key is ignored now
	if m := testkit.Value(r.Machine(ctx, s.Boot.UUID))(t); len(m.Facts.Disks) != 2 {
		t.Error("facts without a signature were believed")
	}
	if d := testkit.Value(s.send(t, r))(t); !d.Proven {
		t.Errorf("the machine itself lost its place: %+v", d)
	}

	twin := newSimulated(t, 2, true) // the UUID of one machine, the network cards of another
	twin.Boot.UUID = uuidOf(1)
	twin.Enrolment.Request = testkit.Value(facts.NewRequest(twin.key, uuidOf(1)))(t)
	if d := testkit.Value(twin.send(t, r))(t); d.Certificate != "" {
		t.Errorf("%+v", d)
	}
	thief := newSimulated(t, 3, true) // its own UUID, the MAC address of another machine
	thief.Interfaces = append(thief.Interfaces, facts.Interface{Name: "eth1", MAC: s.Boot.MAC})
	testkit.Value(thief.send(t, r))(t)
	if m, other := testkit.Value(r.Machine(ctx, thief.Boot.UUID))(t), testkit.Value(r.Machine(ctx, s.Boot.MAC))(t); len(m.MACs) != 1 || other.UUID != s.Boot.UUID || !strings.Contains(m.Facts.Interfaces[1].Ignored, s.Boot.UUID) {
		t.Errorf("a card's address was taken from another machine: %v, %s, %+v", m.MACs, other.UUID, m.Facts.Interfaces)
	}
	robber := newSimulated(t, 6, true) // it boots with the MAC address of another machine
	robber.Boot.MAC = s.Boot.MAC
	_, err = robber.send(t, r)
	testkit.Fails(t, err, fail.Conflict, s.Boot.MAC, s.Boot.UUID)

	plain := newSimulated(t, 4, false)
	testkit.Value(plain.send(t, r))(t)
	plainTwin := newSimulated(t, 5, false)
	plainTwin.Boot.UUID = uuidOf(4)
	_, err = plainTwin.send(t, r)
	testkit.Fails(t, err, fail.Conflict, plain.Boot.MAC)
	_, err = registry.ParseRule("memory=1")
	testkit.Fails(t, err, fail.Invalid)
	if rule := testkit.Value(registry.ParseRule("serial=A*,mac=52:*"))(t); rule.String() != "mac=52:*,serial=A*" {
		t.Error(rule)
	}
}

func TestInstallsAreBounded(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{Installs: 2}), t.Context()
	var granted atomic.Int64
	var wg sync.WaitGroup
	for n := range 8 {
		s := newSimulated(t, n, false)
		testkit.Value(s.send(t, r))(t)
		m := testkit.Value(r.Approve(ctx, s.Boot.UUID, "", "ann"))(t)
		wg.Go(func() {
			a, err := r.Authorize(context.WithoutCancel(ctx), m)
			testkit.Must(t, err)
			if a.Granted {
				granted.Add(1)
			} else if !strings.HasPrefix(a.Why, "Locked by ") {
				t.Errorf("%+v", a)
			}
		})
	}
	wg.Wait()
	if granted.Load() != 2 {
		t.Errorf("%d of 2 were granted", granted.Load())
	}
	if _, total, err := r.Find(ctx, metal.Query{State: "denied"}); err != nil || total != 6 {
		t.Errorf("%d were denied, %v", total, err)
	}
}

func TestCare(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{}), t.Context()
	s := newSimulated(t, 1, false)
	testkit.Value(s.send(t, r))(t)
	uuid := s.Boot.UUID
	testkit.Value(r.Rename(ctx, uuid, "rack1-a"))(t)
	testkit.Value(r.Label(ctx, uuid, map[string]string{"rack": "r1", "a": "b"}, nil))(t)
	m := testkit.Value(r.Label(ctx, uuid, nil, []string{"a"}))(t)
	if !cmp.Equal(m.Labels, map[string]string{"rack": "r1"}) || m.Name != "rack1-a" {
		t.Errorf("%+v", m)
	}
	for _, err := range []error{second(r.Rename(ctx, uuid, "A b")), second(r.Rename(ctx, uuid, uuidOf(9))), second(r.Rename(ctx, uuid, "52-54-00-aa-bb-cc")), second(r.Label(ctx, uuid, map[string]string{"<script>": ""}, nil)),
		second(r.SetStrategy(ctx, uuid, "explode")), r.SetRoles(ctx, uuid, []string{"a b"}), r.Assign(ctx, uuid, "", "x")} {
		testkit.Fails(t, err, fail.Invalid)
	}
	testkit.Fails(t, r.Assign(ctx, uuid, "demo", "w"), fail.Refused, "not approved")
	testkit.Value(r.Approve(ctx, uuid, "", "ann"))(t)
	testkit.Value(r.Maintain(ctx, uuid, "fan"))(t)
	testkit.Fails(t, r.Assign(ctx, uuid, "demo", "w"), fail.Refused, "fan")
	testkit.Value(r.Maintain(ctx, uuid, ""))(t)
	testkit.Must(t, r.Assign(ctx, uuid, "demo", "w"))
	m = testkit.Value(r.Machine(ctx, "rack1-a"))(t)
	if m.Claim != (metal.Claim{Cluster: "demo", Pool: "w", Seat: 1}) || !cmp.Equal(m.Roles, []string{registry.RoleNode}) {
		t.Errorf("%+v", m)
	}
	testkit.Must(t, r.Unassign(ctx, uuid))
	if m = testkit.Value(r.Machine(ctx, uuid))(t); m.Claim.Cluster != "" || len(m.Roles) > 0 {
		t.Errorf("%+v", m)
	}
	for _, kind := range []string{"kexec", "", "reboot"} {
		m = testkit.Value(r.SetStrategy(ctx, uuid, kind))(t)
		if m.Record.Strategy.Disabled != (kind == "") {
			t.Errorf("%+v", m.Record.Strategy)
		}
	}
	_, _, err := r.Groups().Lock(ctx, "demo", uuid)
	testkit.Fails(t, err, fail.Refused, "not of the group", registry.LockGroup)
	testkit.Value(r.Label(ctx, uuid, map[string]string{registry.LockGroup: "demo"}, nil))(t)
	_, token, err := r.Groups().NewToken(ctx, "demo", time.Hour)
	testkit.Must(t, err)
	for range 2 {
		if ok, who, err := r.Groups().Lock(ctx, "demo", uuid); err != nil || !ok || who[0].Detail != "rack1-a" || time.Until(who[0].Expires) < 23*time.Hour {
			t.Errorf("%v %+v %v", ok, who, err)
		}
	}
	if ok, who, err := r.Groups().LockBy(ctx, &token, "zincati"); err != nil || ok || who[0].Detail != "rack1-a" {
		t.Errorf("%v %+v %v", ok, who, err)
	}
	if held, err := r.Groups().UnlockBy(ctx, &token, "zincati"); err != nil || held {
		t.Error(held, err)
	}
	if held, err := r.Release(ctx, "reboot/demo", uuid); err != nil || !held {
		t.Error(held, err)
	}
	_, _, err = r.Groups().Lock(ctx, "a/b", uuid)
	testkit.Fails(t, err, fail.Invalid)
	testkit.Must(t, r.Forget(ctx, uuid))
	_, err = r.Machine(ctx, uuid)
	testkit.Fails(t, err, fail.NotFound)
}

// clusters are the existing clusters.
type clusters map[string]string

func (c clusters) ClusterID(_ context.Context, name string) (string, error) { return c[name], nil }

// TestOneLease: verbs wait for a reboot of the cluster's own machine, and not for a stranger's; both wait for a verb.
func TestOneLease(t *testing.T) {
	st, ctx := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t), t.Context()
	t.Cleanup(func() { testkit.Must(t, st.Close()) })
	c := testkit.Value(st.CreateCluster(ctx, store.Cluster{Name: "demo", Document: []byte("x")}))(t)
	r := registry.New(st.Metal(), registry.Options{Clusters: clusters{"demo": c.ID}, Reboots: 2})
	s := newSimulated(t, 1, false)
	testkit.Value(s.send(t, r))(t)
	testkit.Value(r.Approve(ctx, s.Boot.UUID, "", "ann"))(t)
	testkit.Must(t, r.Assign(ctx, s.Boot.UUID, "demo", "w"))
	l := testkit.Value(st.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{}))(t)
	_, token, err := r.Groups().NewToken(ctx, "demo", 0)
	testkit.Must(t, err)
	for _, lock := range []func() (bool, []metal.Slot, error){
		func() (bool, []metal.Slot, error) { return r.Groups().Lock(ctx, "demo", s.Boot.UUID) },
		func() (bool, []metal.Slot, error) { return r.Groups().LockBy(ctx, &token, "stranger") },
	} {
		_, _, err := lock()
		testkit.Fails(t, err, fail.Conflict, "apply")
	}
	testkit.Must(t, l.Release(ctx))
	if ok, _, err := r.Groups().LockBy(ctx, &token, "stranger"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	l, err = st.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{})
	testkit.Must(t, err)
	testkit.Must(t, l.Release(ctx))
	if ok, _, err := r.Groups().Lock(ctx, "demo", s.Boot.UUID); err != nil || !ok {
		t.Fatal(ok, err)
	}
	_, err = st.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{})
	testkit.Fails(t, err, fail.Conflict, "unlock")
}

func second[T any](_ T, err error) error { return err }
