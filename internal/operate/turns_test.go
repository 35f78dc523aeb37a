package operate

import (
	"context"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestTurns: a few sessions at a time read one cluster. One that stops waiting may try again, and sessions of other clusters are not held up.
func TestTurns(t *testing.T) {
	o := Options{Turns: NewTurns()}
	for range readAtOnce {
		testkit.Value(o.turn(t.Context(), "demo"))(t)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := o.turn(ended, "demo")
	testkit.Fails(t, err, fail.NotReady, "4 requests read the cluster already")
	testkit.Value(o.turn(t.Context(), "other"))(t)()
}
