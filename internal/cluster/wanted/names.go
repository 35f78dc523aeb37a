package wanted

import (
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider"
)

// MachineNamed returns the full name of the document's machine that name means: name itself, or the machine that name lacks only the
// cluster's name of (cp-1 for demo-cp-1). It returns every other name unchanged.
func MachineNamed(doc *v1alpha1.Cluster, name string) string {
	full := doc.Metadata.Name + "-" + name
	if RoleOf(doc, name) == "" && RoleOf(doc, full) != "" {
		return full
	}
	return name
}

// RoleOf returns the role that the document gives to a machine's name, whether the machine exists or not; empty: none.
func RoleOf(doc *v1alpha1.Cluster, machine string) provider.Role {
	if doc.Spec.Provider.Hosts != nil {
		for _, m := range doc.Machines() {
			if m.Name == machine {
				return provider.Role(m.Role)
			}
		}
		return ""
	}
	g, err := GroupOf(doc, machine)
	if err != nil {
		return ""
	}
	return g.Role
}
