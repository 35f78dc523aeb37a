package cluster

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestChangesAreCompared: with what a cluster was last brought to, or else with what was applied last.
func TestChangesAreCompared(t *testing.T) {
	l := newLab(t, document(t, 1, 2, 1)).running(document(t, 1, 2, 1))
	refused := func(when string, fields ...string) {
		t.Helper()
		err := CheckChanges(l.rec, l.doc)
		if len(fields) == 0 {
			if err != nil {
				t.Errorf("%s: %v", when, err)
			}
			return
		}
		for _, f := range fields {
			if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), f+": can't change") {
				t.Errorf("%s: %s is not refused: %v", when, f, err)
			}
		}
	}
	refused("nothing is remembered")
	l.rec.Document = testkit.Value(l.doc.Marshal())(t)
	refused("the same document")
	l.doc.Spec.Endpoint.Kind, l.doc.Spec.Kubernetes.Version = v1alpha1.EndpointDirect, "v1.35.4"
	l.doc.Spec.Endpoint.Gateways = nil
	refused("another document", "spec.endpoint.kind", "spec.kubernetes.version")
	if _, err := l.PlanApply(t.Context()); fail.KindOf(err) != fail.Refused {
		t.Errorf("planned: %v", err)
	}
	testkit.Must(t, l.Converged(t.Context()))
	refused("brought to it")
	l.doc.Spec.Kubernetes.PodCIDR = "10.250.0.0/16"
	refused("the default is meant", "spec.kubernetes.podCIDR")
	testkit.Must(t, l.facts.Set(t.Context(), memory.Bootstrapped, ""))
	refused("the cluster never came up")
}
