package kube

import (
	"context"
	"testing"
	"time"

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
