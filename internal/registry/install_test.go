package registry_test

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestHeard: a request for installation shows that a machine is on, whatever the answer; this is recorded now and then, not each time.
func TestHeard(t *testing.T) {
	s := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	t.Cleanup(func() { testkit.Must(t, s.Close()) })
	r := registry.New(s.Metal(), registry.Options{})
	testkit.Value(newSimulated(t, 1, false).send(t, r))(t)
	for _, c := range []struct {
		ago   time.Duration
		noted bool
	}{{time.Second, false}, {10 * time.Minute, true}} {
		at := time.Now().Add(-c.ago).UTC().Truncate(time.Microsecond)
		testkit.Value(s.Metal().Change(t.Context(), uuidOf(1), metal.How{}, func(d *metal.Draft) error { d.Seen = at; return nil }))(t)
		testkit.Must(t, r.Heard(t.Context(), testkit.Value(r.Machine(t.Context(), uuidOf(1)))(t)))
		if m := testkit.Value(r.Machine(t.Context(), uuidOf(1)))(t); m.Seen.Equal(at) == c.noted {
			t.Errorf("heard of %s ago: it is noted now: %t", c.ago, !c.noted)
		}
	}
}
