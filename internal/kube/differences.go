package kube

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan/delta"
)

// Differences lists what Apply would change, field by field, as the API server foresees it. Values of Secrets are masked. An object that can't be compared
// is listed with the reason.
func Differences(ctx context.Context, c *Client, manifests []byte, o ApplyOptions) (all []delta.Delta) {
	objects, err := manifest.Parse(manifests)
	if err != nil {
		return []delta.Delta{unknown("addon "+o.Addon, err)}
	}
	for _, u := range objects {
		found, err := compare(ctx, c, u, o.Addon)
		if err != nil {
			found = []delta.Delta{unknown(manifest.Name(u), err)}
		}
		all = append(all, found...)
	}
	inv, err := c.inventory(ctx, o.Addon)
	if err != nil {
		return append(all, unknown("addon "+o.Addon, err))
	}
	wanted := map[string]bool{}
	for _, r := range refs(objects) {
		wanted[r.identity()] = true
	}
	for _, r := range inv.Objects {
		if !wanted[r.identity()] {
			all = append(all, delta.Delta{Kind: "object", Name: r.String(), Action: "remove", Why: "the addon no longer has it"})
		}
	}
	return all
}

func unknown(name string, err error) delta.Delta {
	return delta.Delta{Kind: "object", Name: name, Action: "update", Why: "its fields can't be compared: " + err.Error()}
}

// compare compares one object with what the API server would make of it.
func compare(ctx context.Context, c *Client, u *unstructured.Unstructured, addon string) ([]delta.Delta, error) {
	name := manifest.Name(u)
	create := []delta.Delta{{Kind: "object", Name: name, Action: "create"}}
	r, err := c.resource(ctx, refOf(u))
	if meta.IsNoMatchError(err) {
		return create, nil
	}
	if err != nil {
		return nil, err
	}
	live, err := r.Get(ctx, u.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return create, nil
	}
	if err != nil {
		return nil, apiError(ctx, err, "get %s", name).At(c.server)
	}
	want := u.DeepCopy()
	if addon != "" {
		want.SetLabels(with(want.GetLabels(), AddonLabel, addon))
	}
	want, err = r.Apply(ctx, u.GetName(), want, metav1.ApplyOptions{FieldManager: FieldManager, Force: true, DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return nil, apiError(ctx, err, "foresee %s", name).At(c.server)
	}
	return delta.Tree("object", name, essence(live), essence(want), secretOf(u)), nil
}

// essence is an object without the fields that the API server writes, and without its digest.
func essence(u *unstructured.Unstructured) map[string]any {
	out := u.DeepCopy()
	delete(out.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	annotations := out.GetAnnotations()
	delete(annotations, DigestAnnotation)
	delete(annotations, lastApplied)
	if out.SetAnnotations(annotations); len(annotations) == 0 {
		unstructured.RemoveNestedField(out.Object, "metadata", "annotations")
	}
	return out.Object
}

// lastApplied is where kubectl apply keeps the whole object, a Secret's values too.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// secretOf says which values of an object are secret: all data of a Secret, and what looks like one elsewhere.
func secretOf(u *unstructured.Unstructured) func(path, value string) bool {
	isSecret := u.GetKind() == "Secret"
	return func(path, value string) bool {
		return isSecret && !strings.HasPrefix(path, "metadata.") || machine.Sensitive([]byte(value))
	}
}
