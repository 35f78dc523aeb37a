package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// storedVersions fails with fail.Invalid if a definition lacks versions in which the cluster may still hold objects.
func storedVersions(u, live *unstructured.Unstructured) error {
	if _, ok := manifest.Defines(u); !ok || live == nil {
		return nil
	}
	stored, _, _ := unstructured.NestedStringSlice(live.Object, "status", "storedVersions")
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	var missing []string
	for _, name := range stored {
		if !slices.ContainsFunc(versions, func(v any) bool { m, ok := v.(map[string]any); return ok && m["name"] == name }) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(stored), func(name string) bool { return slices.Contains(missing, name) })
	if len(left) == 0 {
		return fail.New(fail.Invalid, "the new definition lacks %s, in which the cluster holds its objects", strings.Join(missing, ", ")).
			Do("apply first a definition that has the old and the new version")
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"storedVersions": left}})
	if err != nil {
		return err
	}
	return fail.New(fail.Invalid, "the new definition lacks %s, in which the cluster may hold objects", strings.Join(missing, ", ")).
		Do("write each object again: kubectl get %s -A -o json | kubectl replace -f -; then: kubectl patch crd %s --subresource=status --type=merge -p '%s'", u.GetName(), u.GetName(), patch)
}

// converter is the field manager of the end of conversions by a webhook.
const converter = "naupegos-conversion"

// endsConversion reports whether a definition no longer has the webhook by which the live one converts objects.
func endsConversion(u, live *unstructured.Unstructured) bool {
	if _, ok := manifest.Defines(u); !ok || live == nil {
		return false
	}
	_, had, _ := unstructured.NestedMap(live.Object, "spec", "conversion", "webhook")
	_, has, _ := unstructured.NestedMap(u.Object, "spec", "conversion", "webhook")
	return had && !has
}

// endConversion applies a definition without the webhook of the live one. The webhook's caBundle belongs to the program that wrote it, so it would stay, and the API
// refuses the rest of a webhook.
func endConversion(ctx context.Context, r dynamic.ResourceInterface, u, live *unstructured.Unstructured, with metav1.ApplyOptions) (*unstructured.Unstructured, error) {
	whole := live.DeepCopy()
	whole.Object["spec"] = u.DeepCopy().Object["spec"]
	whole.SetLabels(merged(live.GetLabels(), u.GetLabels()))
	whole.SetAnnotations(merged(live.GetAnnotations(), u.GetAnnotations()))
	out, err := r.Update(ctx, whole, metav1.UpdateOptions{FieldManager: FieldManager, DryRun: []string{metav1.DryRunAll}})
	if err != nil || len(with.DryRun) > 0 {
		return out, err
	}
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/conversion","value":{"strategy":"None"}},{"op":"test","path":"/metadata/uid","value":%q}]`, live.GetUID())
	if _, err := r.Patch(ctx, u.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: converter}); err != nil {
		return nil, err
	}
	return r.Apply(ctx, u.GetName(), u, with)
}

func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}
