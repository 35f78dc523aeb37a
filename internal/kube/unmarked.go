package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unmarked lists what Mark would change of a node, for people, such as "label tier: (none) -> web", sorted by kind and key. It is empty if and only if
// Marked returns true.
func Unmarked(n NodeInfo, m Marks) (differs []string) {
	before := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(n.Labels), Annotations: maps.Clone(n.Annotations)}}
	before.Spec.ProviderID = n.ProviderID
	for _, t := range n.Taints {
		before.Spec.Taints = append(before.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	after := before.DeepCopy()
	if !mark(after, m) {
		return nil
	}
	differs = append(changedKeys("label", before.Labels, after.Labels), changedKeys("taint", taints(before.Spec.Taints), taints(after.Spec.Taints))...)
	if before.Spec.ProviderID != after.Spec.ProviderID {
		differs = append(differs, "provider ID: (none) -> "+after.Spec.ProviderID)
	}
	if len(differs) == 0 { // the annotations that say what is ours
		differs = changedKeys("annotation", before.Annotations, after.Annotations)
	}
	if len(differs) == 0 {
		differs = []string{"taints: in another order"}
	}
	return differs
}

// taints returns taints by key and effect, which identify one.
func taints(all []corev1.Taint) map[string]string {
	out := map[string]string{}
	for _, t := range all {
		out[taintKey(t.Key, string(t.Effect))] = t.Value
	}
	return out
}

// changedKeys lists the keys whose values differ, sorted.
func changedKeys(kind string, before, after map[string]string) (out []string) {
	all := map[string]string{}
	maps.Copy(all, before)
	maps.Copy(all, after)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		was, had := before[k]
		is, has := after[k]
		if had && has && was == is {
			continue
		}
		out = append(out, fmt.Sprintf("%s %s: %s -> %s", kind, k, valueWords(was, had), valueWords(is, has)))
	}
	return out
}

// valueWords shows a value that may be absent or empty.
func valueWords(v string, there bool) string {
	switch {
	case !there:
		return "(none)"
	case strings.TrimSpace(v) == "":
		return `""`
	}
	return v
}
