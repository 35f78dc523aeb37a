package store

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// pretend makes a store's process look like another one.
func pretend(s *Store, change func(h *holder)) *Store {
	change(&s.self)
	return s
}

func TestLeaseIsExclusiveAndRenewed(t *testing.T) {
	s := open(t, t.TempDir())
	c := newCluster(t, s, "demo")
	l, err := s.AcquireLease(t.Context(), c.ID, "apply", LeaseOptions{TTL: 1200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		_, err := s.AcquireLease(t.Context(), c.ID, "apply", LeaseOptions{})
		wantFail(t, err, fail.Conflict, "apply is running")
	}
	if err := l.Check(t.Context()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Release(ctx); err != nil { // also when the run was cancelled
		t.Fatal(err)
	}
	wantFail(t, l.Check(t.Context()), fail.Conflict, "lost")
	if ls, err := s.Leases(t.Context()); err != nil || len(ls) != 0 {
		t.Error(ls, err)
	}
	_, err = s.AcquireLease(t.Context(), "nobody-12345678", "apply", LeaseOptions{})
	wantFail(t, err, fail.NotFound, "nobody", "demo")
}

// TestLeaseOfAnotherHostEndsByExpiry takes over, after expiry only, from a holder whose process can't be seen.
func TestLeaseOfAnotherHostEndsByExpiry(t *testing.T) {
	dir := t.TempDir()
	far := pretend(open(t, dir), func(h *holder) { h.Host, h.Boot = "far", "another-boot" })
	near := open(t, dir)
	c := newCluster(t, near, "demo")
	l, err := far.AcquireLease(t.Context(), c.ID, "apply", LeaseOptions{TTL: 1500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l.cancel() // no more heartbeats, as when the host hangs
	<-l.done
	_, err = near.AcquireLease(t.Context(), c.ID, "apply", LeaseOptions{})
	wantFail(t, err, fail.Conflict, "@far", "when it expires")
	if ls, err := near.Leases(t.Context()); err != nil || ls[0].Alive != "unknown" {
		t.Error(ls, err)
	}
	select {
	case <-l.Lost():
	case <-time.After(10 * time.Second):
		t.Fatal("the holder was not told that its lease expired")
	}
	mine, err := near.AcquireLease(t.Context(), c.ID, "apply", LeaseOptions{})
	if err != nil || mine.Generation() != 2 {
		t.Fatal(mine, err)
	}
	wantFail(t, l.Check(t.Context()), fail.Conflict)
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

// TestLeaseTakenOverIsLost lets a heartbeat find another generation.
func TestLeaseTakenOverIsLost(t *testing.T) {
	s := open(t, t.TempDir())
	c := newCluster(t, s, "demo")
	l, err := s.AcquireLease(t.Context(), c.ID, "apply", LeaseOptions{TTL: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.log.Exec("UPDATE leases SET generation = generation + 1"); err != nil {
		t.Fatal(err)
	}
	if !l.beat(t.Context()) {
		t.Error("the heartbeat did not notice")
	}
	select {
	case <-l.Lost():
	default:
		t.Error("not told")
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestNothingIsWrittenAfterTakeover: a holder that was held up writes nothing over what the next one did, and another cluster is not
// concerned.
func TestNothingIsWrittenAfterTakeover(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	first, second := open(t, dir), open(t, dir)
	c, other := newCluster(t, first, "demo"), newCluster(t, first, "other")
	slow := pretend(first, func(h *holder) { h.Boot = "x" }) // nobody sees here whether it lives
	old := testkit.Value(slow.AcquireLease(ctx, c.ID, "apply", LeaseOptions{TTL: time.Millisecond}))(t)
	testkit.Must(t, slow.Secrets(c.ID).Put(ctx, "a", []byte("first")))
	old.cancel() // no more heartbeats: the process is held up
	var now *Lease
	testkit.Until(t, time.Minute, time.Millisecond, func() (err error) {
		now, err = second.AcquireLease(ctx, c.ID, "apply", LeaseOptions{})
		return err
	})
	late := *c
	late.Facts = map[string]string{"from": "first"}
	for what, err := range map[string]error{
		"its facts":     slow.SaveCluster(ctx, &late),
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
	late.Facts = map[string]string{"from": "second"}
	testkit.Must(t, second.SaveCluster(ctx, &late))
	testkit.Must(t, old.Release(ctx))
	if err := slow.Secrets(c.ID).Put(ctx, "a", []byte("later")); fail.KindOf(err) != fail.Conflict {
		t.Errorf("what still runs after the release: %v", err)
	}
	testkit.Must(t, now.Check(ctx))
	testkit.Must(t, now.Release(ctx))
	if got := testkit.Value(second.Cluster(ctx, "demo"))(t); got.Facts["from"] != "second" {
		t.Errorf("the facts are %v", got.Facts)
	}
	if v := testkit.Value(second.Secrets(c.ID).Get(ctx, "a"))(t); string(v) != "first" {
		t.Errorf("the secret is %q", v)
	}
	if names := testkit.Value(second.Secrets(c.ID).Names(ctx))(t); len(names) != 1 {
		t.Errorf("there are secrets %v", names)
	}
}

// TestLeaseOfForgottenCluster is how destroy ends: the cluster goes while its lease is held.
func TestLeaseOfForgottenCluster(t *testing.T) {
	s := open(t, t.TempDir())
	c := newCluster(t, s, "demo")
	l, err := s.AcquireLease(t.Context(), c.ID, "destroy", LeaseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteCluster(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	if !l.beat(t.Context()) {
		t.Error("heartbeats go on")
	}
	select {
	case <-l.Lost():
		t.Error("that is no loss")
	default:
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestHolderLives(t *testing.T) {
	me, err := whoAmI()
	if err != nil {
		t.Fatal(err)
	}
	if me.lives(me) != alive {
		t.Errorf("%+v does not live", me)
	}
	for name, tc := range map[string]struct {
		change func(h *holder)
		want   life
	}{
		"number used again":    {func(h *holder) { h.Start = "1" }, dead},
		"no such process":      {func(h *holder) { h.PID = 1 << 22 }, dead},
		"another boot":         {func(h *holder) { h.Boot = "x" }, unknown},
		"another namespace":    {func(h *holder) { h.PIDNS = "pid:[1]" }, unknown},
		"nothing known":        {func(h *holder) { h.Boot = "" }, unknown},
		"another name of host": {func(h *holder) { h.Host = "renamed" }, alive},
	} {
		h := me
		tc.change(&h)
		if got := h.lives(me); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
