package testkit

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestUntil(t *testing.T) {
	n := 0
	Until(t, time.Minute, time.Millisecond, func() error {
		if n++; n < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if n != 3 {
		t.Errorf("the condition was asked %d times", n)
	}
}

func TestUntilAsksOnceMoreWhenTheTimeIsOver(t *testing.T) {
	n := &note{TB: t}
	asked := 0
	twice := That("asked twice", func() bool { asked++; return asked == 2 })
	if Until(n, time.Millisecond, time.Hour, twice); asked != 2 || len(n.errs) > 0 {
		t.Errorf("the condition ran %d times, and the error is %q", asked, n.errs)
	}
	Until(n, time.Millisecond, time.Hour, twice)
	if want := []string{"not within 1ms: asked twice"}; !slices.Equal(n.errs, want) {
		t.Errorf("the error is %q, want %q", n.errs, want)
	}
}
