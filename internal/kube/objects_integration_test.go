//go:build integration

package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/testkit"
)

const sharedSet = `apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {a: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: pass}
stringData: {p: hunter2-very-secret}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sailor, namespace: ignored}
rules: []
---
apiVersion: example.org/v1
kind: Sail
metadata: {name: jib}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sails.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Sail, plural: sails}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// TestSharedSets follows a set that people and other programs work on, too: from its creation over edits by hand, conflicts and owners to its removal.
func TestSharedSets(t *testing.T) {
	c, ctx := startAPI(t).client(), t.Context()
	testkit.Must(t, c.WaitReady(ctx))
	o := objects.Options{Addon: "manifests.shop", Prune: true, Shared: true}
	place := func(text, namespace, key string) []*unstructured.Unstructured {
		t.Helper()
		return testkit.Value(c.Place(ctx, testkit.Value(manifest.Parse([]byte(text)))(t), namespace, key))(t)
	}
	examine := func(text string) objects.Finding {
		t.Helper()
		return testkit.Value(c.Examine(ctx, place(text, "shop", o.Addon), o))(t)
	}
	apply := func(text string) error {
		_, err := c.ApplyObjects(ctx, place(text, "shop", o.Addon), o)
		return err
	}
	lines := func(f objects.Finding) string {
		var all []string
		for i := range f.Deltas {
			all = append(all, f.Deltas[i].Line())
			for _, h := range f.Deltas[i].Hunks {
				all = append(all, h.Lines...)
			}
		}
		return strings.Join(append(all, f.Refused...), "\n")
	}

	first := examine(sharedSet)
	if text := lines(first); first.Clean() || !strings.Contains(text, "create Namespace shop") || !strings.Contains(text, "create Sail shop/jib") || strings.Contains(text, "hunter2") {
		t.Errorf("the first look:\n%s", text)
	}
	testkit.Must(t, apply(sharedSet))
	if f := examine(sharedSet); !f.Clean() {
		t.Errorf("a second apply would do:\n%s", lines(f))
	}

	// Apply refuses objects that the API server rejects before it applies any.
	for wrong, want := range map[string]string{
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: wrong}\nspec: {replica: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}\n": ".spec.replica: field not declared in schema",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: wrong}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c, image: x}]}}}\n":             "spec.template.metadata.labels",
		"apiVersion: v1\nkind: Service\nmetadata: {name: wrong}\nspec: {ports: [{port: 70000}]}\n":                                                                                                                 "spec.ports[0].port: must be between 1 and 65535",
		"apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: wrong}\nspec: {minAvailable: 1}\n":                                                                                                "the cluster does not serve PodDisruptionBudget of policy/v1beta1 (write it as policy/v1)",
		"apiVersion: policy/v1beta1\nkind: PodSecurityPolicy\nmetadata: {name: wrong}\nspec: {}\n":                                                                                                                 "this release of Kubernetes does not have it",
	} {
		if f := examine(sharedSet + "---\n" + wrong); len(f.Refused) != 1 || !strings.Contains(f.Refused[0], want) {
			t.Errorf("%s: %q", want, f.Refused)
		}
	}

	// Apply reverts a person's edit. It keeps another program's field, unless the set forces its own.
	maps := c.set.CoreV1().ConfigMaps("shop")
	patch := func(by, data string) {
		t.Helper()
		_, err := maps.Patch(ctx, "conf", types.MergePatchType, []byte(`{"data":{"a":"`+data+`"}}`), metav1.PatchOptions{FieldManager: by})
		testkit.Must(t, err)
	}
	patch("kubectl-edit", "2")
	if f := examine(sharedSet); !strings.Contains(lines(f), "ConfigMap shop/conf data.a: 2 -> 1") || len(f.Refused) > 0 {
		t.Errorf("after an edit:\n%s", lines(f))
	}
	testkit.Must(t, apply(sharedSet))
	patch("tuner", "3")
	if f := examine(sharedSet); !f.Clean() || strings.Join(f.Left, "") != "ConfigMap shop/conf data.a (tuner)" {
		t.Errorf("after another program's change: %v\n%s", f.Left, lines(f))
	}
	changed := strings.Replace(sharedSet, `{a: "1"}`, `{a: "4"}`, 1)
	if f := examine(changed); f.Clean() || !strings.Contains(lines(f), "data.a (tuner)") {
		t.Errorf("the set changes what another program changed:\n%s", lines(f))
	}
	wantFail(t, apply(changed), fail.Conflict, "data.a (tuner)")
	o.Force = true
	testkit.Must(t, apply(sharedSet))
	o.Force = false
	if cm := testkit.Value(maps.Get(ctx, "conf", metav1.GetOptions{}))(t); cm.Data["a"] != "1" {
		t.Errorf("forced: %v", cm.Data)
	}

	// Apply refuses an object of another owner by name, even with Force.
	other := objects.Options{Addon: "charts.ship", Shared: true, Force: true}
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %}\nrules: []\n"
	for name, owner := range map[string]string{"sailor": "manifests shop", "cluster-admin": "Kubernetes itself", "system:coredns": "Kubernetes itself", "helmed": "Helm release apps/old"} {
		text := strings.Replace(role, "%", name, 1)
		if name == "helmed" {
			_, err := c.set.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
				Name: name, Annotations: map[string]string{"meta.helm.sh/release-name": "old", "meta.helm.sh/release-namespace": "apps"},
			}}, metav1.CreateOptions{})
			testkit.Must(t, err)
		}
		if name == "system:coredns" {
			_, err := c.Apply(ctx, []byte(text), ApplyOptions{})
			testkit.Must(t, err)
		}
		_, err := c.ApplyObjects(ctx, place(text, "default", other.Addon), other)
		wantFail(t, err, fail.Conflict, "ClusterRole "+name, owner)
	}
	adopting := objects.Options{Addon: "charts.old", Shared: true, Helm: "apps/old"}
	_, err := c.ApplyObjects(ctx, place(strings.Replace(role, "%", "helmed", 1), "default", adopting.Addon), adopting)
	testkit.Must(t, err)

	// Definitions with objects of others are named as a loss.
	_, err = c.Apply(ctx, []byte("apiVersion: example.org/v1\nkind: Sail\nmetadata: {name: theirs, namespace: default}\n"), ApplyOptions{})
	testkit.Must(t, err)
	going, _, once, err := c.Departing(ctx, o.Addon)
	testkit.Must(t, err)
	if _, defined, err := c.Lost(ctx, going); err != nil || once || len(defined) != 1 || !strings.Contains(defined[0], "sails.example.org with 1 objects") {
		t.Errorf("lost: %v %v", defined, err)
	}

	// Objects that leave the set are pruned. A namespace with objects of others stays.
	fewer := strings.Join(strings.SplitAfter(sharedSet, "---\n")[1:], "")
	if f := examine(fewer); len(f.Pruned) != 1 || !strings.Contains(lines(f), "remove object ConfigMap shop/conf") && !strings.Contains(lines(f), "remove ConfigMap shop/conf") {
		t.Errorf("one fewer:\n%s", lines(f))
	}
	testkit.Must(t, apply(fewer))
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, metav1.CreateOptions{})
	testkit.Must(t, err)
	testkit.Must(t, c.Delete(ctx, nil, o))
	if ns, err := c.set.CoreV1().Namespaces().Get(ctx, "shop", metav1.GetOptions{}); err != nil || ns.DeletionTimestamp != nil || ns.Labels[objects.AddonLabel] != "" {
		t.Errorf("the namespace with an object of another owner: %v %v", ns, err)
	}
	if _, err := c.set.RbacV1().ClusterRoles().Get(ctx, "sailor", metav1.GetOptions{}); err == nil {
		t.Error("ClusterRole sailor is still there")
	}
	if left := testkit.Value(c.Addons(ctx))(t); len(left) != 2 { // charts.ship was refused, but its inventory was begun
		t.Errorf("inventories: %v", left)
	}
	for _, more := range []struct {
		name string
		test func(*testing.T, *Client)
	}{
		{"volumes of owners", volumesOfOwners}, {"copied labels", copiedLabels}, {"autoscaling", replicasStay}, {"partial discovery", partialDiscovery}, {"removed definitions", definitionsGo},
		{"later decisions", laterDecisions}, {"stray defaults", strayDefaults}, {"edited addons", editedAddons}, {"own webhook", ownWebhook},
	} {
		t.Run(more.name, func(t *testing.T) { more.test(t, c) })
	}
}
