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
	container := func(field string, element any) map[string]any {
		return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "c", field: []any{element}}}}}
	}
	subjects := func(namespaces ...string) map[string]any {
		var all []any
		for _, n := range namespaces {
			all = append(all, map[string]any{"name": "default", "namespace": n})
		}
		return map[string]any{"subjects": all}
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
		{"ConfigMap", map[string]any{"data": map[string]any{"DB_PASSWORD": "hunter22", "token-ttl": "1h"}}, map[string]any{"data": map[string]any{"DB_PASSWORD": "secret-new", "token-ttl": "2h"}},
			[]string{"ConfigMap x data.DB_PASSWORD: (secret, changed)", "ConfigMap x data.token-ttl: 1h -> 2h"}},
		{"Deployment", container("env", map[string]any{"name": "CLIENT_SECRET", "value": "hunter22"}), container("env", map[string]any{"name": "CLIENT_SECRET", "value": "secret-new"}),
			[]string{"Deployment x spec.containers[c].env[CLIENT_SECRET].value: (secret, changed)"}},
		{"Deployment", container("env", map[string]any{"name": "TOKEN_URL", "value": "a"}), container("env", map[string]any{"name": "TOKEN_URL", "value": "b"}),
			[]string{"Deployment x spec.containers[c].env[TOKEN_URL].value: a -> b"}},
		{"Deployment", container("args", "--db-password=hunter22"), container("args", "--db-password=secret-new"),
			[]string{"Deployment x spec.containers[c].args[0]: (secret, changed)"}},
		{"Deployment", container("args", "--ml-secret-name=a"), container("args", "--ml-secret-name=b"),
			[]string{"Deployment x spec.containers[c].args[0]: --ml-secret-name=a -> --ml-secret-name=b"}},
		{"ClusterRoleBinding", subjects("a", "b"), subjects("c", "b"), []string{"ClusterRoleBinding x subjects[default].namespace: a -> c"}},
		{"ClusterRoleBinding", subjects("a", "b"), subjects("a"), []string{"ClusterRoleBinding x subjects[default#2].name: default -> (none)", "ClusterRoleBinding x subjects[default#2].namespace: b -> (none)"}},
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
