package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	metafake "k8s.io/client-go/metadata/fake"
	ktest "k8s.io/client-go/testing"

	"github.com/naupegos/naupegos/internal/fail"
)

const (
	configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: shop}\ndata: {a: x}\n"
	keptClaim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: shop, annotations: {helm.sh/resource-policy: keep}}\n"
)

// TestKeep: objects with helm.sh/resource-policy keep stay, whether they or their set leave the document, and no longer belong to the set.
func TestKeep(t *testing.T) {
	o := Options{Addon: "charts.shop", Prune: true, Shared: true}
	for _, whole := range []bool{false, true} {
		s := newSea(t)
		s.apply(t, configMap+"---\n"+keptClaim, o)
		if whole {
			going, stays, _, err := s.Departing(t.Context(), o.Addon)
			if err != nil || len(going) != 1 || len(stays) != 1 || stays[0].Kind != "PersistentVolumeClaim" {
				t.Errorf("departing: %v, stays %v: %v", going, stays, err)
			}
			if err := s.Delete(t.Context(), nil, o); err != nil {
				t.Fatal(err)
			}
		} else {
			if f := s.examine(t, configMap, o); f.Clean() || len(f.Pruned) != 0 || !strings.Contains(words(f), "PersistentVolumeClaim shop/data") || !strings.Contains(words(f), "stays") {
				t.Errorf("pruned %v:\n%s", f.Pruned, words(f))
			}
			s.apply(t, configMap, o)
			if f := s.examine(t, configMap, o); !f.Clean() {
				t.Errorf("afterwards:\n%s", words(f))
			}
		}
		if u := s.live(t, keptClaim); u == nil || u.GetLabels()[AddonLabel] != "" || u.GetAnnotations()[DigestAnnotation] != "" {
			t.Errorf("whole %t: the claim is %v", whole, u)
		}
		if gone := s.live(t, configMap) == nil; gone != whole {
			t.Errorf("whole %t: the ConfigMap is gone: %t", whole, gone)
		}
	}
}

// TestMode: a change of the mode alone is a difference in both directions, and Remember writes it without touching an object.
func TestMode(t *testing.T) {
	s, full := newSea(t), Options{Addon: "manifests.shop", Prune: true, Shared: true}
	once := full
	once.Once = true
	s.apply(t, configMap, full)
	f, err := s.Applied(t.Context(), once)
	if err != nil || f.Clean() || !f.OnlyMode() {
		t.Errorf("full, then once: %+v %v", f, err)
	}
	before := len(s.dyn.Actions())
	if err := s.Remember(t.Context(), once); err != nil || len(s.dyn.Actions()) != before {
		t.Errorf("the change of the mode touched objects: %v %v", s.dyn.Actions()[before:], err)
	}
	if f, err := s.Applied(t.Context(), once); err != nil || !f.Clean() {
		t.Errorf("recorded: %+v %v", f, err)
	}
	if f := s.examine(t, configMap, full); f.Clean() || !f.OnlyMode() {
		t.Errorf("once, then full: %+v", f)
	}
	if err := s.Remember(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	if f := s.examine(t, configMap, full); !f.Clean() {
		t.Errorf("recorded again: %+v", f)
	}
}

const shortJob = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: seed, namespace: shop}\nspec: {ttlSecondsAfterFinished: 5, template: {spec: {containers: [{name: a, image: a}]}}}\n"

// TestVanishedJob: a Job that the cluster deleted when it had ended is no difference, and the repair of another object does not run it again. A changed Job runs.
func TestVanishedJob(t *testing.T) {
	s, o := newSea(t), Options{Addon: "manifests.shop", Prune: true, Shared: true}
	both := configMap + "---\n" + shortJob
	s.apply(t, both, o)
	if err := s.Remove(t.Context(), parsed(t, shortJob)[0]); err != nil {
		t.Fatal(err)
	}
	if f := s.examine(t, both, o); !f.Clean() {
		t.Errorf("the Job is gone:\n%s", words(f))
	}
	s.apply(t, both, o)
	if s.live(t, shortJob) != nil {
		t.Error("the Job runs again")
	}
	changed := strings.Replace(both, "image: a", "image: b", 1)
	if f := s.examine(t, changed, o); !strings.Contains(words(f), "create Job shop/seed") && !strings.Contains(words(f), "create object Job shop/seed") {
		t.Errorf("another image:\n%s", words(f))
	}
	s.apply(t, changed, o)
	if s.live(t, shortJob) == nil {
		t.Error("the changed Job does not run")
	}
}

