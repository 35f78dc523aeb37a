package testkit

import (
	"testing"
	"time"
)

// Until calls condition every interval until it returns nil. It ends the test with the condition's last error where that does not happen
// within limit.
func Until(t testing.TB, limit, interval time.Duration, condition func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("not within %v: %v", limit, err)
		case <-tick.C:
		}
	}
}

// Must ends the test where err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Value returns a function that returns its first argument, and ends the test where the second is not nil:
//
//	data := testkit.Value[[]byte](t)(os.ReadFile(name))
func Value[T any](t testing.TB) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
