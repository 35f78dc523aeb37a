//go:build integration

package kube

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/testkit"
)

// setOf places the objects of a set in its namespace.
func setOf(t *testing.T, c *Client, o objects.Options, text string) []*unstructured.Unstructured {
	t.Helper()
	return testkit.Value(c.Place(t.Context(), testkit.Value(manifest.Parse([]byte(text)))(t), strings.TrimPrefix(o.Addon, objects.ManifestsPrefix), o.Addon))(t)
}

func applySet(t *testing.T, c *Client, o objects.Options, text string) {
	t.Helper()
	_, err := c.ApplyObjects(t.Context(), setOf(t, c, o, text), o)
	testkit.Must(t, err)
}

func claim(name string, labels map[string]string, owners ...metav1.OwnerReference) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, OwnerReferences: owners},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

const database = `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: x}]}}
`

// volumesOfOwners: claims that the garbage collector deletes with their removed owners count as lost, whether the set or the object is removed;
// claims without such owners do not.
func volumesOfOwners(t *testing.T, c *Client) {
	ctx, o := t.Context(), objects.Options{Addon: "manifests.lost", Prune: true, Shared: true}
	other := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"
	applySet(t, c, o, database+other)
	set := testkit.Value(c.set.AppsV1().StatefulSets("lost").Get(ctx, "db", metav1.GetOptions{}))(t)
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: set.UID}
	between := testkit.Value(c.set.CoreV1().ConfigMaps("lost").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "between", OwnerReferences: []metav1.OwnerReference{owner}}}, metav1.CreateOptions{}))(t)
	theirs := testkit.Value(c.set.CoreV1().ConfigMaps("lost").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, metav1.CreateOptions{}))(t)
	below := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "between", UID: between.UID}
	stays := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: theirs.UID}
	for _, pvc := range []*corev1.PersistentVolumeClaim{claim("direct", nil, owner), claim("indirect", nil, below), claim("free", nil), claim("shared", nil, owner, stays)} {
		_, err := c.set.CoreV1().PersistentVolumeClaims("lost").Create(ctx, pvc, metav1.CreateOptions{})
		testkit.Must(t, err)
	}
	check := func(what string, going []objects.Ref) {
		t.Helper()
		volumes, _, err := c.Lost(ctx, going)
		slices.Sort(volumes)
		if got := strings.Join(volumes, ", "); err != nil || got != "PersistentVolumeClaim lost/direct of StatefulSet db, PersistentVolumeClaim lost/indirect of ConfigMap between" {
			t.Errorf("%s: lost are %q: %v", what, got, err)
		}
	}
	going, _, _, err := c.Departing(ctx, o.Addon)
	testkit.Must(t, err)
	check("the set leaves", going)
	f := testkit.Value(c.Examine(ctx, setOf(t, c, o, other), o))(t)
	check("the object leaves", f.Pruned)
	if volumes, _, err := c.Lost(ctx, nil); err != nil || len(volumes) != 0 {
		t.Errorf("nothing leaves: %v %v", volumes, err)
	}
}

