package storetest

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

func clusters(t *testing.T, at Opener, d Database) {
	s, ctx := at(""), t.Context()
	_, err := s.Cluster(ctx, "demo")
	testkit.Fails(t, fail.Whole(err), fail.NotFound, "demo", "none")
	c := newCluster(t, s, "demo")
	if !regexp.MustCompile(`^demo-[0-9a-f]{8}$`).MatchString(c.ID) {
		t.Errorf("ID %q", c.ID)
	}
	newCluster(t, s, "alpha")
	_, err = s.CreateCluster(ctx, store.Cluster{Name: "demo"})
	testkit.Fails(t, err, fail.Conflict, "demo")
	_, err = s.CreateCluster(ctx, store.Cluster{})
	testkit.Fails(t, err, fail.Invalid, "is no ID of the cluster")
	_, err = s.Cluster(ctx, "dmeo")
	testkit.Fails(t, fail.Whole(err), fail.NotFound, "dmeo", "did you mean demo?", "alpha, demo")
	if strings.Contains(err.Error(), "alpha") {
		t.Errorf("a record of the error names other clusters: %v", err)
	}

	c.Document, c.Facts = []byte("new"), store.Facts{{Kind: "a"}: "b", {Kind: "a", Subject: "x"}: "c"}
	if err := s.SaveCluster(ctx, c); err != nil {
		t.Fatal(err)
	}
	got, err := s.Cluster(ctx, "demo")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c, got); d != "" {
		t.Error(d)
	}
	all, err := s.Clusters(ctx)
	if err != nil || len(all) != 2 || all[0].Name != "alpha" {
		t.Errorf("%v, %v", all, err)
	}
	for range 2 { // the second finds nothing, which is not an error
		if err := s.DeleteCluster(ctx, c.ID); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Cluster(ctx, "demo")
	testkit.Fails(t, err, fail.NotFound)
	testkit.Fails(t, s.SaveCluster(ctx, c), fail.NotFound, c.ID)
	if again := newCluster(t, s, "demo"); again.ID == c.ID {
		t.Error("an ID was used twice")
	}
}

// facts are written one by one, or all at once with the record.
func facts(t *testing.T, at Opener, _ Database) {
	s, ctx := at(""), t.Context()
	c, other := newCluster(t, s, "demo"), newCluster(t, s, "other")
	want := store.Facts{{Kind: "vip"}: "10.0.0.10"}
	set := func(f store.Fact, value string) {
		t.Helper()
		if err := s.SetFact(ctx, c.ID, f, value); err != nil {
			t.Fatal(err)
		}
		if want[f] = value; value == "" {
			delete(want, f)
		}
		got, err := s.Cluster(ctx, "demo")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got.Facts); d != "" {
			t.Error(d)
		}
		if !got.UpdatedAt.After(c.UpdatedAt) {
			t.Error("the record is as old as before")
		}
	}
	set(store.Fact{Kind: "host", Subject: "a/b"}, "one")
	set(store.Fact{Kind: "host", Subject: "c"}, "two")
	set(store.Fact{Kind: "host", Subject: "a/b"}, "three")
	set(store.Fact{Kind: "vip"}, "")
	set(store.Fact{Kind: "vip"}, "") // the second finds nothing, which is not an error
	c.Facts = store.Facts{}
	for i := range 450 { // more than one statement writes
		c.Facts[store.Fact{Kind: "host", Subject: fmt.Sprint(i)}] = "x"
	}
	if err := s.SaveCluster(ctx, c); err != nil {
		t.Fatal(err)
	}
	all, err := s.Clusters(ctx)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	if d := cmp.Diff([]store.Facts{c.Facts, other.Facts}, []store.Facts{all[0].Facts, all[1].Facts}); d != "" {
		t.Error(d)
	}
	testkit.Fails(t, fail.Whole(s.SetFact(ctx, "nobody-12345678", store.Fact{Kind: "a"}, "b")), fail.NotFound, "nobody", "demo")
}

