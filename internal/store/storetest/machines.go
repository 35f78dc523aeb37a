package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

const aMachine = "5b7e1f3a-9c42-4d6b-8e21-000000000001"

func newMachine(t *testing.T, s metal.Store, n int) string {
	t.Helper()
	uuid := fmt.Sprintf("%s%03d", strings.TrimSuffix(aMachine, "001"), n)
	_, err := s.Change(t.Context(), uuid, metal.How{Make: true}, func(d *metal.Draft) error {
		d.MACs, d.State = []string{fmt.Sprintf("52:54:00:00:00:%02x", n)}, "discovered"
		return nil
	})
	testkit.Must(t, err)
	return uuid
}

func machines(t *testing.T, at Opener, _ Database) {
	s, ctx := at("").Metal(), t.Context()
	_, err := s.Machine(ctx, aMachine)
	testkit.Fails(t, err, fail.NotFound, aMachine)
	_, err = s.Change(ctx, aMachine, metal.How{}, func(*metal.Draft) error { return nil })
	testkit.Fails(t, err, fail.NotFound, aMachine)
	made, err := s.Change(ctx, aMachine, metal.How{Make: true, Quick: true}, func(d *metal.Draft) error {
		if !d.New {
			t.Error("a machine that was not known is not new")
		}
		d.Name, d.State, d.Approval, d.Record, d.Facts = "one", "discovered", "pending", []byte(`{"a":1}`), []byte(`{"b":2}`)
		d.MACs, d.Labels = []string{"52:54:00:00:00:02", "52:54:00:00:00:01"}, map[string]string{"rack": "r1"}
		d.Boot = &metal.Boot{ID: "boot-1"}
		d.Journals = []metal.Journal{{BootID: "boot-1", Kind: "discovery", Lines: []string{"a", "b\x00"}}}
		d.Note("discovered", "at boot-1")
		d.Claim, d.Roles = metal.Claim{Cluster: "stolen"}, []string{"stolen"}
		return nil
	})
	testkit.Must(t, err)
	got := testkit.Value(s.ByMAC(ctx, "52:54:00:00:00:01"))(t)
	if d := cmp.Diff(made, got); d != "" || got.Claim.Cluster != "" || got.Roles != nil {
		t.Errorf("%s\n%+v", d, got)
	}
	if m := testkit.Value(s.ByName(ctx, "one"))(t); m.UUID != aMachine {
		t.Errorf("by name: %+v", m)
	}
	other := newMachine(t, s, 9)
	for selector, there := range map[[2]string]bool{{aMachine, ""}: true, {"", "52:54:00:00:00:01"}: true, {aMachine, "52:54:00:00:00:01"}: true,
		{other, "52:54:00:00:00:01"}: false, {"", "52:54:00:00:00:77"}: false} {
		if m, err := s.Lookup(ctx, selector[0], selector[1]); there != (err == nil) || there && m.UUID != aMachine || !there && fail.KindOf(err) != fail.NotFound {
			t.Errorf("%v: %v, %v", selector, m, err)
		}
	}
	_, err = s.Change(ctx, other, metal.How{}, func(d *metal.Draft) error { d.MACs = []string{"52:54:00:00:00:01", d.MACs[0]}; return nil })
	testkit.Fails(t, err, fail.Conflict, aMachine, "52:54:00:00:00:01")
	shares := testkit.Value(s.Change(ctx, other, metal.How{}, func(d *metal.Draft) error { d.MACs = append(d.MACs, "52:54:00:00:00:01"); return nil }))(t)
	if m := testkit.Value(s.ByMAC(ctx, "52:54:00:00:00:01"))(t); len(shares.MACs) != 1 || m.UUID != aMachine {
		t.Errorf("a card's address was taken from another machine: %v, %s", shares.MACs, m.UUID)
	}
	_, err = s.Change(ctx, other, metal.How{}, func(d *metal.Draft) error { d.Name = "one"; return nil })
	testkit.Fails(t, err, fail.Conflict, "name")
	_, err = s.Change(ctx, other, metal.How{}, func(d *metal.Draft) error { d.Name = "two"; return fail.New(fail.Refused, "no") })
	testkit.Fails(t, err, fail.Refused)
	if m := testkit.Value(s.Machine(ctx, other))(t); m.Name != "" || len(m.MACs) != 1 {
		t.Errorf("what was refused was written: %+v", m)
	}
	journalsAndEvents(t, s)
	testkit.Must(t, s.Forget(ctx, aMachine))
	testkit.Fails(t, s.Forget(ctx, aMachine), fail.NotFound)
	_, err = s.ByMAC(ctx, "52:54:00:00:00:02")
	testkit.Fails(t, err, fail.NotFound)
}

