package wanted

import (
	"sort"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

// Group is the machines of one role and pool.
type Group struct {
	Role     provider.Role
	Pool     string // empty for control plane and gateways
	Replicas int    // that the document wants
}

// String names the group for messages.
func (g Group) String() string {
	switch g.Role {
	case provider.Worker:
		return "pool " + g.Pool
	case provider.Gateway:
		return "gateways"
	}
	return "control plane"
}

// groups returns the document's groups, gateways first because they are the way to the others.
func groups(doc *v1alpha1.Cluster) []Group {
	gs := []Group{{Role: provider.Gateway, Replicas: doc.GatewayCount()}, {Role: provider.ControlPlane, Replicas: doc.Spec.ControlPlane.Replicas}}
	for _, w := range doc.Spec.Workers {
		gs = append(gs, Group{Role: provider.Worker, Pool: w.Name, Replicas: w.Count()})
	}
	return gs
}

// fill returns the wanted machines of one group by index, and the existing ones to remove.
func (g Group) fill(cluster string, have []provider.Machine, decided Decisions) (want []Slot, gone []provider.Machine) {
	sort.Slice(have, func(i, j int) bool { return have[i].Index < have[j].Index })
	taken := map[int]bool{}
	for name, d := range decided {
		if i, ours := g.index(cluster, name); ours && d == Surge {
			taken[i] = true
			want = append(want, Slot{Name: name, Role: g.Role, Pool: g.Pool, Index: i, Surge: true})
		}
	}
	all := g.Replicas + len(want)
	for _, m := range have {
		if decided[m.Name] == Surge {
			continue
		}
		taken[m.Index] = true
		if len(want) >= all || decided[m.Name] == Remove {
			gone = append(gone, m)
			continue
		}
		want = append(want, Slot{Name: m.Name, Role: m.Role, Pool: m.Pool, Index: m.Index})
	}
	for i := 1; len(want) < all; i++ {
		if !taken[i] {
			name := v1alpha1.MachineName(cluster, string(g.Role), g.Pool, i)
			want = append(want, Slot{Name: name, Role: g.Role, Pool: g.Pool, Index: i})
		}
	}
	sort.Slice(want, func(i, j int) bool { return want[i].Index < want[j].Index })
	return want, gone
}

// index returns which of the group's machines has a name, if one would.
func (g Group) index(cluster, machine string) (int, bool) {
	prefix := strings.TrimSuffix(v1alpha1.MachineName(cluster, string(g.Role), g.Pool, 0), "0")
	index, ok := strings.CutPrefix(machine, prefix)
	n, err := strconv.Atoi(index)
	return n, ok && err == nil && n > 0
}

// GroupOf returns the document's group for a machine name, whether the machine exists or not.
func GroupOf(doc *v1alpha1.Cluster, machine string) (Group, error) {
	for _, g := range groups(doc) {
		if _, ours := g.index(doc.Metadata.Name, machine); ours {
			return g, nil
		}
	}
	return Group{}, fail.New(fail.NotFound, "cluster %s has no machine %s", doc.Metadata.Name, machine).
		Do("naupegos machine list %s shows them", doc.Metadata.Name)
}
