package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/naupegos/naupegos/internal/fail"
)

// Annotations of a node that record what on it is ours: labels and taints, so that obsolete ones can be removed, and that it was cordoned for a
// change of its machine, so that it is uncordoned afterwards, and only then.
const (
	OwnedLabels = "naupegos.dev/owned-labels" // keys, comma-separated, sorted
	OwnedTaints = "naupegos.dev/owned-taints" // "key:effect", comma-separated, sorted
	OwnedCordon = "naupegos.dev/owned-cordon" // "true"
)

// Marks are the labels, the taints and the provider ID that a pool wants on its nodes.
type Marks struct {
	Labels map[string]string
	Taints []Taint
	// ProviderID is the machine's name at its provider. A node's ID never changes. Empty: none is set.
	ProviderID string
}

// Mark sets these labels and taints on a node and removes those that an earlier Mark set and that are no longer wanted. Labels and taints
// that others set stay. It reports whether anything changed.
func (c *Client) Mark(ctx context.Context, node string, m Marks) (bool, error) {
	changed := false
	err := c.change(ctx, node, func(n *corev1.Node) { changed = mark(n, m) })
	return changed && err == nil, err
}

// Marked reports whether Mark would change nothing.
func Marked(n NodeInfo, m Marks) bool { return len(MarkDifferences(n, m)) == 0 }

// Cordon keeps new pods off a node until Uncordon. The caller must uncordon the node from now on, even if OwnedCordon assigned that to Naupegos. A
// node that is already cordoned is not an error.
func (c *Client) Cordon(ctx context.Context, node string) error {
	return c.change(ctx, node, func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		delete(n.Annotations, OwnedCordon)
	})
}

// cordonForUs keeps new pods away from a node and annotates it with OwnedCordon, unless the node is cordoned already.
func (c *Client) cordonForUs(ctx context.Context, node string) error {
	return c.change(ctx, node, func(n *corev1.Node) {
		if n.Spec.Unschedulable {
			return
		}
		n.Spec.Unschedulable = true
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, OwnedCordon, "true")
	})
}

// Uncordon lets new pods onto a node again. A node that is not cordoned is not an error.
func (c *Client) Uncordon(ctx context.Context, node string) error {
	return c.change(ctx, node, func(n *corev1.Node) {
		n.Spec.Unschedulable = false
		delete(n.Annotations, OwnedCordon)
	})
}

// conflicts bounds how often, and after which pauses, a change is tried again because another client changed the node meanwhile: kubelet, the
// controllers and the cloud's controller all write a node that has just joined. The pauses add up to about 6 s.
var conflicts = wait.Backoff{Steps: 9, Duration: 20 * time.Millisecond, Factor: 2, Jitter: 0.5}

// change gets a node, edits it and sends the difference, if any.
func (c *Client) change(ctx context.Context, name string, edit func(n *corev1.Node)) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, conflicts, func(ctx context.Context) (done bool, err error) {
		if last = c.changeOnce(ctx, name, edit); fail.KindOf(last) == fail.Conflict {
			return false, nil
		}
		return true, last
	})
	if wait.Interrupted(err) && last != nil {
		return last
	}
	return err
}

func (c *Client) changeOnce(ctx context.Context, name string, edit func(n *corev1.Node)) error {
	n, err := c.set.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return apiError(ctx, err, "get node %s", name).At(c.server)
	}
	patch, err := nodePatch(n, edit)
	if err != nil || patch == nil {
		return err
	}
	if _, err := c.set.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}); err != nil {
		return apiError(ctx, err, "change node %s", name).At(c.server)
	}
	return nil
}

// nodePatch renders the merge patch for an edit, bound to the version that was read; nil if nothing changes.
func nodePatch(n *corev1.Node, edit func(n *corev1.Node)) ([]byte, error) {
	after := n.DeepCopy()
	edit(after)
	metadata, spec := map[string]any{}, map[string]any{}
	if d := difference(n.Labels, after.Labels); d != nil {
		metadata["labels"] = d
	}
	if d := difference(n.Annotations, after.Annotations); d != nil {
		metadata["annotations"] = d
	}
	if n.Spec.Unschedulable != after.Spec.Unschedulable {
		spec["unschedulable"] = after.Spec.Unschedulable
	}
	if n.Spec.ProviderID != after.Spec.ProviderID {
		spec["providerID"] = after.Spec.ProviderID
	}
	if !sameTaints(n.Spec.Taints, after.Spec.Taints) {
		spec["taints"] = after.Spec.Taints
	}
	if len(metadata)+len(spec) == 0 {
		return nil, nil
	}
	metadata["resourceVersion"] = n.ResourceVersion
	patch := map[string]any{"metadata": metadata}
	if len(spec) > 0 {
		patch["spec"] = spec
	}
	out, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("change node %s: %w", n.Name, err)
	}
	return out, nil
}

// difference returns a merge patch from one map to another, in which nil values remove keys, or nil if the maps are equal.
func difference(from, to map[string]string) map[string]any {
	d := map[string]any{}
	for k := range from {
		if _, ok := to[k]; !ok {
			d[k] = nil
		}
	}
	for k, v := range to {
		if old, ok := from[k]; !ok || old != v {
			d[k] = v
		}
	}
	if len(d) == 0 {
		return nil
	}
	return d
}

func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Taint) bool { return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect })
}

// mark edits a node and reports whether that changed anything.
func mark(n *corev1.Node, m Marks) bool {
	before := n.DeepCopy()
	for _, k := range split(n.Annotations[OwnedLabels]) {
		if _, wanted := m.Labels[k]; !wanted {
			delete(n.Labels, k)
		}
	}
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	maps.Copy(n.Labels, m.Labels)
	owned := split(n.Annotations[OwnedTaints])
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return slices.Contains(owned, taintKey(t.Key, string(t.Effect))) && !slices.ContainsFunc(m.Taints, same(t))
	})
	ours := []string{}
	for _, t := range m.Taints {
		ours = append(ours, taintKey(t.Key, t.Effect))
		want := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
		if i := slices.IndexFunc(n.Spec.Taints, func(h corev1.Taint) bool { return same(h)(t) }); i < 0 {
			n.Spec.Taints = append(n.Spec.Taints, want)
		} else if n.Spec.Taints[i].Value != t.Value {
			n.Spec.Taints[i] = want
		}
	}
	own(n, OwnedLabels, slices.Collect(maps.Keys(m.Labels)))
	own(n, OwnedTaints, ours)
	if n.Spec.ProviderID == "" {
		n.Spec.ProviderID = m.ProviderID
	}
	return before.Spec.ProviderID != n.Spec.ProviderID || difference(before.Labels, n.Labels) != nil || difference(before.Annotations, n.Annotations) != nil || !sameTaints(before.Spec.Taints, n.Spec.Taints)
}

// same matches a taint by key and effect: a node can't have two of these.
func same(h corev1.Taint) func(Taint) bool {
	return func(t Taint) bool { return t.Key == h.Key && t.Effect == string(h.Effect) }
}

func taintKey(key, effect string) string { return key + ":" + effect }

// own writes an annotation with sorted keys, or removes it if there are no keys.
func own(n *corev1.Node, annotation string, keys []string) {
	if len(keys) == 0 {
		delete(n.Annotations, annotation)
		return
	}
	slices.Sort(keys)
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[annotation] = strings.Join(slices.Compact(keys), ",")
}

func split(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}
