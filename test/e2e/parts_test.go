//go:build e2e

package e2e_test

import (
	"testing"
	"time"
)

// part is a part of a cluster's life under a client.
type part struct {
	name string
	do   func(*testing.T, *rig, *load)
}

// live takes the cluster through parts of its life. Each part starts from the result of the previous one, so the first failure ends the test; the
// rig then collects evidence of the cluster's state.
func (r *rig) live(t *testing.T, l *load, parts []part) {
	t.Helper()
	for _, p := range parts {
		began := time.Now()
		ok := t.Run(p.name, func(t *testing.T) {
			outer := r.t
			r.t = t
			defer func() { r.t = outer }()
			p.do(t, r, l)
		})
		t.Logf("%s: %v", p.name, time.Since(began).Round(time.Second))
		if !ok {
			t.FailNow()
		}
	}
}
