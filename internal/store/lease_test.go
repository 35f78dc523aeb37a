package store

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/store/process"
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
	me, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	if me.Lives(me) != process.Alive {
		t.Errorf("%+v does not live", me)
	}
	for name, tc := range map[string]struct {
		change func(h *process.ID)
		want   process.Life
	}{
		"number used again":    {func(h *process.ID) { h.Start = "1" }, process.Dead},
		"no such process":      {func(h *process.ID) { h.PID = 1 << 22 }, process.Dead},
		"another boot":         {func(h *process.ID) { h.Boot = "x" }, process.Unknown},
		"another namespace":    {func(h *process.ID) { h.PIDNS = "pid:[1]" }, process.Unknown},
		"nothing known":        {func(h *process.ID) { h.Boot = "" }, process.Unknown},
		"another name of host": {func(h *process.ID) { h.Host = "renamed" }, process.Alive},
	} {
		h := me
		tc.change(&h)
		if got := h.Lives(me); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
