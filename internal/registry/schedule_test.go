package registry_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

func machineOf(n int, rack string) registry.Machine {
	m := registry.Machine{Machine: metal.Machine{UUID: uuidOf(n), Approval: "approved", State: "discovered", Labels: map[string]string{}}}
	if rack != "" {
		m.Labels["rack"] = rack
	}
	m.Facts = &facts.Discovery{Disks: []facts.Disk{{Path: "/dev/sda", SizeBytes: 1}}}
	return m
}

// take applies a decision.
func take(all []registry.Machine, cluster string, d *registry.Decision) {
	for _, g := range d.Given {
		for i := range all {
			if all[i].UUID == g.UUID {
				all[i].Claim, all[i].Roles = metal.Claim{Cluster: cluster, Pool: g.Pool, Seat: g.Seat}, g.Roles()
			}
		}
	}
}

func count(all []registry.Machine, pool string) (n int, racks map[string]int) {
	racks = map[string]int{}
	for _, m := range all {
		if m.Claim.Pool == pool {
			n++
			racks[m.Labels["rack"]]++
		}
	}
	return n, racks
}

func TestScheduleALife(t *testing.T) {
	w := registry.Wanted{Cluster: "demo", ControlPlane: registry.Pool{Replicas: 3}, Workers: []registry.Pool{{Name: "general", Replicas: -1}}, Spread: "rack"}
	all := []registry.Machine{machineOf(1, "a"), machineOf(2, "a")}
	d := testkit.Value(registry.Schedule(w, all))(t)
	if len(d.Given) != 0 || len(d.Waiting) != 1 {
		t.Fatalf("two machines are assigned before three exist: %+v", d)
	}
	for n, rack := range []string{"a", "b", "b", "c"} {
		all = append(all, machineOf(3+n, rack))
	}
	take(all, "demo", testkit.Value(registry.Schedule(w, all))(t))
	if n, racks := count(all, registry.ControlPlanePool); n != 3 || len(racks) != 3 {
		t.Errorf("the control plane is not spread: %v", racks)
	}
	if n, _ := count(all, "general"); n != 3 {
		t.Errorf("%d workers", n)
	}
	for i := range all { // a member is lost
		if all[i].Claim.Pool == registry.ControlPlanePool && all[i].Claim.Seat == 2 {
			all = append(all[:i], all[i+1:]...)
			break
		}
	}
	d = testkit.Value(registry.Schedule(w, all))(t)
	if len(d.Given) != 0 || len(d.Waiting) != 1 || d.Waiting[0] != "control-plane lacks 1 of 3 machines" {
		t.Errorf("%+v", d)
	}
	all = append(all, machineOf(10, "a"), machineOf(11, "c"))
	d = testkit.Value(registry.Schedule(w, all))(t)
	if len(d.Given) != 2 || d.Given[0].Seat != 2 || d.Given[0].Pool != registry.ControlPlanePool || d.Given[1].Pool != "general" {
		t.Errorf("%+v", d)
	}
	for name, bad := range map[string]registry.Wanted{"even": {Cluster: "demo", ControlPlane: registry.Pool{Replicas: 2}}, "no name": {ControlPlane: registry.Pool{Replicas: 1}},
		"twice": {Cluster: "demo", ControlPlane: registry.Pool{Replicas: 1}, Workers: []registry.Pool{{Name: "a"}, {Name: "a"}}}} {
		_, err := registry.Schedule(bad, all)
		if fail.KindOf(err) != fail.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestScheduleHolds: machines come, go and break, clusters change their requests, and certain invariants always hold.
func TestScheduleHolds(t *testing.T) {
	rnd, made := testkit.Rand(t), 0
	for range 300 {
		var all []registry.Machine
		for n := range 1 + rnd.IntN(12) {
			all, made = append(all, strange(rnd, n)), 100
		}
		for range 6 {
			w := registry.Wanted{Cluster: []string{"a", "b"}[rnd.IntN(2)], Spread: "rack", ControlPlane: registry.Pool{Replicas: 1 + 2*rnd.IntN(3)},
				Workers: []registry.Pool{{Name: "w", Replicas: rnd.IntN(5) - 1, Selector: map[string]string{"rack": "r1"}}, {Name: "x", Replicas: rnd.IntN(3)}}}
			holds(t, w, all, testkit.Value(registry.Schedule(w, all))(t))
			if t.Failed() {
				return
			}
			take(all, w.Cluster, testkit.Value(registry.Schedule(w, all))(t))
			if again := testkit.Value(registry.Schedule(w, all))(t); len(again.Given) > 0 {
				t.Fatalf("%+v gives twice: %+v", w, again)
			}
			if i := rnd.IntN(len(all)); rnd.IntN(2) == 0 { // an event
				made++
				all[i] = strange(rnd, made)
			}
		}
	}
}

func strange(rnd *rand.Rand, n int) registry.Machine {
	m := machineOf(n, []string{"", "r1", "r2", "r3"}[rnd.IntN(4)])
	switch rnd.IntN(10) {
	case 0:
		m.Approval = "pending"
	case 1:
		m.Record.Maintenance = "fan"
	case 2:
		m.Facts.Disks = nil
	case 3:
		m.State = "failed"
	}
	return m
}

func holds(t *testing.T, w registry.Wanted, all []registry.Machine, d *registry.Decision) {
	t.Helper()
	seats, machines, begun := map[string]bool{}, map[string]bool{}, 0
	for _, m := range all {
		if m.Claim.Cluster == w.Cluster {
			seats[fmt.Sprint(m.Claim.Pool, m.Claim.Seat)] = true
			if m.Claim.Pool == registry.ControlPlanePool {
				begun++
			}
		}
	}
	given := 0
	for _, g := range d.Given {
		seat := fmt.Sprint(g.Pool, g.Seat)
		if seats[seat] || machines[g.UUID] {
			t.Errorf("%+v is given twice", g)
		}
		seats[seat], machines[g.UUID] = true, true
		for _, m := range all {
			if m.UUID == g.UUID && registry.Unusable(m) != "" {
				t.Errorf("%+v is given: %s", g, registry.Unusable(m))
			}
		}
		if g.Pool == registry.ControlPlanePool {
			given++
		}
	}
	if begun == 0 && given != 0 && given != w.ControlPlane.Replicas {
		t.Errorf("a control plane of %d begins with %d", w.ControlPlane.Replicas, given)
	}
	if begun+given > max(begun, w.ControlPlane.Replicas) {
		t.Errorf("%d + %d members, wanted %d", begun, given, w.ControlPlane.Replicas)
	}
}

// TestServersRace: several servers fill the same cluster at once.
func TestServersRace(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{}), t.Context()
	for n := range 7 {
		s := newSimulated(t, n, false)
		testkit.Value(s.send(t, r))(t)
		testkit.Value(r.Approve(ctx, s.Boot.UUID, "", "ann"))(t)
	}
	w := registry.Wanted{Cluster: "demo", ControlPlane: registry.Pool{Replicas: 3}, Workers: []registry.Pool{{Name: "general", Replicas: 2}}}
	if d := testkit.Value(r.Fill(ctx, w, true))(t); len(d.Given) != 5 {
		t.Errorf("%+v", d)
	}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { testkit.Value(r.Fill(ctx, w, false))(t) })
	}
	wg.Wait()
	for role, want := range map[string]int{registry.RoleControlPlane: 3, registry.RoleEtcd: 3, registry.RoleNode: 2} {
		if _, total, err := r.Find(ctx, metal.Query{Role: role}); err != nil || total != want {
			t.Errorf("%d machines are %s, %v", total, role, err)
		}
	}
	control, _, err := r.Find(ctx, metal.Query{Role: registry.RoleEtcd, Facts: true})
	switches := map[string]bool{}
	for _, m := range control {
		switches[m.Facts.ChassisOf("eth0")] = true
	}
	if err != nil || len(switches) != 3 {
		t.Errorf("the control plane hangs on %v", switches)
	}
}

