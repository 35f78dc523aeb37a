package cluster

import (
	"sync"
	"testing"

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
