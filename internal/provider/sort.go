package provider

import (
	"cmp"
	"slices"
	"strings"
)

// order is the order of roles: gateways first, because other machines are reached through them.
var order = []Role{Gateway, ControlPlane, Worker}

// Sort sorts machines as in an Inventory: by role, then by pool, index and name. Machines with an unknown role come last.
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
