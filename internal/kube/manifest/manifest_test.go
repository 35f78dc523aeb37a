package manifest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestParse(t *testing.T) {
	objects, err := Parse([]byte(`# nothing
---
kind: Deployment
apiVersion: apps/v1
metadata: {name: d, namespace: x}
spec: {replicas: 3}
---
apiVersion: v1
kind: List
items: [{apiVersion: v1, kind: Service, metadata: {name: s}}, {apiVersion: v1, kind: Namespace, metadata: {name: x}}]
---
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"c"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range objects {
		got = append(got, Name(u))
	}
	if want := []string{"Namespace x", "CustomResourceDefinition c", "Service s", "Deployment x/d"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n, ok, err := unstructured.NestedInt64(objects[3].Object, "spec", "replicas"); !ok || err != nil || n != 3 {
		t.Errorf("a whole number became something else: %v", err)
	}
	for name, bad := range map[string]string{
		"no name": "apiVersion: v1\nkind: Secret\nmetadata: {}\n", "no kind": "a: b\n", "not yaml": "a: [\n", "twice": "kind: A\nkind: B\n", "scalar": "hello\n",
	} {
		if _, err := Parse([]byte("---\n" + bad)); fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), "document") {
			t.Errorf("%s: got %v, want invalid input that names the document", name, err)
		}
	}
}

// TestComplete: fields that the API server or Naupegos would otherwise drop silently.
func TestComplete(t *testing.T) {
	for text, want := range map[string]string{
		"metadata: {name: x, annotations: {prometheus.io/port: 8080}}": "ConfigMap x: metadata.annotations[prometheus.io/port] is 8080, not a text: put the value in quotes",
		"metadata: {name: x, labels: {live: true}}":                    "metadata.labels[live] is true",
		"metadata: {name: x, labels: [a]}":                             "metadata.labels is no mapping",
		"metadata: {name: x, annotations: {a: {b: c}}}":                "metadata.annotations[a] is not a text",
		"metadata: {name: 123}":                                        "ConfigMap: metadata.name is 123, not a text", "metadata: {name: on}": "metadata.name is true, not a text", "metadata: {name: x, namespace: 123}": "metadata.namespace is 123, not a text",
		"metadata: {name: x}\ndata: {port: 8080}":                                     "data[port] is 8080",
		"metadata: {name: x, annotations: {a: , b: \"8080\"}, labels: }\ndata: {k: }": "",
	} {
		objects, err := Parse([]byte("apiVersion: v1\nkind: ConfigMap\n" + text + "\n"))
		if want == "" && (err != nil || len(objects) != 1 || len(objects[0].GetAnnotations()) != 2) {
			t.Errorf("%s: %v, %v", text, objects, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	exported := testkit.Value(Parse([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, uid: u, resourceVersion: \"7\", generation: 2, managedFields: [{manager: kubectl}], creationTimestamp: null}\n")))(t)[0]
	if got := fmt.Sprint(exported.Object["metadata"]); got != "map[creationTimestamp:<nil> name:x]" {
		t.Errorf("an exported object has %v", got)
	}
	secret := testkit.Value(Parse([]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {a: QQ==, b: Qg==}\nstringData: {a: new, c: \"1\"}\n")))(t)[0]
	if got := fmt.Sprint(secret.Object["data"]); got != "map[a:bmV3 b:Qg== c:MQ==]" || secret.Object["stringData"] != nil {
		t.Errorf("the Secret has %v", secret.Object)
	}
	only := testkit.Value(Parse([]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData: {c: s}\n")))(t)[0]
	if got := fmt.Sprint(only.Object["data"]); got != "map[c:cw==]" {
		t.Errorf("the Secret has %v", only.Object)
	}
	for text, want := range map[string]string{
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleList, items: null}": "0",
		"{apiVersion: v1, kind: List, items: null}":                               "0", "{apiVersion: v1, kind: List}": "0", "{apiVersion: v1, kind: List, items: []}": "0",
		"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {name: s}}]}]}": "1",
		"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: {}}]}":                                               "item 1: Secret has no metadata.name",
		"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {generateName: p-}}]}":                                  "metadata.name",
	} {
		objects, err := Parse([]byte(text))
		if got := fmt.Sprint(len(objects)); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s objects, %v; want %s", text, got, err, want)
		}
	}
}

// TestStreams: forms of YAML and JSON that people and tools write keep each of their objects, with the values that kubectl reads.
func TestStreams(t *testing.T) {
	object := func(name string) string { return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n" }
	inJSON := func(name string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"}}`
	}
	for what, text := range map[string]string{
		"JSON, one a line": inJSON("a") + "\n" + inJSON("b") + "\n", "JSON without space": inJSON("a") + inJSON("b"), "JSON and YAML": inJSON("a") + "\n---\n" + object("b"),
		"Windows": strings.ReplaceAll(object("a")+"---\n"+object("b"), "\n", "\r\n"), "byte order mark": "\ufeff---\n" + object("a") + "---\n" + object("b"),
		"comment after a separator": object("a") + "--- # second\n" + object("b"), "ends of documents": object("a") + "...\n---\n" + object("b") + "...\n", "empty ones": "---\n# x\n---\n" + object("a") + "---\nnull\n---\n" + object("b"),
	} {
		objects, err := Parse([]byte(text))
		if err != nil || len(objects) != 2 || objects[0].GetName()+objects[1].GetName() != "ab" {
			t.Errorf("%s: %v %v", what, objects, err)
		}
	}
	u := testkit.Value(Parse([]byte("apiVersion: apps/v1\nkind: Deployment\nmetadata: &m {name: a, labels: &l {a: b}}\nspec: {mode: 0644, yes: off, merged: {<<: *l, c: d}, whole: 9007199254740993}\n")))(t)[0]
	if got := fmt.Sprint(u.Object["spec"]); got != "map[merged:map[a:b c:d] mode:420 true:false whole:9007199254740993]" {
		t.Errorf("%s", got)
	}
	if _, err := Parse([]byte("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {p: hunter2!}\n")); err == nil || !strings.Contains(err.Error(), "Secret x: data[p] is not base64") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("plain text in data: %v", err)
	}
}

func TestDigest(t *testing.T) {
	digest := func(s string) string {
		objects, err := Parse([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		d, err := DigestAll(objects)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	b := "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: b\n"
	if digest(a+"---\n"+b) != digest(b+"---\n# other order\n"+a) {
		t.Error("order and comments should not matter")
	}
	if digest(a) == digest(strings.Replace(a, "name: a", "name: c", 1)) {
		t.Error("content should matter")
	}
}
