package bundle

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestAddedStays: remaking a bundle makes it the newest and keeps the time at which it was added.
func TestAddedStays(t *testing.T) {
	l := newLibrary(t)
	first := addBundle(t, l, "v1.36.3", "a")
	age(t, l, first, time.Hour)
	was := testkit.Value(l.Get(t.Context(), first.ID))(t).Added
	other := addBundle(t, l, "v1.36.3", "b")
	for range 2 {
		testkit.Value(l.register(t.Context(), first.Manifest))(t)
		all := testkit.Value(l.List(t.Context()))(t)
		if all[0].ID != first.ID || !all[0].Added.Equal(was) || !all[0].Latest.After(was) {
			t.Fatalf("added %s, latest %s; want added %s", all[0].Added, all[0].Latest, was)
		}
		age(t, l, other, 0)
	}
	testkit.Must(t, l.Remove(t.Context(), first.ID))
	if left := names(t, l.manifestDir()); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
}
