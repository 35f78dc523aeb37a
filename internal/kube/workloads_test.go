package kube

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestWaitVanishedJob: a Job with a time to live that is gone has ended; any other that is absent is missing.
func TestWaitVanishedJob(t *testing.T) {
	set := fake.NewClientset()
	c := &Client{server: "https://fake", timeout: time.Second, set: set, watch: set}
	job := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "seed", "namespace": "shop"}, "spec": map[string]any{"ttlSecondsAfterFinished": int64(0)}}}
	if err := WaitObject(t.Context(), c, job); err != nil {
		t.Errorf("with a time to live: %v", err)
	}
	delete(job.Object, "spec")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := WaitObject(ctx, c, job); fail.KindOf(err) == fail.Internal || err == nil {
		t.Errorf("without: %v", err)
	}
}

// TestWaitPod: a hook's Pod must succeed. WaitObject waits for a running one, and a failed one is a permanent error.
func TestWaitPod(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]string{corev1.PodSucceeded: "", corev1.PodRunning: "it has not ended", corev1.PodFailed: "it failed"} {
		set := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "check", Namespace: "shop"}, Status: corev1.PodStatus{Phase: phase}})
		c := &Client{server: "https://fake", timeout: time.Second, set: set, watch: set}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := WaitObject(ctx, c, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "check", "namespace": "shop"}}})
		cancel()
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || fail.Waitable(err) == (phase == corev1.PodFailed)) {
			t.Errorf("%s: %v", phase, err)
		}
	}
}
