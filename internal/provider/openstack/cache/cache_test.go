package cache

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

func same(s string) string { return s }

// TestCacheKeepsWhatIsNewerThanTheList: a list that began before something was made or deleted does not undo that.
func TestCacheKeepsWhatIsNewerThanTheList(t *testing.T) {
	var s *Cache[string]
	s = New(same, func(context.Context) ([]string, error) {
		s.Keep("made meanwhile")
		s.Drop("deleted meanwhile")
		return []string{"old", "deleted meanwhile"}, nil
	})
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.All(); !slices.Equal(got, []string{"old", "made meanwhile"}) {
		t.Errorf("%q", got)
	}
	s.list = func(context.Context) ([]string, error) { return []string{"old"}, nil }
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.All(); !slices.Equal(got, []string{"old"}) {
		t.Errorf("an item that a later list does not show is still known: %q", got)
	}
}

// TestCacheDoubt: only Invalidate makes Fresh read again, even if it is called while a list is being read.
func TestCacheDoubt(t *testing.T) {
	var s *Cache[string]
	asked, doubtful := 0, false
	s = New(same, func(context.Context) ([]string, error) {
		asked++
		if doubtful {
			s.Invalidate()
		}
		if asked == 1 {
			return nil, errors.New("no answer")
		}
		return nil, nil
	})
	ask := func(want int) {
		t.Helper()
		_ = s.Fresh(t.Context()) // counted below
		if asked != want {
			t.Fatalf("asked %d times, not %d", asked, want)
		}
	}
	ask(1) // fails
	ask(2)
	ask(2)
	s.Invalidate()
	doubtful = true
	ask(3)
	ask(4)
}

// TestCacheDoubtOutlivesAListUnderWay: after a doubt, fresh returns only with a list that began later, and has ended.
func TestCacheDoubtOutlivesAListUnderWay(t *testing.T) {
	var lists atomic.Int32
	begun, release := make(chan struct{}, 1), make(chan struct{})
	s := New(same, func(context.Context) ([]string, error) {
		if lists.Add(1) == 1 {
			begun <- struct{}{}
			<-release
			return nil, nil
		}
		return []string{"made, but the answer was lost"}, nil
	})
	s.Invalidate()
	ended := make(chan error)
	go func() { ended <- s.Load(t.Context()) }() // another step's
	<-begun
	if err := s.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(s.All()) != 1 {
		t.Error("fresh returned while the list that ends the invalidate was still under way")
	}
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if len(s.All()) != 1 {
		t.Error("a list that was overtaken undid the later one")
	}
}

// TestCacheNext: all waiters share one list, and a cancelled waiter cancels no other.
func TestCacheNext(t *testing.T) {
	var lists atomic.Int32
	release := make(chan struct{})
	s := New(same, func(ctx context.Context) ([]string, error) {
		lists.Add(1)
		select {
		case <-release:
			return []string{"x"}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	stopped, stop := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- s.Next(stopped, 0, nil) }()
	testkit.Until(t, time.Minute, time.Millisecond, testkit.That("the list is requested", func() bool { return lists.Load() > 0 }))
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() { errs[i] = s.Next(t.Context(), 0, nil) })
	}
	stop()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that was stopped: %v", err)
	}
	close(release)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if n := lists.Load(); n > 10 {
		t.Errorf("%d lists for 20 who waited at once", n)
	}
}

// TestCacheGlance: a list is made only where a probe shows enough news, and now and then whatever it shows.
func TestCacheGlance(t *testing.T) {
	lists, news, all := 0, false, false
	s := New(same, func(context.Context) ([]string, error) {
		lists++
		return nil, nil
	})
	check := func(context.Context, time.Time) (bool, bool, error) { return news, all, nil }
	next := func(pause time.Duration, want int, why string) {
		t.Helper()
		s.looked = time.Time{} // it is due
		if err := s.Next(t.Context(), pause, check); err != nil {
			t.Fatal(err)
		}
		if lists != want {
			t.Errorf("%s: %d lists, want %d", why, lists, want)
		}
	}
	next(time.Hour, 1, "never listed")
	next(time.Hour, 1, "no news")
	news = true
	next(time.Hour, 1, "news, soon after a list")
	s.listed = time.Now().Add(-4 * time.Hour)
	next(time.Hour, 2, "news, and the last list is old")
	all = true
	next(time.Hour, 3, "nothing more to come")
	news, all = false, false
	s.listed = time.Now().Add(-31 * time.Hour)
	next(time.Hour, 4, "no news for long")
}
