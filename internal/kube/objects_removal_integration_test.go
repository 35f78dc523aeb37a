//go:build integration

package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/testkit"
)

const (
	fleet = `apiVersion: apps/v1
kind: Deployment
metadata: {name: captain}
spec:
  selector: {matchLabels: {app: captain}}
  template: {metadata: {labels: {app: captain}}, spec: {containers: [{name: c, image: x}]}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: captain}
`
	fleetKinds = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.fleet.example.org}
spec:
  group: fleet.example.org
  scope: Namespaced
  names: {kind: Boat, plural: boats}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: harbours.fleet.example.org}
spec:
  group: fleet.example.org
  scope: Cluster
  names: {kind: Harbour, plural: harbours}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	fleetObjects = `apiVersion: fleet.example.org/v1
kind: Boat
metadata: {name: theirs, namespace: default, finalizers: [fleet.example.org/moor]}
---
apiVersion: fleet.example.org/v1
kind: Harbour
metadata: {name: kiel, finalizers: [fleet.example.org/moor]}
`
)

var fleetResources = []schema.GroupVersionResource{
	{Group: "fleet.example.org", Version: "v1", Resource: "boats"}, {Group: "fleet.example.org", Version: "v1", Resource: "harbours"},
}

// captain is the controller of the fleet: while its Deployment exists it removes the finalizers of deleted objects, that of a harbour only when no
// boat is left. Like the controllers of certificates, it recreates a missing object. It returns what it did when ctx ends.
func captain(ctx context.Context, c *Client, namespace string) (done []string) {
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if _, err := c.set.AppsV1().Deployments(namespace).Get(ctx, "captain", metav1.GetOptions{}); err != nil {
			continue
		}
		boats := 0
		for _, gvr := range fleetResources {
			list, err := c.Dynamic.Resource(gvr).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			if gvr.Resource == "boats" {
				boats = len(list.Items)
			}
			for _, u := range list.Items {
				if u.GetDeletionTimestamp() == nil || gvr.Resource == "harbours" && boats > 0 {
					continue
				}
				_, err := c.Dynamic.Resource(gvr).Namespace(u.GetNamespace()).Patch(ctx, u.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				if err != nil {
					continue
				}
				if done = append(done, u.GetName()); u.GetName() == "theirs" {
					u.SetName("again")
					u.SetResourceVersion("")
					if _, err := c.Dynamic.Resource(gvr).Namespace(u.GetNamespace()).Create(ctx, &u, metav1.CreateOptions{}); err != nil {
						done = append(done, err.Error())
					}
				}
			}
		}
	}
	return done
}

// definitionsGo: objects of definitions that go, of whatever owner, are gone before their controller and their definitions are, whether the set leaves, or these leave
// the set. Without a controller, the removal fails by name, and leaves both.
func definitionsGo(t *testing.T, c *Client) {
	all, o := fleet+fleetKinds, objects.Options{Addon: "manifests.fleet", Prune: true, Shared: true}
	_, err := c.set.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}, metav1.CreateOptions{}) // the test does not wait for its end
	testkit.Must(t, err)
	there := func() (out []string) {
		for _, name := range []string{"boats.fleet.example.org", "harbours.fleet.example.org"} {
			_, err := c.Dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).Get(t.Context(), name, metav1.GetOptions{})
			if err == nil {
				out = append(out, name)
			} else if !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		if _, err := c.set.AppsV1().Deployments("fleet").Get(t.Context(), "captain", metav1.GetOptions{}); err == nil {
			out = append(out, "captain")
		}
		return out
	}
	begin := func() {
		t.Helper()
		applySet(t, c, o, all)
		_, err := c.Apply(t.Context(), []byte(fleetObjects), ApplyOptions{})
		testkit.Must(t, err)
	}
	remove := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		return c.Delete(ctx, nil, o)
	}
	prune := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := c.ApplyObjects(ctx, setOf(t, c, o, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: captain}\n"), o)
		return err
	}

	begin()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	err = c.Delete(ctx, nil, o)
	cancel()
	if err == nil || !strings.Contains(err.Error(), "Boat default/theirs is deleted but not gone: it has the finalizer fleet.example.org/moor") || len(there()) != 3 {
		t.Fatalf("without a controller: %v; there are %v", err, there())
	}
	for name, do := range map[string]func() error{"pruned": prune, "removed": remove} {
		if begin(); len(there()) != 3 {
			t.Fatalf("%s: %v", name, there())
		}
		ctx, cancel := context.WithCancel(t.Context())
		said := make(chan []string)
		go func() { said <- captain(ctx, c, "fleet") }()
		err := do()
		cancel()
		done := <-said
		testkit.Must(t, err)
		for _, object := range []string{"theirs", "kiel", "again"} {
			if !slices.Contains(done, object) {
				t.Errorf("%s: the controller saw the end of %v, not of %s", name, done, object)
			}
		}
		waitUndefined(t, name, there)
	}
}

func waitUndefined(t *testing.T, name string, there func() []string) {
	t.Helper()
	testkit.Until(t, 20*time.Second, 100*time.Millisecond, func() error {
		if left := there(); len(left) > 0 {
			return fmt.Errorf("%s: %v are still there", name, left)
		}
		return nil
	})
}

const lockedSet = `apiVersion: apps/v1
kind: Deployment
metadata: {name: gate}
spec:
  selector: {matchLabels: {app: gate}}
  template: {metadata: {labels: {app: gate}}, spec: {containers: [{name: c, image: broken}]}}
---
apiVersion: v1
kind: Service
metadata: {name: gate}
spec: {selector: {app: gate}, ports: [{port: 443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: gate.example.org}
webhooks:
  - name: gate.example.org
    admissionReviewVersions: [v1]
    sideEffects: None
    timeoutSeconds: 1
    clientConfig: {service: {name: gate, namespace: locked}}
    rules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
`

// ownWebhook: a set whose webhook does not answer can still be mended. A webhook of another owner stays.
func ownWebhook(t *testing.T, c *Client) {
	o := objects.Options{Addon: "manifests.locked", Prune: true, Shared: true}
	applySet(t, c, o, lockedSet)
	hooks := c.set.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	until := func(what string, done func(error) bool, text string, o objects.Options) {
		t.Helper()
		testkit.Must(t, answer.Poll(ctx, 100*time.Millisecond, func(ctx context.Context) error {
			_, err := c.ApplyObjects(ctx, setOf(t, c, o, text), o)
			if done(err) {
				return nil
			}
			return fail.New(fail.NotReady, "%s: %v", what, err)
		}))
	}
	other := objects.Options{Addon: "manifests.beside", Prune: true, Shared: true}
	until("the webhook works", func(err error) bool { return err != nil && strings.Contains(err.Error(), "failed calling webhook") }, scaledSet, other)
	if _, err := hooks.Get(ctx, "gate.example.org", metav1.GetOptions{}); err != nil {
		t.Errorf("another set's apply: %v", err)
	}
	until("the set is mended", func(err error) bool { return err == nil }, strings.Replace(lockedSet, "broken", "good", 1), o)
	if d := testkit.Value(c.set.AppsV1().Deployments("locked").Get(ctx, "gate", metav1.GetOptions{}))(t); d.Spec.Template.Spec.Containers[0].Image != "good" {
		t.Errorf("image %s", d.Spec.Template.Spec.Containers[0].Image)
	}
	if _, err := hooks.Get(ctx, "gate.example.org", metav1.GetOptions{}); err != nil {
		t.Errorf("the webhook afterwards: %v", err)
	}
	testkit.Must(t, c.Delete(ctx, nil, o))
}
