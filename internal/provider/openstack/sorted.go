package openstack

import "slices"

// sorted returns the strings in order, each once.
func sorted(s []string) []string {
	out := slices.Clone(s)
	slices.Sort(out)
	return slices.Compact(out)
}
