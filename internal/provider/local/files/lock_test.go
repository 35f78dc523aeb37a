package files

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestWaitingForALock: a cancelled waiter reports an interruption; a waiter whose deadline passes reports that another process holds the lock.
func TestWaitingForALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release := testkit.Value(Lock(t.Context(), path))(t)
	defer release()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, end := context.WithTimeout(t.Context(), time.Millisecond)
	defer end()
	for want, ctx := range map[fail.Kind]context.Context{fail.Interrupted: cancelled, fail.Conflict: late} {
		if _, err := Lock(ctx, path); fail.KindOf(err) != want {
			t.Errorf("want %s: %v", want, err)
		}
	}
}

func TestLockExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "lock")
	release, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	if _, err := Lock(ctx, path); fail.KindOf(err) != fail.Conflict {
		t.Errorf("taken twice: %v", err)
	}
	release()
	again, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
