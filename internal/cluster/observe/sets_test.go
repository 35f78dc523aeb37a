package observe

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/siteset"
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

// TestMoves: an object moves if it left one set of the document and another set has it; an object in both sets or in neither does not.
func TestMoves(t *testing.T) {
	object := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "shop"}}}
	}
	former, heir := &siteset.Set{Key: "manifests.all"}, &siteset.Set{Key: "manifests.db"}
	had := map[string][]objects.Ref{former.Key: {objects.RefOf(object("a")), objects.RefOf(object("moved")), objects.RefOf(object("both")), objects.RefOf(object("gone"))}}
	moves([]*siteset.Set{former, heir}, map[string][]*unstructured.Unstructured{former.Key: {object("a"), object("both")}, heir.Key: {object("moved"), object("both"), object("new")}}, had)
	id := objects.RefOf(object("moved")).Identity()
	if fmt.Sprint(former.Heirs) != fmt.Sprint(map[string]string{id: heir.Key}) || fmt.Sprint(heir.Moved) != fmt.Sprint(map[string]string{id: former.Key}) || len(former.Moved)+len(heir.Heirs) != 0 {
		t.Errorf("heirs %v, moved %v", former.Heirs, heir.Moved)
	}
}
