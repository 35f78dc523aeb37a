package cluster

import (
	"sort"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider"
)

// slot is one machine that should exist.
type slot struct {
	Name  string
	Role  provider.Role
	Pool  string
	Index int
}

// assign says which machines should exist and which existing ones should go. Existing machines are kept, lowest index first
// (as numbers: 9 comes before 10), except those that are decided to go; new ones take the lowest free index. A machine that
// is decided to be replaced keeps its slot: it is wanted, and another machine will fill it.
// Where the document itself names the machines (provider hosts), they are taken from there.
func assign(doc *v1alpha1.Cluster, existing []provider.Machine, decided Decisions) (want []slot, remove []provider.Machine) {
	if doc.Spec.Provider.Hosts != nil {
		return assignHosts(doc, existing, decided)
	}
	left := map[string][]provider.Machine{}
	for _, m := range existing {
		m = recognise(doc, m)
		k := string(m.Role) + "/" + m.Pool
		left[k] = append(left[k], m)
	}
	for _, g := range groups(doc) {
		k := string(g.role) + "/" + g.pool
		keep, gone := g.fill(doc.Metadata.Name, left[k], decided)
		delete(left, k)
		want = append(want, keep...)
		remove = append(remove, gone...)
	}
	for _, ms := range left { // roles and pools that the document no longer has
		remove = append(remove, ms...)
	}
	sort.Slice(remove, func(i, j int) bool {
		if remove[i].Pool != remove[j].Pool {
			return remove[i].Pool < remove[j].Pool
		}
		return remove[i].Index > remove[j].Index
	})
	return want, remove
}

// recognise fills in what a half-made machine's provider could not tell: a create that was killed before it wrote anything
// down leaves a name alone. What such a name is for is clear where the document would use it.
func recognise(doc *v1alpha1.Cluster, m provider.Machine) provider.Machine {
	if m.Role != "" {
		return m
	}
	index, err := strconv.Atoi(m.Name[strings.LastIndexByte(m.Name, '-')+1:])
	if err != nil {
		return m
	}
	for _, g := range groups(doc) {
		if m.Name == v1alpha1.MachineName(doc.Metadata.Name, string(g.role), g.pool, index) {
			m.Role, m.Pool, m.Index = g.role, g.pool, index
		}
	}
	return m
}

// group is the machines of one role and pool that the document asks for.
type group struct {
	role     provider.Role
	pool     string
	replicas int
}

// groups lists what the document asks for, gateways first since the others are reached through them.
func groups(doc *v1alpha1.Cluster) []group {
	gs := []group{{role: provider.Gateway, replicas: doc.GatewayCount()}, {role: provider.ControlPlane, replicas: doc.Spec.ControlPlane.Replicas}}
	for _, w := range doc.Spec.Workers {
		gs = append(gs, group{role: provider.Worker, pool: w.Name, replicas: w.Count()})
	}
	return gs
}

// fill says which machines of one group should exist, by index, and which existing ones should go.
func (g group) fill(cluster string, have []provider.Machine, decided Decisions) (want []slot, gone []provider.Machine) {
	sort.Slice(have, func(i, j int) bool { return have[i].Index < have[j].Index })
	taken := map[int]bool{}
	for _, m := range have {
		taken[m.Index] = true
		if len(want) >= g.replicas || decided[m.Name] == Remove {
			gone = append(gone, m)
			continue
		}
		want = append(want, slot{Name: m.Name, Role: m.Role, Pool: m.Pool, Index: m.Index})
	}
	for i := 1; len(want) < g.replicas; i++ {
		if !taken[i] {
			name := v1alpha1.MachineName(cluster, string(g.role), g.pool, i)
			want = append(want, slot{Name: name, Role: g.role, Pool: g.pool, Index: i})
		}
	}
	sort.Slice(want, func(i, j int) bool { return want[i].Index < want[j].Index })
	return want, gone
}

// assignHosts takes the machines that the document names.
func assignHosts(doc *v1alpha1.Cluster, existing []provider.Machine, decided Decisions) (want []slot, remove []provider.Machine) {
	named := map[string]bool{}
	for _, m := range doc.Machines() {
		if decided[m.Name] != Remove {
			named[m.Name] = true
			want = append(want, slot{Name: m.Name, Role: provider.Role(m.Role), Pool: m.Pool, Index: m.Index})
		}
	}
	for _, m := range existing {
		if !named[m.Name] {
			remove = append(remove, m)
		}
	}
	return want, remove
}
