package objects

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	ktest "k8s.io/client-go/testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/delta"
)

const sailsOf = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: sails.example.org}\nspec: {group: example.org, names: {kind: Sail}, versions: [{name: v2}]}\n"

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// TestStoredVersions: the plan refuses a definition without a version in which objects may be stored, with the commands that fix it.
func TestStoredVersions(t *testing.T) {
	for stored, want := range map[string]string{
		"v2": "", "v1, v2": `lacks v1, in which the cluster may hold objects (write each object again: kubectl get sails.example.org -A -o json | kubectl replace -f -; then: kubectl patch crd sails.example.org --subresource=status --type=merge -p '{"status":{"storedVersions":["v2"]}}')`,
		"v1": "lacks v1, in which the cluster holds its objects (apply first a definition that has the old and the new version)",
	} {
		s, o := newSea(t), Options{Addon: "manifests.fleet", Prune: true, Shared: true}
		live := parsed(t, sailsOf+"status: {storedVersions: ["+stored+"]}\n")[0]
		if err := s.dyn.Tracker().Create(definitions, live, ""); err != nil {
			t.Fatal(err)
		}
		f := s.examine(t, sailsOf, o)
		if want == "" && len(f.Refused) > 0 || want != "" && (len(f.Refused) != 1 || !strings.Contains(f.Refused[0], want)) {
			t.Errorf("stored in %s: %q, want %q", stored, f.Refused, want)
		}
		if want == "" {
			continue
		}
		if _, err := s.ApplyObjects(t.Context(), parsed(t, sailsOf), o); fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), want[:8]) {
			t.Errorf("stored in %s, applied: %v", stored, err)
		}
	}
}

// TestEndOfConversion: a definition without the webhook of the live one is applied, although an injector has written the webhook's caBundle.
func TestEndOfConversion(t *testing.T) {
	s, o := newSea(t), Options{Addon: "manifests.fleet", Prune: true, Shared: true}
	live := parsed(t, strings.Replace(sailsOf, "versions:", "conversion: {strategy: Webhook, webhook: {clientConfig: {caBundle: Q0E=}}}, versions:", 1)+"status: {conditions: [{type: Established, status: \"True\"}]}\n")[0]
	live.SetUID("the-one")
	if err := s.dyn.Tracker().Create(definitions, live, ""); err != nil {
		t.Fatal(err)
	}
	var converters []string
	s.dyn.PrependReactor("patch", "customresourcedefinitions", func(a ktest.Action) (bool, runtime.Object, error) {
		p := a.(ktest.PatchActionImpl)
		if p.GetPatchType() == types.JSONPatchType {
			converters = append(converters, p.PatchOptions.FieldManager)
			return false, nil, nil
		}
		now, err := s.dyn.Tracker().Get(definitions, "", "sails.example.org")
		if err != nil {
			return true, nil, err
		}
		if _, has, _ := unstructured.NestedMap(now.(*unstructured.Unstructured).Object, "spec", "conversion", "webhook"); has {
			return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "CustomResourceDefinition"}, "sails.example.org", field.ErrorList{field.Required(field.NewPath("spec", "conversion", "strategy"), "")})
		}
		return false, nil, nil
	})
	if f := s.examine(t, sailsOf, o); len(f.Refused) != 0 || !strings.Contains(words(f), "conversion") || len(converters) != 0 {
		t.Errorf("foreseen: %q\n%s", f.Refused, words(f))
	}
	r := s.Dynamic.Resource(definitions)
	u := parsed(t, sailsOf)[0]
	if out, err := endConversion(t.Context(), r, u, live, metav1.ApplyOptions{FieldManager: FieldManager}); err != nil || out == nil || !slices.Equal(converters, []string{converter}) {
		t.Errorf("applied: %v %v, by %v", out, err, converters)
	}
	if !person(converter, o) {
		t.Error("our own entry would be another program's")
	}
}

// TestBarred: the plan names pods that the API would refuse, for workloads that change, and for new ones those that exceed a quota.
func TestBarred(t *testing.T) {
	set := fake.NewClientset()
	said := ""
	var tried []corev1.Pod
	set.PrependReactor("create", "pods", func(a ktest.Action) (bool, runtime.Object, error) {
		c := a.(ktest.CreateActionImpl)
		tried = append(tried, *c.Object.(*corev1.Pod))
		if len(c.CreateOptions.DryRun) != 1 {
			t.Error("a pod is made")
		}
		switch said {
		case "":
			return true, c.Object, nil
		case "gone":
			return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop")
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-x", fail.New(fail.Refused, "%s", said))
	})
	c := &Applier{Host: "https://fake", Set: set}
	workloads := parsed(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {template: {metadata: {labels: {a: b}}, spec: {serviceAccountName: new, priorityClassName: new, containers: [{name: c, image: x}]}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: night, namespace: shop}, spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: c, image: x}]}}}}}}
---
{apiVersion: x.org/v1, kind: Deployment, metadata: {name: other, namespace: shop}, spec: {template: {spec: {}}}}
`)
	const violates = `violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false`
	for _, tt := range []struct {
		said, action string
		want         []string
	}{
		{"", "create", nil}, {"gone", "create", nil},
		{violates, "create", []string{"Deployment shop/web: " + violates, "CronJob shop/night: " + violates}},
		{violates, "update", []string{"Deployment shop/web: " + violates, "CronJob shop/night: " + violates}},
		{"exceeded quota: small, requested: pods=1", "update", nil},
		{"exceeded quota: small, requested: pods=1", "create", []string{"Deployment shop/web: exceeded quota: small, requested: pods=1", "CronJob shop/night: exceeded quota: small, requested: pods=1"}},
	} {
		said, tried = tt.said, nil
		got, err := c.Barred(t.Context(), workloads, []delta.Delta{{Name: "Deployment shop/web", Action: tt.action}, {Name: "CronJob shop/night", Action: tt.action}, {Name: "Deployment shop/other", Action: tt.action}})
		if err != nil || !slices.Equal(got, tt.want) || len(tried) != 2 {
			t.Errorf("%q %s: %q, %v, %d tried", tt.said, tt.action, got, err, len(tried))
		}
		if p := tried[0]; p.Namespace != "shop" || p.Spec.ServiceAccountName+p.Spec.PriorityClassName != "" || p.Labels["a"] != "b" || len(p.Spec.Containers) != 1 {
			t.Errorf("tried %+v", p)
		}
	}
	if got, err := c.Barred(t.Context(), workloads, nil); err != nil || got != nil {
		t.Errorf("nothing changes: %v %v", got, err)
	}
}