func journalsAndEvents(t *testing.T, s metal.Store) {
	t.Helper()
	ctx := t.Context()
	for n := range 25 { // each boot is newer than the one before by the clock's microseconds
		_, err := s.Change(ctx, aMachine, metal.How{}, func(d *metal.Draft) error {
			d.Boot = &metal.Boot{ID: fmt.Sprintf("later-%02d", n)}
			d.Note("discovered", d.Boot.ID)
			return nil
		})
		testkit.Must(t, err)
	}
	boots := testkit.Value(s.Boots(ctx, aMachine))(t)
	if len(boots) != 20 || boots[0].ID != "later-24" || boots[19].ID != "later-05" {
		t.Errorf("%d boots: %+v", len(boots), boots)
	}
	_, err := s.Journal(ctx, aMachine, "boot-1", "discovery")
	testkit.Fails(t, err, fail.NotFound, "boot-1") // its boot is forgotten
	for _, boot := range []string{"later-24", "later-07"} {
		_, err := s.Change(ctx, aMachine, metal.How{}, func(d *metal.Draft) error {
			d.Journals = []metal.Journal{{BootID: boot, Kind: "install", Lines: []string{boot}}}
			return nil
		})
		testkit.Must(t, err)
	}
	if j := testkit.Value(s.Journal(ctx, aMachine, "", "install"))(t); j.BootID != "later-24" || !cmp.Equal(j.Lines, []string{"later-24"}) {
		t.Errorf("the journal of the latest boot: %+v", j)
	}
	if j := testkit.Value(s.Journal(ctx, aMachine, "later-07", "install"))(t); j.BootID != "later-07" {
		t.Errorf("%+v", j)
	}
	if e := testkit.Value(s.Events(ctx, aMachine, 2))(t); len(e) != 2 || e[0].Detail != "later-24" || e[0].At.IsZero() {
		t.Errorf("%+v", e)
	}
}

func machinesAreFound(t *testing.T, at Opener, _ Database) {
	s, ctx := at("").Metal(), t.Context()
	const n = 230 // more than are named one by one
	for i := range n {
		uuid := newMachine(t, s, i)
		if i%10 == 0 {
			_, err := s.Change(ctx, uuid, metal.How{}, func(d *metal.Draft) error {
				d.Name, d.State, d.Unusable, d.Labels = fmt.Sprintf("n_%03d", i), "failed", []string{"failed", "diskless"}[i/10%2], map[string]string{"rack": "r1", "x": "y"}
				return nil
			})
			testkit.Must(t, err)
		}
	}
	testkit.Must(t, s.Assign(ctx, func(all []metal.Machine) ([]metal.Assigned, error) {
		return []metal.Assigned{
			{UUID: all[3].UUID, Claim: metal.Claim{Cluster: "demo", Pool: "w", Seat: 1}, Roles: []string{"worker", "b"}, Event: metal.Event{What: "assigned"}},
			{UUID: all[20].UUID, Roles: []string{"c"}, Event: metal.Event{What: "assigned"}}, // one that could not be used otherwise
		}, nil
	}))
	if c := testkit.Value(s.Counts(ctx))(t); c["failed"] != 23 || len(c) != 2 {
		t.Errorf("counted were %v", c)
	}
	for name, c := range map[string]struct {
		q           metal.Query
		here, total int
	}{
		"all": {metal.Query{}, n, n}, "a page": {metal.Query{Limit: 50, Offset: 200, Order: "name"}, 30, n},
		"state": {metal.Query{State: "failed", Limit: 5}, 5, 23}, "labels": {metal.Query{Labels: map[string]string{"rack": "r1", "x": "y"}}, 23, 23},
		"no label": {metal.Query{Labels: map[string]string{"rack": "r2"}}, 0, 0}, "role": {metal.Query{Role: "worker"}, 1, 1},
		"free": {metal.Query{Free: true, Limit: 1}, 1, n - 2}, "can't be used": {metal.Query{Unusable: metal.AnyWord, Limit: 5}, 5, 22},
		"no disk": {metal.Query{Unusable: "diskless"}, 11, 11}, "failed": {metal.Query{Unusable: "failed", Text: "n_0"}, 4, 4}, "cluster": {metal.Query{Cluster: "demo", Pool: "w"}, 1, 1},
		"text": {metal.Query{Text: "N_11"}, 1, 1}, "text is no pattern": {metal.Query{Text: "n%1"}, 0, 0}, "MAC": {metal.Query{Text: "00:0a"}, 1, 1},
	} {
		got, total, err := s.Find(ctx, c.q)
		if err != nil || len(got) != c.here || total != c.total {
			t.Errorf("%s: %d of %d, %v", name, len(got), total, err)
		}
		if len(got) > 0 && (len(got[0].MACs) != 1 || got[0].Facts != nil) {
			t.Errorf("%s: %+v", name, got[0])
		}
	}
	for _, by := range []string{"uuid", "name", "state", "seen"} { // each way, machines that are the same, too
		there, _, err := s.Find(ctx, metal.Query{Order: by})
		testkit.Must(t, err)
		back, _, err := s.Find(ctx, metal.Query{Order: "-" + by, Limit: n})
		testkit.Must(t, err)
		slices.Reverse(back)
		if d := cmp.Diff(uuids(there), uuids(back)); d != "" {
			t.Errorf("by %s: %s", by, d)
		}
	}
	_, _, err := s.Find(ctx, metal.Query{Order: "name; DROP TABLE machines"})
	testkit.Fails(t, err, fail.Invalid)
}

