// Package wanted determines the machines that a document wants: slots with names, filled by existing or new machines, and decisions about single
// machines. It also edits a document's numbers of machines in place.
//
// It is pure: it uses only the document and the machines that it gets.
package wanted

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider"
)

// Slot is one machine that should exist.
type Slot struct {
	Name  string
	Role  provider.Role
	Pool  string
	Index int
	Surge bool // an extra machine of the pool, removed once the pool's own machines are changed
}

// IsControlPlane reports whether the machine runs the control plane.
func (s Slot) IsControlPlane() bool { return s.Role == provider.ControlPlane }

// Own returns the slots without extra machines.
func Own(slots []Slot) []Slot {
	return slices.DeleteFunc(slices.Clone(slots), func(s Slot) bool { return s.Surge })
}

// Names returns the names of slots, in their order.
func Names(slots []Slot) []string {
	names := make([]string, len(slots))
	for i, s := range slots {
		names[i] = s.Name
	}
	return names
}

// Relayed reports whether control-plane machines relay the gateways' adverts: there are several gateways.
func Relayed(slots []Slot) bool {
	gateways := 0
	for _, s := range slots {
		if s.Role == provider.Gateway {
			gateways++
		}
	}
	return gateways > 1
}

// Assign returns the wanted machines and the existing ones to remove. Existing machines are kept, lowest index first (as numbers: 9 comes before
// 10), except those with the decision to remove; new ones take the lowest free index. A machine with the decision to replace keeps its slot,
// which another machine will fill. An extra machine has a slot in addition to the document's. If the document lists the machines (provider
// hosts), they come from there.
func Assign(doc *v1alpha1.Cluster, existing []provider.Machine, decided Decisions) (want []Slot, remove []provider.Machine) {
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
		k := string(g.Role) + "/" + g.Pool
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

// recognise completes a partly created machine about which the provider knows only the name, because its creation was killed too early. The
// document determines the purpose of such a name.
func recognise(doc *v1alpha1.Cluster, m provider.Machine) provider.Machine {
	if m.Role != "" {
		return m
	}
	index, err := strconv.Atoi(m.Name[strings.LastIndexByte(m.Name, '-')+1:])
	if err != nil {
		return m
	}
	for _, g := range groups(doc) {
		if m.Name == v1alpha1.MachineName(doc.Metadata.Name, string(g.Role), g.Pool, index) {
			m.Role, m.Pool, m.Index = g.Role, g.Pool, index
		}
	}
	return m
}

// assignHosts takes the machines that the document names.
func assignHosts(doc *v1alpha1.Cluster, existing []provider.Machine, decided Decisions) (want []Slot, remove []provider.Machine) {
	named := map[string]bool{}
	for _, m := range doc.Machines() {
		if decided[m.Name] != Remove {
			named[m.Name] = true
			want = append(want, Slot{Name: m.Name, Role: provider.Role(m.Role), Pool: m.Pool, Index: m.Index})
		}
	}
	for _, m := range existing {
		if !named[m.Name] {
			remove = append(remove, m)
		}
	}
	return want, remove
}