const (
	operator = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: captain, namespace: shop}\n"
	sails    = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: sails.example.org}\n" +
		"spec: {group: example.org, names: {kind: Sail, plural: sails}}\nstatus: {conditions: [{type: Established, status: \"True\"}]}\n"
	sail = "apiVersion: example.org/v1\nkind: Sail\nmetadata: {name: jib, namespace: shop, finalizers: [example.org/furl]}\n"
)

// TestOperatorOutlivesFinalizers: while a custom resource has a finalizer, its operator stays; the error names both, and the removal continues when
// the finalizer is gone.
func TestOperatorOutlivesFinalizers(t *testing.T) {
	for _, whole := range []bool{true, false} {
		s, o := newSea(t), Options{Addon: "manifests.fleet", Prune: true, Shared: true}
		all := configMap + "---\n" + operator + "---\n" + sail
		s.apply(t, all, o)
		furled := false
		s.dyn.PrependReactor("delete", "sails", func(ktest.Action) (bool, runtime.Object, error) { return !furled, nil, nil })
		remove := func(ctx context.Context) error {
			if whole {
				return s.Delete(ctx, nil, o)
			}
			_, err := s.ApplyObjects(ctx, parsed(t, configMap), o)
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		err := remove(ctx)
		cancel()
		if err == nil || !fail.Waitable(err) || !strings.Contains(err.Error(), "Sail shop/jib") || !strings.Contains(err.Error(), "example.org/furl") {
			t.Errorf("whole %t: %v", whole, err)
		}
		if s.live(t, operator) == nil {
			t.Errorf("whole %t: the operator is gone before its object", whole)
		}
		furled = true
		if err := remove(t.Context()); err != nil || s.live(t, operator) != nil || s.live(t, sail) != nil {
			t.Errorf("whole %t: at last: %v", whole, err)
		}
	}
}

// TestOperatorOutlivesDefinitions: while an object of a removed definition has a finalizer, the operator and the definition stay, and the error names
// the object.
func TestOperatorOutlivesDefinitions(t *testing.T) {
	for _, shared := range []bool{true, false} {
		s, o := newSea(t), Options{Addon: "fleet", Prune: true, Shared: shared}
		s.apply(t, sails+"---\n"+operator, o)
		scheme := metafake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		theirs := metafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "example.org/v1", Kind: "Sail"},
			ObjectMeta: metav1.ObjectMeta{Name: "jib", Namespace: "shop", UID: "1", Finalizers: []string{"example.org/furl"}}})
		s.Meta = theirs
		furled := false
		theirs.PrependReactor("delete", "sails", func(ktest.Action) (bool, runtime.Object, error) { return !furled, nil, nil })
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		err := s.Delete(ctx, nil, o)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "Sail shop/jib") || !strings.Contains(err.Error(), "example.org/furl") {
			t.Errorf("shared %t: %v", shared, err)
		}
		if s.live(t, operator) == nil || s.live(t, sails) == nil {
			t.Errorf("shared %t: the operator or the definition is gone before the object", shared)
		}
		furled = true
		if err := s.Delete(t.Context(), nil, o); err != nil || s.live(t, operator) != nil || s.live(t, sails) != nil {
			t.Errorf("shared %t: at last: %v", shared, err)
		}
	}
}

// TestForgottenSet: the objects of a forgotten set belong to no set, and a label of a missing set binds no object. The label of an existing set
// counts.
func TestForgottenSet(t *testing.T) {
	s, first, second := newSea(t), Options{Addon: "manifests.first", Prune: true, Shared: true, Once: true}, Options{Addon: "manifests.second", Prune: true, Shared: true}
	s.apply(t, configMap, first)
	if f := s.examine(t, configMap, second); len(f.Refused) != 1 || !strings.Contains(words(f), "manifests first") {
		t.Errorf("while the first set is there:\n%s", words(f))
	}
	if err := s.Forget(t.Context(), first.Addon); err != nil {
		t.Fatal(err)
	}
	if u := s.live(t, configMap); u == nil || u.GetLabels()[AddonLabel] != "" {
		t.Errorf("forgotten: %v", u)
	}
	if _, err := s.ApplyHook(t.Context(), parsed(t, sail)[0], Options{Addon: "charts.gone", Shared: true}); err != nil {
		t.Fatal(err)
	}
	s.apply(t, configMap+"---\n"+sail, second)
	if got := s.live(t, sail).GetLabels()[AddonLabel]; got != second.Addon {
		t.Errorf("the hook's object belongs to %q", got)
	}
}

