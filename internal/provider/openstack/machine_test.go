package openstack

import (
	"testing"
	"time"
)

// TestZoneOfANewMachine: once a machine runs, its zone is known, which Nova tells only then. It is written down on the machine and decides
// which volumes it may have; the next run, which lists everything, must not find another one.
func TestZoneOfANewMachine(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	p := fakeProvider(t, f, doc, func(o *Options) { o.Timeouts.Poll = 20 * time.Millisecond }) // so that it is glanced at, too
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"t3-life-cp-1", "t3-life-w-1"} {
		if m, err := p.Machine(t.Context(), name); err != nil || m.Zone != "nova" {
			t.Errorf("%s is in zone %q: %v", name, m.Zone, err)
		}
	}
}