// TestObstaclesAreFound: a search by reason agrees with Unusable in all states of machines.
func TestObstaclesAreFound(t *testing.T) {
	r, ctx := newRegistry(t, registry.Options{}), t.Context()
	is := func(m *registry.Machine, err error) *registry.Machine { t.Helper(); return testkit.Value(m, err)(t) }
	for n := range 8 {
		s := newSimulated(t, n, false)
		switch n {
		case 1:
			s.Disks = nil
		case 2:
			s.Disks = []facts.Disk{{Path: "/dev/sda", SizeBytes: 8e9, Removable: true}, {Path: "/dev/sdb"}}
		}
		testkit.Value(s.send(t, r))(t)
		if n > 0 {
			is(r.Approve(ctx, uuidOf(n), "", "ann"))
		}
	}
	is(r.Maintain(ctx, uuidOf(3), "a fan is loud"))
	testkit.Value(r.Authorize(ctx, is(r.Machine(ctx, uuidOf(4)))))(t)
	testkit.Must(t, r.Finish(ctx, is(r.Machine(ctx, uuidOf(4))), false, nil))
	testkit.Must(t, r.Assign(ctx, uuidOf(5), "demo", "general"))
	is(r.Maintain(ctx, uuidOf(5), "its cluster has it")) // not free, and so not in these searches
	is(r.Reject(ctx, uuidOf(6), "ann"))
	finds := func(want map[string][]int) {
		t.Helper()
		for word, numbers := range want {
			found, total, err := r.Find(ctx, metal.Query{Unusable: word, Facts: true})
			testkit.Must(t, err)
			var all []string
			for _, m := range found {
				all = append(all, m.UUID)
				if registry.Unusable(m) == "" {
					t.Errorf("%s is found by %s, and can be used", m.UUID, word)
				}
			}
			var expected []string
			for _, n := range numbers {
				expected = append(expected, uuidOf(n))
			}
			if d := cmp.Diff(expected, all); d != "" || total != len(numbers) {
				t.Errorf("by %s are found %d: %s", word, total, d)
			}
		}
	}
	finds(map[string][]int{registry.Unapproved: {0, 6}, registry.Diskless: {1, 2}, registry.Maintenance: {3}, registry.Broken: {4}, metal.AnyWord: {0, 1, 2, 3, 4, 6}})
	is(r.Maintain(ctx, uuidOf(3), ""))
	is(r.Approve(ctx, uuidOf(6), "", "ann"))
	again := newSimulated(t, 1, false)
	again.Boot.RandomID = "boot-2"
	testkit.Value(again.send(t, r))(t) // a disk was added
	testkit.Must(t, r.SetRoles(ctx, uuidOf(2), []string{registry.RoleNode}))
	testkit.Must(t, r.Unassign(ctx, uuidOf(5)))
	finds(map[string][]int{registry.Unapproved: {0}, registry.Diskless: nil, registry.Maintenance: {5}, registry.Broken: {4}, metal.AnyWord: {0, 4, 5}})
}