// TestImmutableFields: Apply refuses a change of an immutable field with a remedy, and without the value; it recreates a Job that has ended.
func TestImmutableFields(t *testing.T) {
	s, o := newSea(t), Options{Addon: "manifests.shop", Prune: true, Shared: true}
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: seed, namespace: shop}\nspec: {template: a}\n"
	s.apply(t, job, o)
	s.dyn.PrependReactor("patch", "jobs", func(a ktest.Action) (bool, runtime.Object, error) {
		p := a.(ktest.PatchActionImpl)
		live, err := s.dyn.Tracker().Get(p.GetResource(), p.GetNamespace(), p.GetName())
		if p.GetPatchType() != types.ApplyPatchType || err != nil || !strings.Contains(string(p.GetPatch()), `"template":"b"`) || live.(*unstructured.Unstructured).Object["spec"].(map[string]any)["template"] == "b" {
			return false, nil, nil
		}
		return true, nil, apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "seed", field.ErrorList{field.Invalid(field.NewPath("spec", "template"), map[string]any{"env": "hunter22"}, "field is immutable")})
	})
	changed := strings.Replace(job, "template: a", "template: b", 1)
	f := s.examine(t, changed, o)
	if len(f.Refused) != 1 || !strings.Contains(f.Refused[0], "spec.template: field is immutable") || !strings.Contains(f.Refused[0], "wait until the Job has ended") || strings.Contains(words(f), "hunter22") {
		t.Errorf("a Job that runs: %q\n%s", f.Refused, words(f))
	}
	if _, err := s.ApplyObjects(t.Context(), parsed(t, changed), o); fail.KindOf(err) != fail.Conflict {
		t.Errorf("a Job that runs: %v", err)
	}
	s.edit(t, job, func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True"}}}
	})
	if f := s.examine(t, changed, o); len(f.Refused) != 0 || !strings.Contains(words(f), "deleted and made again") {
		t.Errorf("a Job that has ended: %q\n%s", f.Refused, words(f))
	}
	s.apply(t, changed, o)
	if u := s.live(t, job); u == nil || u.Object["spec"].(map[string]any)["template"] != "b" {
		t.Errorf("replaced: %v", u)
	}
}

// TestRenamedSet: a set takes over the objects of one that leaves the document, and the removal of that one keeps them.
func TestRenamedSet(t *testing.T) {
	s, former, o := newSea(t), Options{Addon: "manifests.web", Prune: true, Shared: true}, Options{Addon: "manifests.site", Prune: true, Shared: true}
	s.apply(t, configMap+"---\n"+operator, former)
	if f := s.examine(t, operator, o); len(f.Refused) != 1 {
		t.Errorf("while both are listed:\n%s", words(f))
	}
	o.From = []string{former.Addon}
	if f := s.examine(t, operator, o); len(f.Refused) != 0 {
		t.Errorf("refused:\n%s", words(f))
	}
	s.apply(t, operator, o)
	if err := s.Delete(t.Context(), nil, former); err != nil {
		t.Fatal(err)
	}
	if u := s.live(t, operator); u == nil || u.GetLabels()[AddonLabel] != o.Addon || s.live(t, configMap) != nil {
		t.Errorf("the Deployment: %v; the ConfigMap: %v", u, s.live(t, configMap))
	}
}