func uuids(all []metal.Machine) (names []string) {
	for _, m := range all {
		names = append(names, m.UUID)
	}
	return names
}

func reports(t *testing.T, at Opener, _ Database) {
	s, ctx := at("").Metal(), t.Context()
	uuid := newMachine(t, s, 1)
	testkit.Must(t, s.Report(ctx, metal.Report{UUID: uuid, Digest: "d1", Sequence: 5, BootID: "b"}))
	testkit.Must(t, s.Report(ctx, metal.Report{UUID: uuid, Digest: "d2", Sequence: 6, BootID: "b"}))
	for _, old := range []int64{6, 5} {
		testkit.Fails(t, s.Report(ctx, metal.Report{UUID: uuid, Digest: "replayed", Sequence: old}), fail.Conflict, uuid)
	}
	testkit.Fails(t, s.Report(ctx, metal.Report{UUID: aMachine + "0", Sequence: 1}), fail.NotFound)
	m := testkit.Value(s.Machine(ctx, uuid))(t)
	if m.Report == nil || m.Report.Digest != "d2" || m.Report.Sequence != 6 || m.Seen.Before(m.Report.At) {
		t.Errorf("%+v, %+v", m, m.Report)
	}
}

// manyChangeAtOnce changes machines, reports and places at once, and some changes are refused: each caller gets its own answer.
func manyChangeAtOnce(t *testing.T, at Opener, _ Database) {
	s, ctx := at("").Metal(), t.Context()
	var wg sync.WaitGroup
	for n := range 40 {
		wg.Go(func() {
			uuid := newMachine(t, s, n)
			_, err := s.Change(ctx, uuid, metal.How{Quick: n%2 == 0}, func(d *metal.Draft) error {
				d.Labels["n"], d.Name = fmt.Sprint(n), fmt.Sprint("renamed-", n)
				if n%5 == 0 {
					return fail.New(fail.Refused, "no %d", n)
				}
				return nil
			})
			if n%5 == 0 {
				testkit.Fails(t, err, fail.Refused, fmt.Sprintf("no %d", n))
			} else {
				testkit.Must(t, err)
			}
			testkit.Must(t, s.Report(ctx, metal.Report{UUID: uuid, Digest: "d", Sequence: int64(n + 1)}))
			testkit.Fails(t, s.Report(ctx, metal.Report{UUID: uuid, Digest: "replayed", Sequence: int64(n + 1)}), fail.Conflict)
		})
	}
	wg.Wait()
	all, total, err := s.Find(ctx, metal.Query{})
	testkit.Must(t, err)
	renamed := 0
	for _, m := range all {
		if strings.HasPrefix(m.Name, "renamed-") {
			renamed++
			if "renamed-"+m.Labels["n"] != m.Name {
				t.Errorf("%s is %v", m.Name, m.Labels)
			}
		}
		if m.Report == nil || m.Report.Digest != "d" {
			t.Errorf("%s: %+v", m.Name, m.Report)
		}
	}
	if total != 40 || renamed != 32 {
		t.Errorf("%d machines, %d of which were renamed", total, renamed)
	}
}

// seatsAreGivenOnce has several servers decide at once.
func seatsAreGivenOnce(t *testing.T, at Opener, _ Database) {
	s, ctx := at("").Metal(), t.Context()
	for n := range 6 {
		newMachine(t, s, n)
	}
	var wg sync.WaitGroup
	for n := range 6 {
		s := at(fmt.Sprint("server-", n)).Metal()
		wg.Go(func() {
			testkit.Must(t, s.Assign(ctx, func(all []metal.Machine) ([]metal.Assigned, error) {
				taken := 0
				for _, m := range all {
					if m.Claim.Cluster != "" {
						taken++
					}
				}
				if taken == 3 {
					return nil, nil
				}
				return []metal.Assigned{{UUID: all[taken].UUID, Claim: metal.Claim{Cluster: "demo", Pool: "cp", Seat: taken + 1}, Roles: []string{"control-plane"}}}, nil
			}))
		})
	}
	wg.Wait()
	if _, total, err := s.Find(ctx, metal.Query{Role: "control-plane"}); err != nil || total != 3 {
		t.Errorf("%d machines have the role, %v", total, err)
	}
	free, _, err := s.Find(ctx, metal.Query{Free: true})
	testkit.Must(t, err)
	err = s.Assign(ctx, func([]metal.Machine) ([]metal.Assigned, error) { // whatever a scheduler thinks
		return []metal.Assigned{{UUID: free[0].UUID, Claim: metal.Claim{Cluster: "demo", Pool: "cp", Seat: 2}}}, nil
	})
	testkit.Fails(t, err, fail.Conflict, "twice")
	if after, _, err := s.Find(ctx, metal.Query{Free: true}); err != nil || len(after) != 3 {
		t.Errorf("%d are free after that, %v", len(after), err)
	}
}

