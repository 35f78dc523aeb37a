package kube

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestRefusedPods: a workload whose pods the API refuses says why, in the words of the newest event about it.
func TestRefusedPods(t *testing.T) {
	now := time.Now()
	event := func(name, kind, object, message string, ago time.Duration) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Reason: "FailedCreate", Message: message, LastTimestamp: metav1.NewTime(now.Add(-ago)),
			InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "shop", Name: object},
		}
	}
	c := &Client{timeout: time.Minute, set: fake.NewClientset(
		event("a", "ReplicaSet", "web-5d4", "Error creating: old", time.Hour), event("b", "ReplicaSet", "web-5d4", "Error creating: exceeded quota", time.Minute),
		event("c", "ReplicaSet", "web-other-5d4", "of another Deployment", 0), event("d", "StatefulSet", "web", "Error creating: violates PodSecurity", 0),
	)}
	for kind, want := range map[string][]string{
		"Deployment": {"pods are refused: Error creating: exceeded quota"}, "StatefulSet": {"pods are refused: Error creating: violates PodSecurity"}, "DaemonSet": nil,
	} {
		if got := failedCreates(t.Context(), c, kind, "shop", "web"); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
	}
}
