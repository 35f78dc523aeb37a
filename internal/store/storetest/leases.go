package storetest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

func leaseIsExclusiveAndRenewed(t *testing.T, at Opener, d Database) {
	s := at("")
	c := newCluster(t, s, "demo")
	l, err := s.AcquireLease(t.Context(), c.ID, "apply", store.LeaseOptions{TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, err := s.AcquireLease(t.Context(), c.ID, "apply", store.LeaseOptions{})
		testkit.Fails(t, err, fail.Conflict, "apply is running")
	}
	if err := l.Check(t.Context()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Release(ctx); err != nil { // also when the run was cancelled
		t.Fatal(err)
	}
	testkit.Fails(t, l.Check(t.Context()), fail.Conflict, "lost")
	if ls, err := s.Leases(t.Context()); err != nil || len(ls) != 0 {
		t.Error(ls, err)
	}
	_, err = s.AcquireLease(t.Context(), "nobody-12345678", "apply", store.LeaseOptions{})
	testkit.Fails(t, fail.Whole(err), fail.NotFound, "nobody", "demo")
}

// leaseOfAnotherHostEndsByExpiry takes over, after expiry only, from a holder whose process can't be seen.
func leaseOfAnotherHostEndsByExpiry(t *testing.T, at Opener, d Database) {
	far := at("far")
	near := at("")
	c := newCluster(t, near, "demo")
	l, err := far.AcquireLease(t.Context(), c.ID, "apply", store.LeaseOptions{TTL: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	d.HoldUp(l) // as when the host hangs
	_, err = near.AcquireLease(t.Context(), c.ID, "apply", store.LeaseOptions{})
	testkit.Fails(t, fail.Whole(err), fail.Conflict, "@far", "when it expires")
	if ls, err := near.Leases(t.Context()); err != nil || ls[0].Alive != "unknown" {
		t.Error(ls, err)
	}
	select {
	case <-l.Lost():
	case <-time.After(10 * time.Second):
		t.Fatal("the holder was not told that its lease expired")
	}
	var mine store.Lease
	testkit.Until(t, 10*time.Second, time.Millisecond, func() (err error) { // the holder counts from before it asked, the database from later
		mine, err = near.AcquireLease(t.Context(), c.ID, "apply", store.LeaseOptions{})
		return err
	})
	if mine.Generation() != 2 {
		t.Fatalf("generation %d", mine.Generation())
	}
	testkit.Fails(t, l.Check(t.Context()), fail.Conflict)
	if err := l.Release(t.Context()); err != nil { // must not take the new holder's lease away
		t.Error(err)
	}
	if err := mine.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := mine.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// nothingIsWrittenAfterTakeover: a holder that was held up writes nothing over what the next one did, and another cluster is not
// concerned.
func nothingIsWrittenAfterTakeover(t *testing.T, at Opener, d Database) {
	ctx := t.Context()
	slow, second := at("far"), at("") // the one does not see whether the other lives
	c, other := newCluster(t, slow, "demo"), newCluster(t, slow, "other")
	old := testkit.Value(slow.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{TTL: time.Millisecond}))(t)
	testkit.Must(t, slow.Secrets(c.ID).Put(ctx, "a", []byte("first")))
	d.HoldUp(old)
	var now store.Lease
	testkit.Until(t, time.Minute, time.Millisecond, func() (err error) {
		now, err = second.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{})
		return err
	})
	late := *c
	late.Facts = store.Facts{{Kind: "from"}: "first"}
	for what, err := range map[string]error{
		"its facts":     slow.SaveCluster(ctx, &late),
		"a fact":        slow.SetFact(ctx, c.ID, store.Fact{Kind: "from"}, "first"),
		"a secret":      slow.Secrets(c.ID).Put(ctx, "a", []byte("late")),
		"a new secret":  func() error { _, err := slow.Secrets(c.ID).PutIfAbsent(ctx, "b", []byte("late")); return err }(),
		"a secret less": slow.Secrets(c.ID).Delete(ctx, "a"),
		"its end":       slow.DeleteCluster(ctx, c.ID),
	} {
		if fail.KindOf(err) != fail.Conflict || !strings.Contains(err.Error(), "the lease was lost") {
			t.Errorf("%s: %v", what, err)
		}
	}
	testkit.Must(t, slow.SaveCluster(ctx, other))
	late.Facts = store.Facts{{Kind: "from"}: "second"}
	testkit.Must(t, second.SaveCluster(ctx, &late))
	testkit.Must(t, old.Release(ctx))
	if err := slow.Secrets(c.ID).Put(ctx, "a", []byte("later")); fail.KindOf(err) != fail.Conflict {
		t.Errorf("what still runs after the release: %v", err)
	}
	testkit.Must(t, now.Check(ctx))
	testkit.Must(t, now.Release(ctx))
	if got := testkit.Value(second.Cluster(ctx, "demo"))(t); got.Facts[store.Fact{Kind: "from"}] != "second" {
		t.Errorf("the facts are %v", got.Facts)
	}
	if v := testkit.Value(second.Secrets(c.ID).Get(ctx, "a"))(t); string(v) != "first" {
		t.Errorf("the secret is %q", v)
	}
	if names := testkit.Value(second.Secrets(c.ID).Names(ctx))(t); len(names) != 1 {
		t.Errorf("there are secrets %v", names)
	}
}

// takeoverUnderWay has a holder write all the time while its lease is taken over: what it has written until then is there, and nothing
// comes after it.
func takeoverUnderWay(t *testing.T, at Opener, d Database) {
	ctx := t.Context()
	slow, second := at("far"), at("near")
	c := newCluster(t, slow, "demo")
	old := testkit.Value(slow.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{TTL: 100 * time.Millisecond}))(t)
	testkit.Must(t, slow.Secrets(c.ID).Put(ctx, "a", []byte("0"))) // while its lease is renewed: a slow disk may take longer than that lasts
	d.HoldUp(old)
	written := make(chan int, 1)
	go func() {
		n := 1
		for slow.Secrets(c.ID).Put(ctx, "a", fmt.Append(nil, n)) == nil {
			n++
		}
		written <- n
	}()
	var now store.Lease
	testkit.Until(t, time.Minute, time.Millisecond, func() (err error) {
		now, err = second.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{})
		return err
	})
	seen := testkit.Value(second.Secrets(c.ID).Get(ctx, "a"))(t)
	last := <-written - 1
	if v := testkit.Value(second.Secrets(c.ID).Get(ctx, "a"))(t); string(v) != string(seen) || string(v) != strconv.Itoa(last) {
		t.Errorf("the last that was acknowledged is %d; %s was found after the takeover, and %s later", last, seen, v)
	}
	testkit.Must(t, now.Release(ctx))
}

// manyRaceForTheLease: of several who take a lease at once, the first one of a cluster too, each generation is one's alone.
func manyRaceForTheLease(t *testing.T, at Opener, _ Database) {
	c := newCluster(t, at(""), "demo")
	var mu sync.Mutex
	var wg sync.WaitGroup
	holders, seen := 0, map[int64]bool{}
	count := func(n int, generation int64) {
		mu.Lock()
		defer mu.Unlock()
		if holders += n; holders > 1 || n > 0 && seen[generation] {
			t.Errorf("%d hold the lease, one as generation %d", holders, generation)
		}
		seen[generation] = true
	}
	for i := range 6 {
		s := at(fmt.Sprint("machine", i))
		wg.Go(func() {
			for range 5 {
				var l store.Lease
				testkit.Until(t, time.Minute, time.Millisecond, func() (err error) {
					l, err = s.AcquireLease(t.Context(), c.ID, "apply", store.LeaseOptions{})
					return err
				})
				count(1, l.Generation())
				count(-1, l.Generation())
				testkit.Must(t, l.Release(t.Context()))
			}
		})
	}
	wg.Wait()
	if len(seen) != 30 {
		t.Errorf("%d generations, want 30", len(seen))
	}
}
