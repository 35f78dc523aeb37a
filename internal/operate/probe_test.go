package operate

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// TestProbe counts requests and failures, and measures how long the API did not answer. It asks no more often than it may, and ends with its context.
func TestProbe(t *testing.T) {
	var asked, fresh atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	p := &probe{every: time.Millisecond, fresh: func() { fresh.Add(1) }, ask: func(ctx context.Context) error {
		switch n := asked.Add(1); {
		case n > 5 && n <= 8:
			time.Sleep(20 * time.Millisecond) // a server that answers late, with an error
			return errors.New("no")
		case n == 40:
			cancel()
			return ctx.Err()
		}
		return nil
	}}
	done := make(chan struct{})
	go func() { defer close(done); p.run(ctx) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the probe goes on after its context")
	}
	e := p.counted()
	if e.Requests != 39 || e.Failed != 3 || e.LongestMS < 60 || fresh.Load() < 3 {
		t.Errorf("%+v, %d fresh connections; want 39 requests, 3 of them failed, 60 ms or more", e, fresh.Load())
	}
}

// TestProbeOutage: an API that answers nothing until the end was away for all that time.
func TestProbeOutage(t *testing.T) {
	p := &probe{ask: func(context.Context) error { time.Sleep(10 * time.Millisecond); return errors.New("no") }}
	for range 4 {
		p.once(t.Context())
	}
	if e := p.counted(); e.Failed != 4 || e.LongestMS < 40 {
		t.Errorf("%+v, want 4 failures over 40 ms", e)
	}
}

// TestRestarted counts pods, not restarts, and none that came or went meanwhile.
func TestRestarted(t *testing.T) {
	before := map[string]int{"same": 3, "twice": 0, "gone": 1}
	if n := restarted(before, map[string]int{"same": 3, "twice": 2, "new": 1}); n != 1 {
		t.Errorf("%d, want 1", n)
	}
}
