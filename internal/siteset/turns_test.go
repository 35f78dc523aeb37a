package siteset

import (
	"context"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestTurns: the documents of one cluster take one of the two processes, and only so many of them wait.
func TestTurns(t *testing.T) {
	all := newTurns()
	first := testkit.Value(all.take(t.Context(), "a"))(t)
	waiting := make(chan error, mostWaiting)
	ctx, stop := context.WithCancel(t.Context())
	for range mostWaiting {
		go func() {
			done, err := all.take(ctx, "a")
			if err == nil {
				done()
			}
			waiting <- err
		}()
	}
	testkit.Until(t, time.Minute, time.Millisecond, testkit.That("all others wait", func() bool { return all.ofOne.Users("a") == mostWaiting+1 }))
	_, err := all.take(t.Context(), "a")
	testkit.Fails(t, err, fail.NotReady, "8 documents of cluster a wait")
	other := testkit.Value(all.take(t.Context(), "b"))(t) // at once, although others came before
	other()
	stop()
	for range mostWaiting {
		testkit.Fails(t, <-waiting, fail.Interrupted)
	}
	first()
	if n := all.ofOne.Users("a") + all.ofOne.Users("b"); n > 0 || len(all.all) > 0 {
		t.Errorf("%d documents and %d processes are left", n, len(all.all))
	}
}
