package provider

import (
	"slices"
	"testing"
)

// TestSort: gateways come first, indexes count as numbers, and what is of no known role comes last.
func TestSort(t *testing.T) {
	all := []Machine{
		{Name: "half-made"}, {Name: "b-2", Role: Worker, Pool: "b", Index: 2}, {Name: "a-10", Role: Worker, Pool: "a", Index: 10},
		{Name: "cp-1", Role: ControlPlane, Index: 1}, {Name: "a-9", Role: Worker, Pool: "a", Index: 9}, {Name: "gw-2", Role: Gateway, Index: 2},
		{Name: "gw-1", Role: Gateway, Index: 1}, {Name: "a-9-twice", Role: Worker, Pool: "a", Index: 9},
	}
	Sort(all)
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	if want := []string{"gw-1", "gw-2", "cp-1", "a-9", "a-9-twice", "a-10", "b-2", "half-made"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}
