package cluster

import (
	"context"
	"sync"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestLooksAtOnce has one look at the provider while others ask for what it finds, as status --watch and a step do: for go test -race.
func TestLooksAtOnce(t *testing.T) {
	doc := document(t, 3, 2, 1)
	l := newLab(t, doc).running(doc)
	testkit.Must(t, l.loadTarget(t.Context()))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := l.observeInventory(t.Context(), nil); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if n := len(l.namesOf(provider.ControlPlane)); n != 3 {
				t.Errorf("%d control-plane machines", n)
			}
			if _, err := l.addresses(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestStrangers wants apply to look again where a provider tells new machines' addresses only when they are made, for the
// configurations of the machines that are there name them.
func TestStrangers(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 2)).running(document(t, 1, 0, 1))
	o := l.observed(nil, controlPlanes(1)...)
	if !l.addressesPending(t.Context(), o) {
		t.Error("a new machine's address is taken for known")
	}
	if _, err := l.infrastructure(t.Context(), o); err != nil { // from here on it is, as a local machine's
		t.Fatal(err)
	}
	if l.addressesPending(t.Context(), o) {
		t.Error("apply would look again for nothing")
	}
}

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
