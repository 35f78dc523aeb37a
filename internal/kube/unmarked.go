package kube

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/plan/delta"
)

// MarkDifferences lists the labels, taints and the provider ID of a node that Mark would change, sorted by kind and key. It is empty if and only if
// Marked returns true.
func MarkDifferences(n NodeInfo, m Marks) []delta.Delta {
	before := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(n.Labels), Annotations: maps.Clone(n.Annotations)}}
	before.Spec.ProviderID = n.ProviderID
	for _, t := range n.Taints {
		before.Spec.Taints = append(before.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	after := before.DeepCopy()
	if !mark(after, m) {
		return nil
	}
	was, order := taints(before.Spec.Taints)
	is, wanted := taints(after.Spec.Taints)
	all := append(changedKeys("label", before.Labels, after.Labels), changedKeys("taint", was, is)...)
	if before.Spec.ProviderID != after.Spec.ProviderID {
		all = append(all, delta.Value("provider", "ID", nil, &after.Spec.ProviderID))
	}
	if len(all) == 0 { // the annotations that record which labels and taints are Naupegos' own
		all = changedKeys("annotation", before.Annotations, after.Annotations)
	}
	if len(all) == 0 {
		all = []delta.Delta{delta.Value("taint", "order", &order, &wanted)}
	}
	return all
}

// Unmarked returns the lines of MarkDifferences, such as "label tier: (none) -> web".
func Unmarked(n NodeInfo, m Marks) (lines []string) {
	for _, d := range MarkDifferences(n, m) {
		lines = append(lines, d.Line())
	}
	return lines
}

// taints returns the values of taints by their identity (key and effect), and these identities in order.
func taints(all []corev1.Taint) (values map[string]string, order string) {
	values = map[string]string{}
	var names []string
	for _, t := range all {
		name := taintKey(t.Key, string(t.Effect))
		values[name] = t.Value
		names = append(names, name)
	}
	return values, strings.Join(names, ",")
}

// changedKeys lists the keys whose values differ, sorted.
func changedKeys(kind string, before, after map[string]string) (out []delta.Delta) {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, after)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		was, had := before[k]
		is, has := after[k]
		var from, to *string
		if had {
			from = &was
		}
		if has {
			to = &is
		}
		if had != has || was != is {
			out = append(out, delta.Value(kind, k, from, to))
		}
	}
	return out
}
