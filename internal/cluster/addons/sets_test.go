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
	for _, a := range dyn.Actions() {
		if a.GetVerb() != "get" {
			t.Errorf("it was begun: %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// TestHookRunsOnce: another attempt of the step waits for a Job that runs, does not repeat one that has ended, and makes one again that was deleted.
func TestHookRunsOnce(t *testing.T) {
	done, made := map[string]bool{}, 0
	var result error
	run := func() error {
		return runHook("Job web", done, func() error { made++; return nil }, func() error { return result })
	}
	result = fail.New(fail.Unreachable, "the API is away")
	for range 2 {
		if err := run(); fail.KindOf(err) != fail.Unreachable || made != 1 {
			t.Errorf("the Job runs: made %d times, %v", made, err)
		}
	}
	result = nil
	for range 2 {
		if err := run(); err != nil || made != 1 {
			t.Errorf("the Job has ended: made %d times, %v", made, err)
		}
		result = fail.New(fail.NotFound, "deleted by its policy")
	}
	clear(done)
	_ = run()
	result = nil
	if err := run(); err != nil || made != 3 {
		t.Errorf("the Job was deleted while it ran: made %d times, %v", made, err)
	}
}
