package observe

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/kube/objects"
)

// TestHeirloom: a set follows the departing sets that own its objects, and only those.
func TestHeirloom(t *testing.T) {
	object := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "shop"}}}
	}
	left := []departing{
		{key: "manifests.web", going: []objects.Ref{objects.RefOf(object("a")), objects.RefOf(object("b"))}},
		{key: "charts.old", staying: []objects.Ref{objects.RefOf(object("c"))}},
		{key: "charts.other", going: []objects.Ref{objects.RefOf(object("d"))}},
	}
	handed := map[string]bool{}
	from := heirloom([]*unstructured.Unstructured{object("a"), object("c"), object("new")}, left, handed)
	if fmt.Sprint(from) != "[manifests.web charts.old]" || len(handed) != 2 || !handed[objects.RefOf(object("a")).Identity()] {
		t.Errorf("from %v: %v", from, handed)
	}
}
