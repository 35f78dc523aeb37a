package provider

import (
	"cmp"
	"slices"
	"strings"
)

// order is that of roles: gateways first, since the others are reached through them.
var order = []Role{Gateway, ControlPlane, Worker}

// Sort puts machines into the order of an Inventory: by role, and within it by pool, index and name. Those without a known role come last.
func Sort(all []Machine) {
	rank := func(r Role) int {
		if i := slices.Index(order, r); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortFunc(all, func(a, b Machine) int {
		return cmp.Or(cmp.Compare(rank(a.Role), rank(b.Role)), strings.Compare(a.Pool, b.Pool), cmp.Compare(a.Index, b.Index), strings.Compare(a.Name, b.Name))
	})
}
