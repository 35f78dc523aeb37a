package nodes

import (
	"slices"

	"github.com/naupegos/naupegos/internal/plan"
)

// InitialStep is the ID of the step that fixes the initial members of etcd.
const InitialStep = "etcd/initial"

// APIStep is the ID of the step that waits for the API.
const APIStep = "api"

// InitializedStep is the ID of the step that waits until the cloud's controller has set every node's addresses and zone.
const InitializedStep = "cloud/nodes"

// IDs returns the steps' IDs.
func IDs(steps []*plan.Step) []string {
	var out []string
	for _, s := range steps {
		out = append(out, s.ID)
	}
	return out
}

// IDsOf returns the IDs that f gives to names.
func IDsOf(f func(string) string, names []string) []string {
	out := slices.Clone(names)
	for i, n := range names {
		out[i] = f(n)
	}
	return out
}

// HealthID is the ID of the step that waits until a machine serves again.
func HealthID(name string) string { return "health/" + name }