// TestInheritance: the set takes over fields of Helm 3 and 4 and of kubectl, not fields of controllers and of status.
func TestInheritance(t *testing.T) {
	entry := func(manager, operation, subresource, name string) any {
		m := map[string]any{"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:data": map[string]any{"f:" + name: map[string]any{}}}}
		if subresource != "" {
			m["subresource"] = subresource
		}
		return m
	}
	u := parsed(t, configMap)[0]
	terraform := entry("terraform-provider-helm_v2.17.0_x5", "Update", "", "tf").(map[string]any)
	terraform["fieldsV1"].(map[string]any)["f:metadata"] = map[string]any{"f:annotations": map[string]any{"f:meta.helm.sh/release-name": map[string]any{}}}
	u.Object["metadata"].(map[string]any)["managedFields"] = []any{
		terraform,
		entry("helm", "Apply", "", "four"), entry("Helm", "Update", "", "three"), entry("kubectl", "Apply", "", "server"), entry("tuner", "Apply", "", "tuned"), entry("helm", "Update", "status", "state"),
	}
	raw, err := inheritance(u)
	var patch []struct {
		Path  string
		Value any
	}
	if err == nil {
		err = json.Unmarshal(raw, &patch)
	}
	if err != nil || len(patch) == 0 || patch[0].Path != "/metadata/managedFields" {
		t.Fatalf("%s: %v", raw, err)
	}
	left := map[string]string{}
	for _, m := range patch[0].Value.([]any) {
		m := m.(map[string]any)
		left[m["manager"].(string)+" "+m["operation"].(string)] = fmt.Sprint(m["fieldsV1"])
	}
	ours := left[FieldManager+" Apply"]
	if len(left) != 3 || !strings.Contains(ours, "f:four") || !strings.Contains(ours, "f:three") || !strings.Contains(ours, "f:server") || !strings.Contains(ours, "f:tf") || strings.Contains(ours, "tuned") || left["tuner Apply"] == "" || left["helm Update"] == "" {
		t.Errorf("%v", left)
	}
	if raw, err := inheritance(parsed(t, configMap)[0]); err != nil || raw != nil {
		t.Errorf("nothing to take over: %s %v", raw, err)
	}
}

// TestMovedObject: an object that moves from one set to another in one edit stays, whichever is applied first, and is neither refused nor lost.
func TestMovedObject(t *testing.T) {
	id := RefOf(parsed(t, operator)[0]).Identity()
	for _, formerFirst := range []bool{true, false} {
		s, former, o := newSea(t), Options{Addon: "manifests.all", Prune: true, Shared: true}, Options{Addon: "manifests.db", Prune: true, Shared: true}
		s.apply(t, configMap+"---\n"+operator, former)
		s.edit(t, operator, func(u *unstructured.Unstructured) { u.SetUID("the-first") })
		if f := s.examine(t, operator, o); len(f.Refused) != 1 {
			t.Errorf("without a word about the move:\n%s", words(f))
		}
		former.Heirs, o.Moved = map[string]string{id: o.Addon}, map[string]string{id: former.Addon}
		if f := s.examine(t, configMap, former); len(f.Pruned) != 0 || !strings.Contains(words(f), "moves to manifests db") {
			t.Errorf("the former set: %v\n%s", f.Pruned, words(f))
		}
		if f := s.examine(t, operator, o); len(f.Refused) != 0 {
			t.Errorf("the new set:\n%s", words(f))
		}
		deleted := 0
		s.dyn.PrependReactor("delete", "*", func(ktest.Action) (bool, runtime.Object, error) { deleted++; return false, nil, nil })
		if formerFirst {
			s.apply(t, configMap, former)
		}
		s.apply(t, operator, o)
		if !formerFirst {
			s.apply(t, configMap, former)
		}
		if u := s.live(t, operator); deleted != 0 || u == nil || u.GetLabels()[AddonLabel] != o.Addon {
			t.Errorf("former first %t: %d deletions, %v", formerFirst, deleted, u)
		}
		former.Heirs, o.Moved = nil, nil
		if f := s.examine(t, configMap, former); !f.Clean() {
			t.Errorf("the former set afterwards:\n%s", words(f))
		}
		if f := s.examine(t, operator, o); !f.Clean() {
			t.Errorf("the new set afterwards:\n%s", words(f))
		}
	}
}

