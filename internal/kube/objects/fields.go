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
	"k8s.io/client-go/dynamic"
)

// keeper is the field manager of the replicas that a workload keeps when its set no longer specifies them, so that an autoscaler continues from there
// instead of from one.
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
	if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
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

// covers reports whether an entry of managed fields has all fields of a value. A field that another manager has changed is no longer in our entry.
func covers(fields map[string]any, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, below := range v {
			f, found := fields["f:"+name].(map[string]any)
			if !found && below != nil || len(f) > 0 && !covers(f, below) { // no fields below: it is one value for the API
				return false
			}
		}
	case []any:
		for _, item := range v {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(fields)), func(key string) bool {
				f, _ := fields[key].(map[string]any)
				return identifies(key, item) && (len(f) == 0 || covers(f, item))
			}) {
				return false
			}
		}
	}
	return true
}

// identifies reports whether a key of managed fields, k:{"name":"web"} or v:"web", identifies an item of a list. Fields that the item does not have
// are defaults.
func identifies(key string, item any) bool {
	if text, ok := strings.CutPrefix(key, "v:"); ok {
		var v any
		return json.Unmarshal([]byte(text), &v) == nil && fmt.Sprint(v) == fmt.Sprint(item)
	}
	text, ok := strings.CutPrefix(key, "k:")
	var parts map[string]any
	if !ok || json.Unmarshal([]byte(text), &parts) != nil {
		return false
	}
	return matches(item, parts, false)
}

// matches reports whether an item of a list has these fields; exactly: an absent one does not match.
func matches(item any, parts map[string]any, exactly bool) bool {
	m, ok := item.(map[string]any)
	for name, v := range parts {
		if have, found := m[name]; found && fmt.Sprint(have) != fmt.Sprint(v) || !found && exactly {
			return false
		}
	}
	return ok
}

// without returns a copy of an object without these fields; not ok if it can't leave one out.
func without(u *unstructured.Unstructured, fields []rival) (rest *unstructured.Unstructured, ok bool) {
	rest = u.DeepCopy()
	for _, f := range fields {
		if !drop(rest.Object, f.field) {
			return nil, false
		}
	}
	return rest, true
}

// drop removes the field at a path, in the form of the API's conflicts: .webhooks[name="web"].clientConfig.caBundle. It removes no item of a list.
func drop(in any, path string) bool {
	switch v := in.(type) {
	case map[string]any:
		rest, ok := strings.CutPrefix(path, ".")
		if !ok {
			return false
		}
		for _, name := range slices.SortedFunc(maps.Keys(v), func(a, b string) int { return len(b) - len(a) }) { // names may have dots: the longest is meant
			switch below, ok := strings.CutPrefix(rest, name); {
			case !ok:
			case below == "":
				delete(v, name)
				return true
			case (below[0] == '.' || below[0] == '[') && drop(v[name], below):
				return true
			}
		}
	case []any:
		parts, rest, ok := itemKey(path)
		if !ok || rest == "" {
			return false
		}
		for _, exactly := range []bool{true, false} {
			for _, item := range v {
				if matches(item, parts, exactly) {
					return drop(item, rest)
				}
			}
		}
	}
	return false
}

// itemKey reads the key of an item at the beginning of a path: [name="web",port=80].
func itemKey(path string) (parts map[string]any, rest string, ok bool) {
	parts = map[string]any{}
	for rest = strings.TrimPrefix(path, "["); ; rest = rest[1:] {
		name, value, found := strings.Cut(rest, "=")
		if !found || name == "" {
			return nil, "", false
		}
		d := json.NewDecoder(strings.NewReader(value))
		var v any
		if d.Decode(&v) != nil {
			return nil, "", false
		}
		parts[name] = v
		if rest = value[d.InputOffset():]; strings.HasPrefix(rest, "]") {
			return parts, rest[1:], true
		}
		if !strings.HasPrefix(rest, ",") {
			return nil, "", false
		}
	}
}
