package testkit

import (
	"errors"
	"testing"
	"time"
)

// Until calls condition every interval until it returns nil, and returns how long that took. If that does not happen within limit, it ends the test
// with the condition's last error. It calls condition once more after the limit, in case a busy host delayed the test. For a condition that is a
// bool, see That.
func Until(t testing.TB, limit, interval time.Duration, condition func() error) time.Duration {
	t.Helper()
	began := time.Now()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for over := false; ; {
		err := condition()
		if err == nil {
			return time.Since(began)
		}
		if over {
			t.Fatalf("not within %v: %v", limit, err)
			return 0
		}
		select {
		case <-deadline.C:
			over = true
		case <-tick.C:
		}
	}
}

// That turns a bool into a condition for Until; what describes it in words, as in "cp-1 is left out".
func That(what string, holds func() bool) func() error {
	missing := errors.New(what)
	return func() error {
		if holds() {
			return nil
		}
		return missing
	}
}