// TestOwnersOfObjects: the objects of other tools, of controllers and of the cluster itself belong to them.
func TestOwnersOfObjects(t *testing.T) {
	yes := "true"
	for _, c := range []struct{ text, want string }{
		{"{name: a, labels: {kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: flux}}", "the Kustomization flux/apps of Flux"},
		{"{name: a, labels: {helm.toolkit.fluxcd.io/name: web, helm.toolkit.fluxcd.io/namespace: flux}}", "the HelmRelease flux/web of Flux"},
		{"{name: a, annotations: {argocd.argoproj.io/tracking-id: 'shop:/ConfigMap:shop/a'}}", "the application shop of Argo CD"},
		{"{name: a, ownerReferences: [{apiVersion: example.org/v1, kind: Sail, name: jib, uid: u, controller: " + yes + "}]}", "Sail jib"},
		{"{name: a, ownerReferences: [{apiVersion: example.org/v1, kind: Sail, name: jib, uid: u}]}", ""},
		{"{name: coredns, namespace: kube-system}", "Kubernetes itself"},
		{"{name: coredns, namespace: shop}", ""},
		{"{name: a, annotations: {" + DigestAnnotation + ": x}}", ""},
		{"{name: a, annotations: {" + DigestAnnotation + ": x}, labels: {" + AddonLabel + ": manifests.shop}}", ""},
	} {
		if got := ownerOf(parsed(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: "+c.text+"\n")[0], Options{Addon: "manifests.shop"}); got != c.want {
			t.Errorf("%s belongs to %q, want %q", c.text, got, c.want)
		}
	}
}

// TestEssentialObjectStays: an object that the cluster needs and a set took outlives the set.
func TestEssentialObjectStays(t *testing.T) {
	s, o := newSea(t), Options{Addon: "manifests.dns", Prune: true, Shared: true}
	dns := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: coredns, namespace: kube-system}\n"
	s.apply(t, dns+"---\n"+configMap, o) // it did not exist
	going, staying, _, err := s.Departing(t.Context(), o.Addon)
	if err != nil || len(going) != 1 || len(staying) != 1 {
		t.Errorf("going %v, staying %v: %v", going, staying, err)
	}
	if err := s.Delete(t.Context(), nil, o); err != nil || s.live(t, dns) == nil || s.live(t, configMap) != nil {
		t.Errorf("%v; CoreDNS: %v, the other: %v", err, s.live(t, dns), s.live(t, configMap))
	}
}

// TestForesee: nothing of a set is written if one object is refused, also with Force.
func TestForesee(t *testing.T) {
	s, o := newSea(t), Options{Addon: "metrics-server", Prune: true, Shared: true, Force: true}
	helmed := strings.Replace(operator, "namespace: shop", "namespace: shop, annotations: {meta.helm.sh/release-name: metrics, meta.helm.sh/release-namespace: kube-system}", 1)
	if err := s.dyn.Tracker().Create(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, parsed(t, helmed)[0], "shop"); err != nil {
		t.Fatal(err)
	}
	err := s.Foresee(t.Context(), parsed(t, configMap+"---\n"+operator), o)
	if fail.KindOf(err) != fail.Conflict || !strings.Contains(err.Error(), "Helm release kube-system/metrics") || s.live(t, configMap) != nil {
		t.Errorf("%v; the ConfigMap: %v", err, s.live(t, configMap))
	}
	if err := s.Foresee(t.Context(), parsed(t, configMap), o); err != nil {
		t.Errorf("a set that nothing is against: %v", err)
	}
}

// TestDyingObject: Apply does not apply to an object that is being deleted, because the change would be lost with it.
func TestDyingObject(t *testing.T) {
	s, o := newSea(t), Options{Addon: "manifests.shop", Prune: true, Shared: true}
	dying := parsed(t, strings.Replace(keptClaim, "namespace: shop", "namespace: shop, deletionTimestamp: 2026-01-01T00:00:00Z, finalizers: [kubernetes.io/pvc-protection]", 1))[0]
	if err := s.dyn.Tracker().Create(schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, dying, "shop"); err != nil {
		t.Fatal(err)
	}
	if f := s.examine(t, keptClaim, o); len(f.Refused) != 0 || !strings.Contains(words(f), "is being deleted") || !strings.Contains(words(f), "kubernetes.io/pvc-protection") {
		t.Errorf("%q:\n%s", f.Refused, words(f))
	}
	if _, err := s.ApplyObjects(t.Context(), parsed(t, keptClaim), o); fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), "kubernetes.io/pvc-protection") {
		t.Errorf("applied: %v", err)
	}
}

// TestOldVersionIsPruned: an object that the inventory has in a version that is no longer served is pruned.
func TestOldVersionIsPruned(t *testing.T) {
	s, o := newSea(t), Options{Addon: "manifests.fleet", Prune: true, Shared: true}
	s.apply(t, configMap+"---\n"+sail, o)
	inv, err := s.inventory(t.Context(), o.Addon)
	if err != nil {
		t.Fatal(err)
	}
	for i := range inv.Objects {
		if inv.Objects[i].Kind == "Sail" {
			inv.Objects[i].APIVersion = "example.org/v1beta1"
		}
	}
	if err := s.record(t.Context(), o, inv); err != nil {
		t.Fatal(err)
	}
	if f := s.examine(t, configMap, o); len(f.Pruned) != 1 {
		t.Errorf("pruned %v", f.Pruned)
	}
	s.apply(t, configMap, o)
	if s.live(t, sail) != nil {
		t.Error("the Sail stays for ever")
	}
}

