package addons

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/siteset"
	"github.com/naupegos/naupegos/internal/testkit"
)

type fixedMapper struct{ *meta.DefaultRESTMapper }

func (fixedMapper) Reset() {}

// TestRefusedSetIsNotBegun: a set with an object of another owner fails before its hooks, and before its other objects, are made.
func TestRefusedSetIsNotBegun(t *testing.T) {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(schema.FromAPIVersionAndKind("v1", "ConfigMap"), meta.RESTScopeNamespace)
	theirs := testkit.Value(manifest.Parse([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: default, labels: {" + objects.AddonLabel + ": metallb}}\n")))(t)[0]
	dyn := dynfake.NewSimpleDynamicClient(runtime.NewScheme(), theirs)
	c := &objects.Applier{Host: "https://fake", Set: fake.NewClientset(), Dynamic: dyn, Mapper: fixedMapper{m}}
	set := &siteset.Set{Key: "charts.web", Title: "chart web", Namespace: "default"}
	r := chart.Rendered{Objects: testkit.Value(manifest.Parse([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n")))(t)}
	_, _, err := foreseen(t.Context(), c, set, r)
	if fail.KindOf(err) != fail.Conflict || !strings.Contains(err.Error(), "belongs to addon metallb") || !strings.Contains(err.Error(), "nothing of chart web was applied") {
		t.Errorf("%v", err)
	}
	if err := unowned(t.Context(), c, set, r); fail.KindOf(err) != fail.Conflict || !strings.Contains(err.Error(), "belongs to addon metallb") {
		t.Errorf("before the hooks: %v", err)
	}
	for _, a := range dyn.Actions() {
		if a.GetVerb() != "get" {
			t.Errorf("it was begun: %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// TestHookRunsOnce: another attempt of the step waits for a Job that runs, does not repeat one that has ended, and makes one again that was deleted before
// its end, unless the cluster deletes it by itself.
func TestHookRunsOnce(t *testing.T) {
	done, made, exists := map[string]bool{}, 0, true
	var result error
	h := hookRun{exists: func() (bool, error) { return exists, nil }, replace: func() error { made++; return nil }, wait: func() error { return result }}
	expect := func(what string, times int, kind fail.Kind) {
		t.Helper()
		if err := h.once("Job web", done); fail.KindOf(err) != kind || made != times {
			t.Errorf("%s: made %d times, %v", what, made, err)
		}
	}
	result = fail.New(fail.Unreachable, "the API is away")
	expect("it begins", 1, fail.Unreachable)
	expect("it runs", 1, fail.Unreachable)
	exists = false
	expect("it was deleted", 2, fail.Unreachable)
	exists, result = true, nil
	expect("it ends", 2, fail.KindOf(nil))
	exists = false
	expect("it has ended", 2, fail.KindOf(nil))
	clear(done)
	exists, result, h.vanishes = true, fail.New(fail.Unreachable, "the API is away"), true
	expect("one with a time to live begins", 3, fail.Unreachable)
	exists = false
	expect("it has vanished", 3, fail.KindOf(nil))
}