// nextID: an ID can be foreseen, by this store alone, and is taken once.
func nextID(t *testing.T, at Opener, d Database) {
	s, ctx := at(""), t.Context()
	next := func(s store.Store) string {
		t.Helper()
		id, err := s.NextID(ctx, "demo", "")
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := next(s)
	if again := next(s); again != first {
		t.Errorf("it changed from %s to %s though it was not taken", first, again)
	}
	if next(d.New(t)("")) == first {
		t.Error("another store has the same")
	}
	c := newCluster(t, s, "demo")
	if c.ID != first {
		t.Errorf("foreseen was %s, it is %s", first, c.ID)
	}
	if second := next(s); second == first {
		t.Error("an ID that is taken is the next one, too")
	}
	if err := s.DeleteCluster(ctx, c.ID); err != nil {
		t.Fatal(err)
	}
	_, err := s.CreateCluster(ctx, store.Cluster{ID: first, Name: "demo"})
	testkit.Fails(t, err, fail.Conflict, "was destroyed")
	_, err = s.NextID(ctx, "demo", first)
	testkit.Fails(t, err, fail.Conflict, "was destroyed")
	if id := testkit.Value(s.NextID(ctx, "demo", "demo-12345678"))(t); id != "demo-12345678" {
		t.Errorf("wanted is an ID that is free, and the next one is %s", id)
	}
	for _, id := range []string{"other-12345678", "demo", "demo-1234567", "demo-1234567g", "demo-12345678\n"} {
		_, err := s.NextID(ctx, "demo", id)
		testkit.Fails(t, err, fail.Invalid, "is no ID of the cluster demo")
		_, err = s.CreateCluster(ctx, store.Cluster{ID: id, Name: "demo"})
		testkit.Fails(t, err, fail.Invalid, "is no ID of the cluster demo")
		_, err = s.ReviveCluster(ctx, store.Cluster{ID: id, Name: "demo"})
		testkit.Fails(t, err, fail.Invalid, "is no ID of the cluster demo")
	}
	_, err = s.ReviveCluster(ctx, store.Cluster{ID: "-12345678"})
	testkit.Fails(t, err, fail.Invalid, "is no ID")
	if c, err := s.CreateCluster(ctx, store.Cluster{ID: "demo-12345678", Name: "demo"}); err != nil || c.ID != "demo-12345678" {
		t.Errorf("%+v, %v", c, err)
	}
	_, err = s.ReviveCluster(ctx, store.Cluster{ID: first, Name: "demo"})
	testkit.Fails(t, err, fail.Conflict, "demo")
	if err := s.DeleteCluster(ctx, "demo-12345678"); err != nil {
		t.Fatal(err)
	}
	if c, err := s.ReviveCluster(ctx, store.Cluster{ID: first, Name: "demo", Facts: store.Facts{{Kind: "vip"}: "10.0.0.10"}}); err != nil || c.ID != first {
		t.Errorf("a cluster that comes back: %+v, %v", c, err)
	}
	if _, err := s.ReviveCluster(ctx, store.Cluster{ID: first, Name: "other"}); fail.KindOf(err) != fail.Invalid {
		t.Errorf("a cluster with the ID of another: %v", err)
	}
}

func secrets(t *testing.T, at Opener, d Database) {
	s, ctx := at(""), t.Context()
	c := newCluster(t, s, "demo")
	x := s.Secrets(c.ID)
	_, err := x.Get(ctx, "ca")
	testkit.Fails(t, err, fail.NotFound, "ca", c.ID)
	for _, v := range []string{"one", "two"} {
		if err := x.Put(ctx, "ca", []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := x.Get(ctx, "ca"); err != nil || string(v) != "two" {
		t.Errorf("%q, %v", v, err)
	}
	if v, err := x.PutIfAbsent(ctx, "ca", []byte("three")); err != nil || string(v) != "two" {
		t.Errorf("%q, %v", v, err)
	}
	if v, err := x.PutIfAbsent(ctx, "empty", nil); err != nil || len(v) != 0 {
		t.Errorf("%q, %v", v, err)
	}
	if names, err := x.Names(ctx); err != nil || !cmp.Equal(names, []string{"ca", "empty"}) {
		t.Errorf("%v, %v", names, err)
	}
	if err := x.Delete(ctx, "empty"); err != nil {
		t.Fatal(err)
	}
	testkit.Fails(t, x.Put(ctx, "", nil), fail.Invalid)
	testkit.Fails(t, fail.Whole(s.Secrets("nobody-12345678").Put(ctx, "ca", nil)), fail.NotFound, "nobody", "demo")

	other := at("") // reads through the disk, not the cached key
	if v, err := other.Secrets(c.ID).Get(ctx, "ca"); err != nil || string(v) != "two" {
		t.Errorf("%q, %v", v, err)
	}
	if err := s.DeleteCluster(ctx, c.ID); err != nil {
		t.Fatal(err)
	}
	_, err = x.Get(ctx, "ca")
	testkit.Fails(t, err, fail.NotFound)
}

func putIfAbsentHasOneWinner(t *testing.T, at Opener, d Database) {
	c := newCluster(t, at(""), "demo")
	var wg sync.WaitGroup
	got := make([]string, 8)
	for i := range got {
		s := at("")
		wg.Go(func() {
			v, err := s.Secrets(c.ID).PutIfAbsent(t.Context(), "ca", fmt.Append(nil, i))
			if err != nil {
				t.Error(err)
			}
			got[i] = string(v)
		})
	}
	wg.Wait()
	for _, v := range got {
		if v == "" || v != got[0] {
			t.Fatalf("different winners: %q", got)
		}
	}
}