// TestInterruptedMend: after an interruption, a repair is still a repair, and a change of a known set is still a change.
func TestInterruptedMend(t *testing.T) {
	s, o := newSea(t), Options{Addon: "charts.shop", Prune: true, Shared: true, Hooks: "h1"}
	changed := strings.Replace(configMap, "a: x", "a: z", 1)
	interrupted := func(text string) Finding {
		t.Helper()
		s.dyn.PrependReactor("patch", "configmaps", func(ktest.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewServiceUnavailable("away")
		})
		if _, err := s.ApplyObjects(t.Context(), parsed(t, text), o); err == nil {
			t.Fatal("not interrupted")
		}
		s.dyn.ReactionChain = s.dyn.ReactionChain[1:]
		return s.examine(t, text, o)
	}
	if f := interrupted(configMap); f.Known || f.Mends() {
		t.Errorf("the first apply: %+v", f)
	}
	s.apply(t, configMap, o)
	if f := interrupted(configMap); f.Clean() || !f.Known || !f.Mends() {
		t.Errorf("a repair: %+v", f)
	}
	if f := interrupted(changed); f.Clean() || !f.Known || f.Mends() {
		t.Errorf("a change: %+v", f)
	}
	if f := s.examine(t, configMap, o); f.Clean() || f.Mends() {
		t.Errorf("back again: %+v", f)
	}
	if f := interrupted(configMap); f.Clean() || f.Mends() {
		t.Errorf("back again, interrupted: %+v", f)
	}
	s.apply(t, configMap, o)
	o.Hooks = "h2"
	if f := s.examine(t, configMap, o); f.Clean() || f.Mends() || !f.Hooked {
		t.Errorf("other hooks: %+v", f)
	}
	s.apply(t, configMap, o)
	if f := s.examine(t, configMap, o); !f.Clean() {
		t.Errorf("afterwards:\n%s", words(f))
	}
}

// TestRedefinedKind: an object with a field that its definition gets in the same set is not refused.
func TestRedefinedKind(t *testing.T) {
	s, o := newSea(t), Options{Addon: "manifests.fleet", Prune: true, Shared: true}
	definition := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: sails.example.org}\nspec: {group: example.org, names: {kind: Sail}}\n"
	s.dyn.PrependReactor("patch", "sails", func(ktest.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("failed to create typed patch object (shop/jib; example.org/v1, Kind=Sail): .spec.area: field not declared in schema")
	})
	if f := s.examine(t, sail, o); len(f.Refused) != 1 || !strings.Contains(f.Refused[0], ".spec.area") {
		t.Errorf("without the definition: %q", f.Refused)
	}
	if f := s.examine(t, definition+"---\n"+sail, o); len(f.Refused) != 0 || !strings.Contains(words(f), "before its definition changes") {
		t.Errorf("with it: %q\n%s", f.Refused, words(f))
	}
}

// TestRemovedLabel: Apply repairs an object of the set after a person has removed its label.
func TestRemovedLabel(t *testing.T) {
	s, o := newSea(t), Options{Addon: "manifests.shop", Prune: true, Shared: true}
	s.apply(t, configMap, o)
	s.edit(t, configMap, func(u *unstructured.Unstructured) { u.SetLabels(nil) })
	if f := s.examine(t, configMap, o); f.Clean() || len(f.Refused) != 0 {
		t.Errorf("its own set:\n%s", words(f))
	}
	s.apply(t, configMap, o)
	if f := s.examine(t, configMap, o); !f.Clean() {
		t.Errorf("afterwards:\n%s", words(f))
	}
}

// TestUninstalledRelease: Apply does not take over a Helm release of which only the history remains.
func TestUninstalledRelease(t *testing.T) {
	s := newSea(t)
	for version, status := range map[string]string{"1": "superseded", "2": "uninstalled"} {
		_, err := s.Set.CoreV1().Secrets("shop").Create(t.Context(), &corev1.Secret{Type: "helm.sh/release.v1", ObjectMeta: metav1.ObjectMeta{
			Name: "sh.helm.release.v1.web.v" + version, Namespace: "shop", Labels: map[string]string{"owner": "helm", "name": "web", "version": version, "status": status},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	if name, err := s.HelmRelease(t.Context(), "shop", "web"); err != nil || name != "" {
		t.Errorf("%q, %v", name, err)
	}
}
