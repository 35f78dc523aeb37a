package queue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/queue"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestTake: of very many callers of one key a few have a place at a time, some wait, and the others are refused at once. Other keys are not held up.
func TestTake(t *testing.T) {
	const places, waiting, callers = 4, 32, 500
	q, ctx := queue.New(places, waiting), t.Context()
	var holding []func()
	for range places {
		holding = append(holding, testkit.Value(q.Take(ctx, "demo"))(t))
	}
	var inside, served, refused atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			done, err := q.Take(ctx, "demo")
			if errors.Is(err, queue.ErrFull) {
				refused.Add(1)
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n > places {
				t.Errorf("%d at once", n)
			}
			inside.Add(-1)
			served.Add(1)
			done()
		})
	}
	testkit.Until(t, time.Minute, time.Millisecond, testkit.That("the others are refused", func() bool { return refused.Load() == callers-waiting }))
	testkit.Value(q.Take(ctx, "other"))(t)()
	for _, done := range holding {
		done()
	}
	all.Wait()
	if served.Load() != waiting || q.Users("demo")+q.Users("other") != 0 {
		t.Errorf("%d have waited, %d and %d are left", served.Load(), q.Users("demo"), q.Users("other"))
	}
}

// TestTakeEnds: a caller whose context ends stops waiting, and leaves its place in the queue to the next one.
func TestTakeEnds(t *testing.T) {
	q := queue.New(1, 1)
	done := testkit.Value(q.Take(t.Context(), "demo"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := q.Take(ctx, "demo")
		waited <- err
	}()
	testkit.Until(t, time.Minute, time.Millisecond, testkit.That("it waits", func() bool { return q.Users("demo") == 2 }))
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := q.Users("demo"); n != 1 {
		t.Errorf("%d users", n)
	}
	done()
	testkit.Value(q.Take(t.Context(), "demo"))(t)()
}
