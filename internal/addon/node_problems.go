package addon

import (
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
)

// nodeConditions are the conditions of nodes that each monitor of the addon node-problem-detector keeps.
var nodeConditions = map[string][]string{"kernel": {"KernelDeadlock"}, "filesystem": {"ReadonlyFilesystem", "XfsShutdown"}, "hardware": {"CperHardwareErrorFatal"}}

// NodeConditions returns the types of the conditions that these monitors of node-problem-detector keep.
func NodeConditions(monitors []string) []string {
	var out []string
	for _, m := range monitors {
		out = append(out, nodeConditions[m]...)
	}
	return out
}

func nodeProblems(in Input, a v1alpha1.Addon) ([]byte, error) {
	ref, err := image(in.Bundle, catalogue.NodeProblems, a.Name)
	if err != nil {
		return nil, err
	}
	monitors := slices.Sorted(slices.Values(a.NodeProblemDetector.Monitors))
	has := map[string]bool{}
	for _, m := range monitors {
		has[m] = true
	}
	return render(a.Name, nodeProblemsManifest, map[string]any{"Image": ref, "Monitors": monitors, "Has": has, "Checksum": checksum([]byte(nodeProblemsManifest))}) // the monitors are arguments
}
