package kube

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPausedRollout: a paused Deployment is complete with its present pods, if they are available; one that never had pods is complete without.
func TestPausedRollout(t *testing.T) {
	three := int32(3)
	for missing, s := range map[string]appsv1.DeploymentStatus{
		"":                        {Replicas: 3, AvailableReplicas: 3},
		"none":                    {},
		"1 of 3 pods available":   {Replicas: 3, AvailableReplicas: 1},
		"1 of 3 pods updated":     {Replicas: 1, AvailableReplicas: 1},
		"controller has not seen": {ObservedGeneration: -1, Replicas: 3, AvailableReplicas: 3},
	} {
		p := rollout(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{}, Spec: appsv1.DeploymentSpec{Paused: true, Replicas: &three}, Status: s})
		if missing == "none" {
			missing = ""
		}
		if (p.missing == "") != (missing == "") || !strings.Contains(p.missing, missing) {
			t.Errorf("%+v: %q, want %q", s, p.missing, missing)
		}
	}
}
