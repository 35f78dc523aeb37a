package store

import (
	"testing"
	"time"
)

// TestLeaseTakenOverIsLost: a lease is lost if a heartbeat finds another generation.
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
	if !l.(*lease).beat(t.Context()) {
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

// TestLeaseOfForgottenCluster: a cluster may be deleted while its lease is held, as destroy does.
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
	if !l.(*lease).beat(t.Context()) {
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
