package turns

import (
	"testing"
	"time"
)

// TestAhead: a set from a clock that is ahead says nothing about the turns until then; clocks differ a little.
func TestAhead(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for later, want := range map[time.Duration]bool{-time.Hour: false, time.Minute: false, 9 * time.Hour: true, 365 * 24 * time.Hour: true} {
		if got := (Done{At: now.Add(later)}).Ahead(now); got != want {
			t.Errorf("made %s from now: %v", later, got)
		}
	}
}
