package operate

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestTurns: of very many requests a few read one cluster at a time, some wait, the others are refused at once; other clusters are not held up.
func TestTurns(t *testing.T) {
	turns, ctx := NewTurns(), t.Context()
	var holding []func()
	for range readAtOnce {
		holding = append(holding, testkit.Value(turns.take(ctx, "demo"))(t))
	}
	var reading, refused atomic.Int64
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() {
			done, err := turns.take(ctx, "demo")
			if err != nil {
				refused.Add(1)
				testkit.Fails(t, err, fail.NotReady, "requests read the cluster already")
				return
			}
			if n := reading.Add(1); n > readAtOnce {
				t.Errorf("%d read at once", n)
			}
			reading.Add(-1)
			done()
		})
	}
	testkit.Until(t, time.Minute, time.Millisecond, testkit.That("the others are refused", func() bool { return refused.Load() == 500-readWaiting }))
	testkit.Value(turns.take(ctx, "other"))(t)()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := turns.take(ended, "demo")
	testkit.Fails(t, err, fail.NotReady)
	for _, done := range holding {
		done()
	}
	all.Wait()
	if reading.Load() != 0 || len(turns.of) != 0 {
		t.Errorf("%d read, and %d clusters are remembered", reading.Load(), len(turns.of))
	}
}
