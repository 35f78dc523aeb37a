package manifest

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/fail"
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
