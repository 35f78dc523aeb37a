package objects

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// fitting applies an object over the live one, which may be nil. It removes defaults of the live object that no manager owns if the API refuses the
// object because of them: a Deployment without a strategy has the default's rollingUpdate, which type Recreate forbids.
func fitting(ctx context.Context, r dynamic.ResourceInterface, u, live *unstructured.Unstructured, with metav1.ApplyOptions) (*unstructured.Unstructured, error) {
	out, err := r.Apply(ctx, u.GetName(), u, with)
	if live == nil || !apierrors.IsInvalid(err) {
		return out, err
	}
	if endsConversion(u, live) {
		return endConversion(ctx, r, u, live, with)
	}
	paths := strays(err, u, live)
	switch {
	case len(paths) == 0:
		return nil, err
	case len(with.DryRun) == 0:
		if err := claimFields(ctx, r, u, paths); err != nil { // an apply without our own fields removes them
			return nil, err
		}
		return r.Apply(ctx, u.GetName(), u, with)
	}
	for range tries {
		out, better := foreseeFitting(ctx, r, u, paths, with)
		if better == nil {
			return out, nil
		}
		if !apierrors.IsConflict(better) {
			break
		}
	}
	return nil, err
}

// tries bounds how often an operation is repeated because a controller changed the object meanwhile.
const tries = 5

// strays returns the fields to which the API objects, if the live object has all of them, the wanted one does not, and no manager owns them.
func strays(err error, u, live *unstructured.Unstructured) (paths [][]string) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	for _, cause := range status.Status().Details.Causes {
		path := strings.Split(cause.Field, ".")
		_, has, _ := unstructured.NestedFieldNoCopy(live.Object, path...)
		_, wants, _ := unstructured.NestedFieldNoCopy(u.Object, path...)
		_, beside, _ := unstructured.NestedMap(u.Object, path[:len(path)-1]...)
		owned := slices.ContainsFunc(live.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool { return claims(m, path...) })
		if len(path) < 2 || !has || wants || !beside || owned {
			return nil
		}
		paths = append(paths, path)
	}
	return paths
}

// foreseeFitting is the dry run of an apply without stray fields: one of the object without the fields beside them, and an update by these.
func foreseeFitting(ctx context.Context, r dynamic.ResourceInterface, u *unstructured.Unstructured, paths [][]string, with metav1.ApplyOptions) (*unstructured.Unstructured, error) {
	rest := u.DeepCopy()
	for _, path := range paths {
		unstructured.RemoveNestedField(rest.Object, path[:len(path)-1]...)
	}
	out, err := r.Apply(ctx, u.GetName(), rest, with)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		parent := path[:len(path)-1]
		unstructured.RemoveNestedField(out.Object, path...)
		beside, _, err := unstructured.NestedMap(u.Object, parent...)
		if err != nil {
			return nil, err
		}
		for name, v := range beside {
			if err := unstructured.SetNestedField(out.Object, v, append(slices.Clone(parent), name)...); err != nil {
				return nil, err
			}
		}
	}
	return r.Update(ctx, out, metav1.UpdateOptions{FieldManager: FieldManager, DryRun: with.DryRun})
}

// claimFields adds fields of the live object to those that Naupegos has applied.
func claimFields(ctx context.Context, r dynamic.ResourceInterface, u *unstructured.Unstructured, paths [][]string) error {
	var err error
	for range tries {
		live, gone := r.Get(ctx, u.GetName(), metav1.GetOptions{})
		if gone != nil {
			return answer.Error(ctx, gone, "get %s", manifest.Name(u))
		}
		patch, wrong := claimPatch(live, paths)
		if wrong != nil {
			return wrong
		}
		if _, err = r.Patch(ctx, u.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: FieldManager}); !apierrors.IsConflict(err) {
			break
		}
	}
	return err
}

// claimPatch is the patch of claimFields.
func claimPatch(live *unstructured.Unstructured, paths [][]string) ([]byte, error) {
	all := live.GetManagedFields()
	i := slices.IndexFunc(all, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == FieldManager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == ""
	})
	if i < 0 {
		i = len(all)
		all = append(all, metav1.ManagedFieldsEntry{Manager: FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: live.GetAPIVersion(), FieldsType: "FieldsV1"})
	}
	fields := map[string]any{}
	if all[i].FieldsV1 != nil {
		if err := json.Unmarshal(all[i].FieldsV1.GetRawBytes(), &fields); err != nil {
			return nil, err
		}
	}
	for _, path := range paths {
		v, _, err := unstructured.NestedFieldNoCopy(live.Object, path...)
		if err != nil {
			return nil, err
		}
		at := fields
		for _, name := range path {
			below, _ := at["f:"+name].(map[string]any)
			if below == nil {
				below = map[string]any{}
				at["f:"+name] = below
			}
			at = below
		}
		claimAll(at, v)
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	all[i].FieldsV1 = metav1.NewFieldsV1(string(raw))
	return json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": all}, {"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
}

// claimAll adds the fields of a value to those of an entry of managed fields. A list counts as one value.
func claimAll(fields map[string]any, v any) {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return
	}
	fields["."] = map[string]any{}
	for name, v := range m {
		below := map[string]any{}
		fields["f:"+name] = below
		claimAll(below, v)
	}
}
