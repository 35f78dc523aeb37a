package backup

import (
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

func TestKeep(t *testing.T) {
	// Newest first; 2026-11-23 is a Monday.
	ids := []string{"23T20", "23T10", "22T20", "22T10", "20T10", "15T10", "08T10", "01T10"}
	var sets []*Set
	for _, id := range ids {
		at := testkit.Value(time.Parse("2006-01-02T15", "2026-11-"+id))(t)
		sets = append(sets, &Set{Manifest: Manifest{ID: id, ClusterID: "demo-1", SHA256: id, CreatedAt: at}})
	}
	proven := func(i int) func() {
		return func() { sets[i].Proof = &Proof{ID: ids[i], SHA256: ids[i]} }
	}
	nothing := func() {}
	for _, c := range []struct {
		name   string
		keep   Keep
		before func()
		gone   string
	}{
		{"all", Keep{}, nothing, ""},
		{"last", Keep{Last: 3}, nothing, "01T10 08T10 15T10 20T10 22T10"},
		{"days", Keep{Days: 3}, nothing, "01T10 08T10 15T10 22T10 23T10"},
		{"weeks", Keep{Weeks: 3}, nothing, "01T10 08T10 20T10 22T10 23T10"}, // Sundays belong to the week before
		{"each", Keep{Last: 2, Days: 2, Weeks: 3}, nothing, "01T10 08T10 20T10 22T10"},
		{"more than there are", Keep{Last: 100}, nothing, ""},
		{"the proven one stays", Keep{Last: 1}, proven(5), "01T10 08T10 20T10 22T10 22T20 23T10"},
		{"the newest proven one", Keep{Last: 1}, proven(3), "01T10 08T10 15T10 20T10 22T20 23T10"},
	} {
		c.before()
		var gone []string
		for _, s := range c.keep.Expired(sets, "demo-1") {
			gone = append(gone, s.ID)
		}
		if got := strings.Join(gone, " "); got != c.gone {
			t.Errorf("%s: gone are %s, want %s", c.name, got, c.gone)
		}
	}
	sets[7].Problem, sets[6].ClusterID = "damaged", "demo-2"
	if got := (Keep{Last: 1}).Expired(sets, "demo-1"); len(got) != 4 || got[0].ID != "15T10" && got[0].ID != "20T10" {
		t.Errorf("of damaged and foreign ones %d go, %v", len(got), got[0].ID)
	}
}

func TestRemove(t *testing.T) {
	d := Directory(t.TempDir())
	to, _ := recipientOf(t)
	s := testkit.Value(Create(t.Context(), d, source(t, "demo", noon, to)))(t)
	testkit.Must(t, s.Prove(t.Context(), nil, "v1", noon))
	testkit.Must(t, s.Remove(t.Context()))
	testkit.Must(t, s.Remove(t.Context()))
	if left := testkit.Value(d.List(t.Context(), "demo"))(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
