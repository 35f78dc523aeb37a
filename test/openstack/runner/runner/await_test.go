package runner

import (
	"fmt"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// await waits until f returns nil, and logs how long that took.
func await(t *testing.T, atMost time.Duration, what string, f func() error) {
	t.Helper()
	took := testkit.Until(t, atMost, 50*time.Millisecond, func() error {
		if err := f(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
	t.Logf("%s: after %v", what, took.Round(10*time.Millisecond))
}
