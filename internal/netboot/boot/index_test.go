package boot

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// plainly finds the member for labels by comparing all members.
func plainly(members map[string]*member, labels map[string]string) *member {
	var best *member
	for _, m := range members {
		matches := true
		for k, v := range m.group.Selector {
			matches = matches && labels[k] == v
		}
		if matches && (best == nil || m.before(best)) {
			best = m
		}
	}
	return best
}

// randomLabels chooses from few labels and values, so that many are equal.
func randomLabels(r *rand.Rand) map[string]string {
	labels := map[string]string{}
	for range r.IntN(5) {
		labels[[]string{"a", "b", "c", "d", "1:"}[r.IntN(5)]] = []string{"", "x", "y", "1:x", "z"}[r.IntN(5)]
	}
	return labels
}

// TestIndexFindsWhatAPlainLookFinds adds and removes random groups and compares the index with a linear search.
func TestIndexFindsWhatAPlainLookFinds(t *testing.T) {
	r := testkit.Rand(t)
	x, members := newIndex(), map[string]*member{}
	for i := range 3000 {
		if place := fmt.Sprint(r.IntN(60)); members[place] != nil && r.IntN(2) == 0 {
			x.remove(members[place])
			delete(members, place)
		} else if members[place] == nil {
			members[place] = newMember(place, Group{Selector: randomLabels(r)})
			x.add(members[place])
		}
		labels := randomLabels(r)
		if got, want := x.find(labels), plainly(members, labels); got != want {
			t.Fatalf("round %d: %v: found %+v, not %+v", i, labels, got, want)
		}
	}
	for place, m := range members {
		x.remove(m)
		delete(members, place)
	}
	if len(x.shapes)+len(x.anchored)+len(x.free) != 0 {
		t.Errorf("the index is not empty without groups: %+v", x)
	}
}

// TestIndexDoesNotLookAtAll checks that a lookup costs the same for many machines as for one, whether they have labels of their own or share
// some.
func TestIndexDoesNotLookAtAll(t *testing.T) {
	allocs := map[int]float64{}
	for _, n := range []int{1, 2000} {
		x := newIndex()
		for i := range n {
			x.add(newMember(fmt.Sprint(i), Group{Selector: map[string]string{"os": "installed", "mac": fmt.Sprint(i)}}))
			x.add(newMember(fmt.Sprint("rack", i), Group{Selector: map[string]string{"rack": fmt.Sprint(i / 100), "place": fmt.Sprint(i % 100)}}))
			x.add(newMember(fmt.Sprint("own", i), Group{Selector: map[string]string{fmt.Sprint("own", i): "x"}}))
		}
		labels := map[string]string{"os": "installed", "mac": "0", "rack": "0", "place": "0", "own0": "x"}
		looked := 0
		for l := range labels {
			looked += len(x.anchored[l])
		}
		if looked > 4 {
			t.Errorf("with %d groups %d shapes are looked at", n, looked)
		}
		allocs[n] = testing.AllocsPerRun(100, func() { x.find(labels) })
	}
	if allocs[2000] != allocs[1] {
		t.Errorf("allocations by number of groups: %v", allocs)
	}
}

func TestSecondGroupOfTheSameLabels(t *testing.T) {
	c := NewCatalog()
	problems := c.Replace(Config{
		Profiles: map[string]Profile{"p": {ID: "p"}},
		Groups: map[string]Group{
			"b": {ID: "b", Profile: "p", Selector: map[string]string{"mac": "52-54-00-00-00-01"}},
			"a": {ID: "a", Profile: "p", Selector: map[string]string{"mac": "52:54:00:00:00:01"}},
		},
	})
	if g, ok := c.Select(map[string]string{"mac": "52:54:00:00:00:01"}); !ok || g.ID != "a" {
		t.Errorf("the group is %+v", g)
	}
	if len(problems) != 1 || problems[0].File != "groups/b.json" {
		t.Errorf("the problems are %v", problems)
	}
	c.Remove("a")
	if g, _ := c.Select(map[string]string{"mac": "52:54:00:00:00:01"}); g.ID != "b" {
		t.Errorf("without it the group is %+v", g)
	}
	testkit.Must(t, c.Put("b", Group{ID: "other"}))
	if g, _ := c.Select(nil); g.ID != "other" || c.Len() != 1 {
		t.Errorf("put again it is %+v of %d", g, c.Len())
	}
	if err := c.Put("c", Group{Selector: map[string]string{"Mac": "x"}}); err == nil {
		t.Error("a group with a bad MAC address was accepted")
	}
}

// FuzzSelect looks up arbitrary labels and compares the index with a linear search.
func FuzzSelect(f *testing.F) {
	f.Add("mac=52-54-00-aa-bb-01&os=installed", `{"selector": {"mac": "52:54:00:aa:bb:01"}}`)
	f.Add("a=%00&a=b&;=&mac=zz", `{"selector": {"a": "\u0000", "b": ""}}`)
	f.Fuzz(func(t *testing.T, query, group string) {
		x, members := newIndex(), map[string]*member{}
		labels := Labels(first(url.ParseQuery(query)))
		for _, g := range []Group{first(ParseGroup([]byte(group))), {}, {Selector: labels}, {Selector: map[string]string{"os": "installed"}}} {
			m := newMember(fmt.Sprint(len(members)), g)
			members[m.place] = m
			x.add(m)
		}
		if got, want := x.find(labels), plainly(members, labels); got != want {
			t.Fatalf("%q: found %+v, not %+v", query, got, want)
		}
		for _, k := range slices.Sorted(maps.Keys(labels)) {
			if isMAC(k) && len(labels[k]) < 17 {
				t.Fatalf("%q is taken for a MAC address", labels[k])
			}
		}
	})
}

func first[T any](v T, _ error) T { return v }
