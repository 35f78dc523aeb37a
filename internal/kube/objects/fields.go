package objects

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// keeper is the field manager of the replicas that a workload keeps when its set no longer says how many: an autoscaler takes over from there, not from one.
const keeper = "naupegos-replicas"

// scaled reports whether a workload's number of replicas, which the set said so far, leaves the set, and returns the number.
func scaled(u, live *unstructured.Unstructured) (int64, bool) {
	if live == nil || u.GetKind() != "Deployment" && u.GetKind() != "StatefulSet" {
		return 0, false
	}
	n, found, _ := unstructured.NestedInt64(live.Object, "spec", "replicas")
	if _, said, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "replicas"); said || !found {
		return 0, false
	}
	for _, m := range live.GetManagedFields() {
		if m.Manager == FieldManager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "" {
			return n, claims(m, "spec", "replicas")
		}
	}
	return 0, false
}

// keepReplicas lets a workload keep its number of replicas.
func (c *Applier) keepReplicas(ctx context.Context, r dynamic.ResourceInterface, u, live *unstructured.Unstructured) error {
	n, yes := scaled(u, live)
	if !yes {
		return nil
	}
	kept := &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "spec": map[string]any{"replicas": n}}}
	kept.SetName(u.GetName())
	kept.SetNamespace(u.GetNamespace())
	_, err := r.Apply(ctx, u.GetName(), kept, metav1.ApplyOptions{FieldManager: keeper, Force: true})
	return err
}

// claims reports whether an entry of managed fields has the field at a path, or fields below it.
func claims(m metav1.ManagedFieldsEntry, path ...string) bool {
	var fields map[string]any
	if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.Raw, &fields) != nil {
		return false
	}
	for i, name := range path {
		below, found := fields["f:"+name]
		if !found || i == len(path)-1 {
			return found
		}
		fields, _ = below.(map[string]any)
	}
	return false
}
