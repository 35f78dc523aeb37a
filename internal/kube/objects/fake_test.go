package objects

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	ktest "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/kube/manifest"
)

type fixedMapper struct{ *meta.DefaultRESTMapper }

func (fixedMapper) Reset() {}

// sea is a cluster of fakes whose server-side apply replaces the whole object. objects_integration_test.go of package kube asks a real API server.
type sea struct {
	*Applier
	dyn *dynfake.FakeDynamicClient
}

func newSea(t *testing.T) sea {
	t.Helper()
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Version: "v1"}, {Group: "apps", Version: "v1"}, {Group: "batch", Version: "v1"}, {Group: "example.org", Version: "v1"}})
	for _, k := range []string{"v1/ConfigMap", "v1/Secret", "v1/PersistentVolumeClaim", "v1/Pod", "apps/v1/Deployment", "apps/v1/StatefulSet", "batch/v1/Job", "example.org/v1/Sail"} {
		at := strings.LastIndex(k, "/")
		m.Add(schema.FromAPIVersionAndKind(k[:at], k[at+1:]), meta.RESTScopeNamespace)
	}
	m.Add(schema.FromAPIVersionAndKind("v1", "Namespace"), meta.RESTScopeRoot)
	m.Add(schema.FromAPIVersionAndKind("apiextensions.k8s.io/v1", "CustomResourceDefinition"), meta.RESTScopeRoot)
	dyn := dynfake.NewSimpleDynamicClient(runtime.NewScheme())
	dyn.PrependReactor("patch", "*", func(a ktest.Action) (bool, runtime.Object, error) {
		p := a.(ktest.PatchActionImpl)
		if p.GetPatchType() != types.ApplyPatchType {
			return false, nil, nil
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(p.GetPatch(), &u.Object); err != nil {
			return true, nil, err
		}
		if len(p.PatchOptions.DryRun) > 0 {
			return true, u, nil
		}
		err := dyn.Tracker().Update(p.GetResource(), u, p.GetNamespace())
		if apierrors.IsNotFound(err) {
			err = dyn.Tracker().Create(p.GetResource(), u, p.GetNamespace())
		}
		return true, u, err
	})
	return sea{&Applier{Host: "https://fake", Set: fake.NewClientset(), Dynamic: dyn, Mapper: fixedMapper{m}}, dyn}
}

func parsed(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	all, err := manifest.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (s sea) apply(t *testing.T, text string, o Options) {
	t.Helper()
	if _, err := s.ApplyObjects(t.Context(), parsed(t, text), o); err != nil {
		t.Fatal(err)
	}
}

func (s sea) examine(t *testing.T, text string, o Options) Finding {
	t.Helper()
	f, err := s.Examine(t.Context(), parsed(t, text), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// live returns the cluster's object for the one that the text describes; nil if it does not exist.
func (s sea) live(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := parsed(t, text)[0]
	r, err := s.resource(t.Context(), refOf(u))
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Get(t.Context(), u.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// edit changes a live object.
func (s sea) edit(t *testing.T, text string, change func(*unstructured.Unstructured)) {
	t.Helper()
	u := s.live(t, text)
	change(u)
	r, err := s.resource(t.Context(), refOf(u))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Update(t.Context(), u, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func words(f Finding) string {
	var all []string
	for i := range f.Deltas {
		all = append(all, f.Deltas[i].Line()+" "+f.Deltas[i].Why)
	}
	return strings.Join(append(all, f.Refused...), "\n")
}
