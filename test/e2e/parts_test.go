//go:build e2e

package e2e_test

import (
	"slices"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
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

// sampled returns n of the parts, in their order, each of which is left out where it is too late for it; with -full, all.
func sampled(t *testing.T, n int, all []part) (chosen []part) {
	t.Helper()
	var at []int
	for i := range all {
		at = append(at, i)
	}
	at = testkit.Sample(t, n, at)
	slices.Sort(at)
	for _, i := range at {
		p := all[i]
		chosen = append(chosen, part{p.name, func(t *testing.T, r *rig, l *load) {
			testkit.Timely(t, 2*time.Minute)
			p.do(t, r, l)
		}})
	}
	return chosen
}
