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

// live takes the cluster through parts of its life. Each starts from what the one before has left, so the first failure ends
// the test; the rig collects evidence of the cluster as it is then.
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
