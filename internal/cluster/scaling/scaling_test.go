package scaling

import (
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// document has a pool that scales and one that doesn't.
func document(t *testing.T, bounds string) *v1alpha1.Cluster {
	t.Helper()
	return testkit.Value(validation.Parse("test", []byte(`apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  provider: {local: {}}
  workers: [{name: a, `+bounds+`}, {name: b, replicas: 2}]
`)))(t)
}

// TestSizes: a pool begins with the document's initial size; afterwards its size is the last decision, within the document's bounds.
func TestSizes(t *testing.T) {
	f := memory.NewFacts(&store.Cluster{Name: "demo", Facts: store.Facts{}}, nil)
	size := func(bounds string) [2]int {
		doc := document(t, bounds)
		StayWithSizes(f, doc)
		return [2]int{doc.Spec.Workers[0].Count(), doc.Spec.Workers[1].Count()}
	}
	const bounds = "minReplicas: 1, maxReplicas: 4"
	if got := size(bounds + ", replicas: 3"); got != [2]int{3, 2} {
		t.Errorf("it begins with %v", got)
	}
	testkit.Must(t, Remember(t.Context(), f, document(t, bounds+", replicas: 3")))
	testkit.Must(t, RememberShape(t.Context(), f, "a", Shape{Capacity: map[string]string{"cpu": "2"}}))
	doc := document(t, bounds)
	StayWithSizes(f, doc)
	testkit.Fails(t, Resize(t.Context(), f, doc, "a", 5), fail.Refused, "its bounds are 1 and 4")
	testkit.Fails(t, Resize(t.Context(), f, doc, "a", 0), fail.Refused, "its bounds are 1 and 4")
	testkit.Fails(t, Resize(t.Context(), f, doc, "b", 1), fail.NotFound, "no pool b that scales")
	testkit.Must(t, Resize(t.Context(), f, doc, "a", 4))
	testkit.Must(t, Resize(t.Context(), f, doc, "a", 2)) // before the other is done
	if n := Former(f, doc.Spec.Workers)[0].Count(); n != 3 || doc.Spec.Workers[0].Count() != 2 || !Changes(f, doc.Spec.Workers[0]) {
		t.Errorf("before the change it had %d", n)
	}
	testkit.Must(t, Remember(t.Context(), f, doc))
	if n := Former(f, doc.Spec.Workers)[0].Count(); n != 2 || Changes(f, doc.Spec.Workers[0]) {
		t.Errorf("once that is done it had %d", n)
	}
	testkit.Must(t, Resize(t.Context(), f, doc, "a", 4))
	for bounds, want := range map[string]int{
		bounds:                           4,
		bounds + ", replicas: 1":         4,
		"minReplicas: 2, maxReplicas: 3": 3,
		"minReplicas: 5, maxReplicas: 9": 5,
		"replicas: 2":                    2,
		"maxReplicas: 4":                 4,
	} {
		if got := size(bounds); got != [2]int{want, 2} {
			t.Errorf("%s: %v, want %d", bounds, got, want)
		}
	}
	if s := ShapeOf(f, "a"); s == nil || s.Capacity["cpu"] != "2" {
		t.Errorf("a node has %v", s)
	}
	testkit.Must(t, Remember(t.Context(), f, document(t, "replicas: 2")))
	if n := f.Each(memory.PoolSize); len(n) > 0 || ShapeOf(f, "a") != nil {
		t.Errorf("a pool that scales no more is remembered: %v", n)
	}
}
