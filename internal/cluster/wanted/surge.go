package wanted

import (
	"maps"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider"
)

// Rolling describes the pools that are changed while they serve.
type Rolling struct {
	Away  map[string]int  // by pool: number of machines to take away one by one and bring back
	Going map[string]bool // serving machines that will be removed in any case: they go last
	Nodes map[string]bool // names that nodes have: no other machine gets one of these
}

// WithSurge returns the decisions with the extra machines for changed pools: at most spec.updates.maxSurge, and no more than are away in total.
// Machines that will be removed anyway count as extra ones. Earlier extra machines that are no longer useful are removed.
func (fs Decisions) WithSurge(doc *v1alpha1.Cluster, existing []provider.Machine, r Rolling) Decisions {
	out := fs.clone()
	exists := map[string]bool{}
	for _, m := range existing {
		exists[m.Name] = true
	}
	left := map[string]int{} // by pool: how many more it is to have
	_, remove := Assign(doc, existing, fs)
	for pool, n := range r.Away {
		left[pool] = min(doc.Spec.Updates.Surge(), n)
	}
	for _, m := range remove {
		if r.Going[m.Name] {
			left[m.Pool]--
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fs)) {
		if fs[name] != Surge {
			continue
		}
		g, err := GroupOf(doc, name)
		switch lost := r.Nodes[name] && !exists[name]; {
		case err == nil && left[g.Pool] > 0 && !lost:
			left[g.Pool]--
		case exists[name]:
			out[name] = Remove
		default:
			delete(out, name)
		}
	}
	for _, p := range doc.Spec.Workers {
		for i := 1; left[p.Name] > 0; i++ {
			name := v1alpha1.MachineName(doc.Metadata.Name, string(provider.Worker), p.Name, i)
			if !exists[name] && !r.Nodes[name] && !wants(doc, existing, out, name) {
				out[name] = Surge
				left[p.Name]--
			}
		}
	}
	return out
}

// wants reports whether a machine of a name is to exist.
func wants(doc *v1alpha1.Cluster, existing []provider.Machine, decided Decisions, name string) bool {
	want, _ := Assign(doc, existing, decided)
	return slices.ContainsFunc(want, func(s Slot) bool { return s.Name == name })
}