// copiedLabels: a claim that an operator made with a copy of our label, and objects that stay in the set, keep their namespace. An object whose
// owners are all removed does not.
func copiedLabels(t *testing.T, c *Client) {
	ctx := t.Context()
	there := func(namespace string) bool {
		t.Helper()
		ns, err := c.set.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false
		}
		testkit.Must(t, err)
		return ns.DeletionTimestamp == nil
	}
	o := objects.Options{Addon: "manifests.copied", Prune: true, Shared: true}
	applySet(t, c, o, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n")
	_, err := c.set.CoreV1().PersistentVolumeClaims("copied").Create(ctx, claim("retained", map[string]string{objects.AddonLabel: o.Addon}), metav1.CreateOptions{})
	testkit.Must(t, err)
	testkit.Must(t, c.Delete(ctx, nil, o))
	if pvc, err := c.set.CoreV1().PersistentVolumeClaims("copied").Get(ctx, "retained", metav1.GetOptions{}); err != nil || pvc.DeletionTimestamp != nil || !there("copied") {
		t.Errorf("the claim of the operator: %v %v", pvc, err)
	}

	own := objects.Options{Addon: "manifests.default", Prune: true, Shared: true} // its objects name another namespace
	space, conf := "apiVersion: v1\nkind: Namespace\nmetadata: {name: inner}\n---\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: inner}\n"
	applySet(t, c, own, space+conf)
	applySet(t, c, own, conf)
	if _, err := c.set.CoreV1().ConfigMaps("inner").Get(ctx, "conf", metav1.GetOptions{}); err != nil || !there("inner") {
		t.Errorf("the namespace left the set, its object did not: %v", err)
	}

	owned := objects.Options{Addon: "manifests.owned", Prune: true, Shared: true}
	applySet(t, c, owned, database)
	set := testkit.Value(c.set.AppsV1().StatefulSets("owned").Get(ctx, "db", metav1.GetOptions{}))(t)
	_, err = c.set.CoreV1().ConfigMaps("owned").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "child", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: set.UID}},
	}}, metav1.CreateOptions{})
	testkit.Must(t, err)
	testkit.Must(t, c.Delete(ctx, nil, owned))
	if there("owned") {
		t.Error("a namespace with what only the set's objects own stays")
	}

	kept := objects.Options{Addon: "manifests.kept", Prune: true, Shared: true}
	applySet(t, c, kept, "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, annotations: {helm.sh/resource-policy: keep}}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n")
	testkit.Must(t, c.Delete(ctx, nil, kept))
	if pvc, err := c.set.CoreV1().PersistentVolumeClaims("kept").Get(ctx, "data", metav1.GetOptions{}); err != nil || pvc.DeletionTimestamp != nil || !there("kept") {
		t.Errorf("the claim that its chart keeps: %v %v", pvc, err)
	}

	former, heir := objects.Options{Addon: "manifests.former", Prune: true, Shared: true}, objects.Options{Addon: "manifests.heir", Prune: true, Shared: true}
	const moving = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf, namespace: former}\n"
	applySet(t, c, former, moving)
	heir.From = []string{former.Addon}
	applySet(t, c, heir, moving)
	testkit.Must(t, c.Delete(ctx, nil, former))
	if _, err := c.set.CoreV1().ConfigMaps("former").Get(ctx, "conf", metav1.GetOptions{}); err != nil || !there("former") {
		t.Errorf("the namespace of an object that another set took over: %v", err)
	}
}

// replicasStay: when a set no longer says how many replicas there are, as with an autoscaler, the workload keeps them.
func replicasStay(t *testing.T, c *Client) {
	ctx, o := t.Context(), objects.Options{Addon: "manifests.scaled", Prune: true, Shared: true}
	applySet(t, c, o, database)
	silent := strings.Replace(database, "  replicas: 2\n", "", 1)
	if f := testkit.Value(c.Examine(ctx, setOf(t, c, o, silent), o))(t); len(f.Deltas) != 0 || f.Same {
		t.Errorf("the plan: %+v", f)
	}
	replicas := func() int32 {
		return *testkit.Value(c.set.AppsV1().StatefulSets("scaled").Get(ctx, "db", metav1.GetOptions{}))(t).Spec.Replicas
	}
	if applySet(t, c, o, silent); replicas() != 2 {
		t.Errorf("%d replicas", replicas())
	}
	_, err := c.set.AppsV1().StatefulSets("scaled").Patch(ctx, "db", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{FieldManager: "autoscaler"}, "scale")
	testkit.Must(t, err)
	if applySet(t, c, o, silent); replicas() != 5 {
		t.Errorf("%d replicas after the autoscaler's change", replicas())
	}
	if f := testkit.Value(c.Examine(ctx, setOf(t, c, o, silent), o))(t); !f.Clean() {
		t.Errorf("afterwards: %+v", f)
	}
}

// partialDiscovery: charts still see an API whose server is down.
func partialDiscovery(t *testing.T, c *Client) {
	applySet(t, c, objects.Options{Addon: "manifests.away", Shared: true}, "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.away.example.org}\n"+
		"spec: {group: away.example.org, version: v1, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {name: nowhere, namespace: default}}\n")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testkit.Must(t, answer.Poll(ctx, time.Second, func(ctx context.Context) error {
		all, err := c.APIs(ctx)
		if err == nil && (!slices.Contains(all, "away.example.org/v1") || !slices.Contains(all, "apps/v1/Deployment")) {
			return fail.New(fail.NotReady, "the API of a server that is away is not among %d", len(all))
		}
		return err
	}))
}
