package objects

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/plan/delta"
)

func TestObjectDifferences(t *testing.T) {
	object := func(kind string, more map[string]any) *unstructured.Unstructured {
		o := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{
			"name": "x", "uid": "1", "resourceVersion": "7", "managedFields": []any{map[string]any{"manager": "m"}},
			"annotations": map[string]any{DigestAnnotation: "d", lastApplied: `{"data":{"k":"c2VjcmV0LW9sZA=="}}`}}, "status": map[string]any{"phase": "x"}}
		for k, v := range more {
			o[k] = v
		}
		return &unstructured.Unstructured{Object: o}
	}
	for _, c := range []struct {
		kind     string
		from, to map[string]any
		want     []string
	}{
		{"ConfigMap", map[string]any{"data": map[string]any{"mtu": "1450", "gone": "x"}}, map[string]any{"data": map[string]any{"mtu": "1500"}},
			[]string{"ConfigMap x data.gone: x -> (none)", "ConfigMap x data.mtu: 1450 -> 1500"}},
		{"ConfigMap", map[string]any{"data": map[string]any{"conf": "a\nb\n"}}, map[string]any{"data": map[string]any{"conf": "a\nc\n"}},
			[]string{"ConfigMap x data.conf, +1 -1 lines"}},
		{"ConfigMap", map[string]any{"data": map[string]any{"conf": "token: abcdef123"}}, map[string]any{"data": map[string]any{"conf": "token: fedcba321"}},
			[]string{"ConfigMap x data.conf: (secret, changed)"}},
		{"Secret", map[string]any{"data": map[string]any{"k": "c2VjcmV0LW9sZA=="}}, map[string]any{"stringData": map[string]any{"n": "secret-new"}, "type": "Opaque"},
			[]string{"Secret x data.k: (secret, changed)", "Secret x stringData.n: (secret, changed)", "Secret x type: (secret, changed)"}},
		{"ConfigMap", nil, nil, nil},
	} {
		from, to := object(c.kind, c.from), object(c.kind, c.to)
		to.Object["metadata"].(map[string]any)["resourceVersion"] = "8"
		var got []string
		for _, d := range delta.Tree("object", c.kind+" x", essence(from), essence(to), secretOf(to)) {
			got = append(got, d.Line())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.kind, got, c.want)
		}
		for _, l := range got {
			if strings.Contains(l, "c2VjcmV0") || strings.Contains(l, "secret-new") {
				t.Errorf("shows a secret: %s", l)
			}
		}
	}
}
