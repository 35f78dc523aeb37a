package cluster

import (
	"context"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
)

// housed is a cloud of several places.
type housed struct {
	*cloud
	home string
	err  error
}

func (p *housed) Home(context.Context) (string, error) { return p.home, p.err }

// TestHomeIsSettledFirst: before anything is made it is remembered where, and planning alone remembers nothing.
func TestHomeIsSettledFirst(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	place := &housed{cloud: l.cloud, home: "project region", err: fail.New(fail.Unreachable, "no answer")}
	l.prov = place
	steps, err := l.infrastructure(t.Context(), l.observed(nil))
	if err != nil || len(steps) == 0 {
		t.Fatalf("%d steps: %v", len(steps), err)
	}
	if err := steps[0].Run(t.Context(), nil); err == nil || len(l.cloud.log) > 0 || l.facts.Get(memory.Home) != "" {
		t.Errorf("%v is made without a home (%q): %v", l.cloud.log, l.facts.Get(memory.Home), err)
	}
	place.err = nil
	if err := steps[0].Run(t.Context(), nil); err != nil || len(l.cloud.log) != 1 || l.facts.Get(memory.Home) != "project region" {
		t.Errorf("%v is made, home is %q: %v", l.cloud.log, l.facts.Get(memory.Home), err)
	}
}