// placesAreBounded has many holders want places of one group.
func placesAreBounded(t *testing.T, at Opener, _ Database) {
	ctx := t.Context()
	var granted atomic.Int64
	var wg sync.WaitGroup
	for n := range 8 {
		s := at(fmt.Sprint("server-", n)).Metal()
		wg.Go(func() {
			ok, _, err := s.Take(ctx, metal.Want{Group: "install", Holder: fmt.Sprint("m", n), Bound: 3, TTL: time.Hour})
			testkit.Must(t, err)
			if ok {
				granted.Add(1)
			}
		})
	}
	wg.Wait()
	s := at("").Metal()
	who := testkit.Value(s.Slots(ctx, "install"))(t)
	if granted.Load() != 3 || len(who) != 3 || who[0].Expires.IsZero() {
		t.Fatalf("%d were granted: %+v", granted.Load(), who)
	}
	take := func(holder string, ttl time.Duration) bool {
		t.Helper()
		ok, _, err := s.Take(ctx, metal.Want{Group: "install", Holder: holder, Bound: 3, TTL: ttl})
		testkit.Must(t, err)
		return ok
	}
	if !take(who[0].Holder, time.Millisecond) {
		t.Error("who has a place keeps it")
	}
	testkit.Until(t, 10*time.Second, 5*time.Millisecond, testkit.That("a place that has run out is given to another", func() bool { return take("another", time.Hour) }))
	if take("yet another", time.Hour) {
		t.Error("a fourth place was given")
	}
	if held, err := s.Give(ctx, "install", "another"); err != nil || !held {
		t.Errorf("%v, %v", held, err)
	}
	if held, err := s.Give(ctx, "install", "another"); err != nil || held {
		t.Errorf("%v, %v", held, err)
	}
	if !take("yet another", 0) {
		t.Error("a place that was given back is not free")
	}
	_, _, err := s.Take(ctx, metal.Want{Group: "install"})
	testkit.Fails(t, err, fail.Invalid)
}

// oneLeaseForEveryDisruption: who may reboot, and who changes the cluster, exclude each other.
func oneLeaseForEveryDisruption(t *testing.T, at Opener, _ Database) {
	s, ctx := at(""), t.Context()
	c := newCluster(t, s, "demo")
	uuid := newMachine(t, s.Metal(), 1)
	want := metal.Want{Group: "demo", Holder: uuid, Detail: "demo-w-1", Cluster: c.ID, Bound: 1}
	l := testkit.Value(s.AcquireLease(ctx, c.ID, "upgrade", store.LeaseOptions{}))(t)
	_, _, err := at("far").Metal().Take(ctx, want)
	testkit.Fails(t, err, fail.Conflict, "upgrade")
	stranger := metal.Want{Group: "demo", Holder: "stranger", Heeds: c.ID, Bound: 2}
	_, _, err = s.Metal().Take(ctx, stranger)
	testkit.Fails(t, err, fail.Conflict, "upgrade")
	testkit.Must(t, l.Release(ctx))
	if ok, _, err := s.Metal().Take(ctx, stranger); err != nil || !ok {
		t.Fatal(ok, err)
	}
	l = testkit.Value(s.AcquireLease(ctx, c.ID, "upgrade", store.LeaseOptions{}))(t) // a lease does not wait for strangers
	testkit.Must(t, l.Release(ctx))
	if held, err := s.Metal().Give(ctx, "demo", "stranger"); err != nil || !held {
		t.Fatal(held, err)
	}
	if ok, _, err := s.Metal().Take(ctx, want); err != nil || !ok {
		t.Fatal(ok, err)
	}
	_, err = at("far").AcquireLease(ctx, c.ID, "upgrade", store.LeaseOptions{})
	testkit.Fails(t, err, fail.Conflict, "demo-w-1", "unlock")
	testkit.Must(t, s.Metal().Forget(ctx, uuid)) // with its places
	l = testkit.Value(s.AcquireLease(context.WithoutCancel(ctx), c.ID, "upgrade", store.LeaseOptions{}))(t)
	testkit.Must(t, l.Release(ctx))
}
