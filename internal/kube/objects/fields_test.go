package objects

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestDrop: paths of the API's conflicts lead to the fields that they name, even if names have dots and keys have defaults.
func TestDrop(t *testing.T) {
	const object = `
data: {tls: a, tls.crt: b, tls.crt.old: c}
spec:
  replicas: 1
  ports: [{port: 80, name: web}, {port: 80, protocol: UDP, nodePort: 7}, {port: 81}]
  list: [a, b]
webhooks: [{name: "a].b", clientConfig: {caBundle: x, service: {name: s}}}]
`
	for path, gone := range map[string][]string{
		".data.tls": {"data", "tls"}, ".data.tls.crt": {"data", "tls.crt"}, ".data.tls.crt.old": {"data", "tls.crt.old"}, ".spec.replicas": {"spec", "replicas"},
		".spec.list": {"spec", "list"}, ".data.absent": nil, ".spec.list[=\"a\"]": nil, ".spec.ports[port=80,protocol=\"TCP\"]": nil, ".spec.ports[port=82,protocol=\"TCP\"].name": nil,
		".spec.ports[0].name": nil, ".spec.replicas.x": nil, "data": nil,
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(object), &u.Object); err != nil {
			t.Fatal(err)
		}
		before, _ := json.Marshal(u.Object)
		rest, ok := without(u, []rival{{field: path}})
		if ok != (gone != nil) {
			t.Errorf("%s: %t", path, ok)
		}
		if after, _ := json.Marshal(u.Object); string(before) != string(after) {
			t.Errorf("%s: the object itself was changed", path)
		}
		if ok {
			want := u.DeepCopy()
			unstructured.RemoveNestedField(want.Object, gone...)
			a, _ := json.Marshal(want.Object)
			if b, _ := json.Marshal(rest.Object); string(a) != string(b) {
				t.Errorf("%s: %s", path, b)
			}
		}
	}
	for path, want := range map[string]string{
		`.spec.ports[port=80,protocol="UDP"].nodePort`: `[{"name":"web","port":80},{"port":80,"protocol":"UDP"},{"port":81}]`,
		`.spec.ports[port=80,protocol="TCP"].name`:     `[{"port":80},{"nodePort":7,"port":80,"protocol":"UDP"},{"port":81}]`,
		`.webhooks[name="a].b"].clientConfig.caBundle`: `[{"clientConfig":{"service":{"name":"s"}},"name":"a].b"}]`,
	} {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(object), &u.Object); err != nil {
			t.Fatal(err)
		}
		rest, ok := without(u, []rival{{field: path}})
		if !ok {
			t.Errorf("%s: not found", path)
			continue
		}
		list, _, _ := unstructured.NestedFieldNoCopy(rest.Object, "spec", "ports")
		if path[1] == 'w' {
			list = rest.Object["webhooks"]
		}
		if got, _ := json.Marshal(list); string(got) != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestCovers: a field that the managed fields lack counts as changed; a field that the API treats as a whole does not.
func TestCovers(t *testing.T) {
	var fields map[string]any
	if err := json.Unmarshal([]byte(`{"f:spec":{"f:replicas":{},"f:selector":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:name":{}}},"f:finalizers":{".":{},"v:\"a\"":{}},"f:empty":{}}}`), &fields); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"spec: {replicas: 1, selector: {matchLabels: {a: b}}, ports: [{port: 80, name: x}], finalizers: [a], empty: {}}": true,
		"spec: {replicas: 1, creationTimestamp: null}":                                                                   true,
		"spec: {paused: true}":                                     false,
		"spec: {ports: [{port: 80, nodePort: 7}]}":                 false,
		"spec: {ports: [{port: 81, name: x}]}":                     false,
		"spec: {ports: [{port: 80, protocol: UDP, name: x}]}":      false,
		"spec: {finalizers: [a, b]}":                               false,
		"metadata: {labels: {a: b}}":                               false,
		"spec: {ports: [{port: 80, protocol: TCP, name: x}]}":      false,
		"spec: {ports: [{port: 80, name: x}], empty: {a: {b: c}}}": true,
	} {
		var v map[string]any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if got := covers(fields, v); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
