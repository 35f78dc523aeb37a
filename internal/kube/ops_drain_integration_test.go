//go:build integration

package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func (o *operations) drain(t *testing.T) {
	ctx := short(t, 2*time.Minute)
	_, err := o.c.Apply(ctx, []byte(`apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep-two, namespace: default}
spec: {minAvailable: 2, selector: {matchLabels: {app: deployment}}}
`), ApplyOptions{})
	testkit.Must(t, err)
	o.eventually(t, "the budget is counted", func() bool {
		b, err := o.c.set.PolicyV1().PodDisruptionBudgets("default").Get(ctx, "keep-two", metav1.GetOptions{})
		return err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy == 2
	})
	pods, err := o.c.PodsOn(ctx, "w1")
	testkit.Must(t, err)
	if len(pods) < 2 || pods[0].Owner == "" {
		t.Fatalf("pods of the Deployment and the DaemonSet should be on w1: %+v", pods)
	}
	o.obstacles(ctx, t, "drain of node w1 would wait: default/deployment-", "is held by disruption budget keep-two")
	var log []string
	opts := DrainOptions{Timeout: 3 * time.Second, Log: func(s string) { log = append(log, s) }}
	err = o.c.Drain(ctx, "w1", opts)
	wantFail(t, err, fail.NotReady, "default/deployment-", "disruption budget keep-two (2 healthy, 2 needed)")
	if !slices.ContainsFunc(log, func(l string) bool {
		return strings.HasPrefix(l, "waiting: default/deployment-") && strings.Contains(l, "is held by disruption budget keep-two (2 healthy, 2 needed)")
	}) {
		t.Errorf("no obstacle names what holds the pods:\n%s", strings.Join(log, "\n"))
	}
	if len(log) == 0 {
		t.Error("nothing was logged")
	}
	_, err = o.c.set.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lonely"},
		Spec: corev1.PodSpec{NodeName: "w1", Containers: []corev1.Container{{Name: "c", Image: "good:1"}}}}, metav1.CreateOptions{})
	testkit.Must(t, err)
	wantFail(t, o.c.Drain(ctx, "w1", opts), fail.Refused, "default/lonely")
	o.obstacles(ctx, t, "drain of node w1 would be refused: ", "default/lonely")
	testkit.Must(t, o.c.set.PolicyV1().PodDisruptionBudgets("default").Delete(ctx, "keep-two", metav1.DeleteOptions{}))
	o.k.set(func() { o.k.hang = "lonely" })
	opts.Force = true
	wantFail(t, o.c.Drain(ctx, "w1", opts), fail.NotReady, "lonely is terminating since")
	o.k.set(func() { o.k.hang = "" })
	testkit.Must(t, o.c.Drain(ctx, "w1", opts))
	testkit.Must(t, o.c.WaitDeployment(ctx, "default", "deployment"))
	pods, err = o.c.PodsOn(ctx, "w1")
	testkit.Must(t, err)
	for _, p := range pods {
		if p.Owner != "DaemonSet" {
			t.Errorf("%s/%s is still on the drained node", p.Namespace, p.Name)
		}
	}
	testkit.Must(t, o.c.Uncordon(ctx, "w1"))
	testkit.Must(t, o.c.Drain(ctx, "nobody", opts))
	o.cordons(ctx, t)

	o.k.set(func() { o.k.hang = "deployment" }) // a machine that is off confirms nothing
	testkit.Must(t, o.c.Drain(ctx, "w2", DrainOptions{Timeout: 30 * time.Second, Dead: true}))
	o.k.set(func() { o.k.hang = "" })
	testkit.Must(t, o.c.WaitDeployment(ctx, "default", "deployment"))
	testkit.Must(t, o.c.Uncordon(ctx, "w2"))
}

// cordons: a node that a user cordoned stays cordoned.
func (o *operations) cordons(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, by := range []struct {
		what string
		do   func() error
		want string
	}{
		{"drained on top of a user's cordon", func() error {
			return errors.Join(o.c.Cordon(ctx, "w1"), o.c.Drain(ctx, "w1", DrainOptions{Own: true}))
		}, "true "},
		{"uncordoned", func() error { return o.c.Uncordon(ctx, "w1") }, "false "},
		{"drained by us", func() error { return o.c.Drain(ctx, "w1", DrainOptions{Own: true}) }, "true true"},
		{"drained by us again", func() error { return o.c.Drain(ctx, "w1", DrainOptions{Own: true}) }, "true true"},
		{"cordoned by a user", func() error { return o.c.Cordon(ctx, "w1") }, "true "},
		{"drained by us, uncordoned", func() error {
			return errors.Join(o.c.Uncordon(ctx, "w1"), o.c.Drain(ctx, "w1", DrainOptions{Own: true}), o.c.Uncordon(ctx, "w1"))
		}, "false "},
	} {
		testkit.Must(t, by.do())
		n := testkit.Value(o.c.Node(ctx, "w1"))(t)
		if got := fmt.Sprintf("%t %s", n.Unschedulable, n.Annotations[OwnedCordon]); got != by.want {
			t.Errorf("%s: unschedulable, ours: %s, want %s", by.what, got, by.want)
		}
	}
}

// obstacles: Obstacles finds beforehand what would block a drain, and a webhook without a server.
func (o *operations) obstacles(ctx context.Context, t *testing.T, words ...string) {
	t.Helper()
	hooks := o.c.set.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := o.c.Apply(ctx, []byte(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: nobody-serves}
webhooks:
  - name: nobody.example.org
    failurePolicy: Fail
    sideEffects: None
    admissionReviewVersions: [v1]
    clientConfig: {service: {namespace: default, name: nobody}}
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}
    rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
`), ApplyOptions{})
	testkit.Must(t, err)
	found := strings.Join(testkit.Value(o.c.Obstacles(ctx, []Away{{Node: "w1"}}))(t), "\n")
	testkit.Must(t, hooks.Delete(ctx, "nobody-serves", metav1.DeleteOptions{}))
	for _, w := range append(words, "webhook nobody.example.org would refuse every new pod of kube-system: its Service default/nobody has no endpoint that is ready") {
		if !strings.Contains(found, w) {
			t.Errorf("the obstacles do not say %q:\n%s", w, found)
		}
	}
	if _, err := o.c.DeprecatedUse(ctx, "1.99"); err != nil {
		t.Error(err)
	}
}

// refusals: Obstacles finds what would refuse the system's pods, or can't be read, before any of them is stopped, and creates nothing.
func (o *operations) refusals(t *testing.T) {
	ctx := short(t, 4*time.Minute)
	_, err := o.c.Apply(ctx, []byte(`apiVersion: apps/v1
kind: Deployment
metadata: {name: names, namespace: kube-system}
spec:
  replicas: 0
  selector: {matchLabels: {app: names}}
  template:
    metadata: {labels: {app: names}}
    spec: {containers: [{name: c, image: "good:1"}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: masts.test.naupegos.dev}
spec:
  group: test.naupegos.dev
  scope: Namespaced
  names: {plural: masts, singular: mast, kind: Mast, listKind: MastList}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: default, name: nobody, port: 8443}}}}
  versions:
    - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
    - {name: v1alpha1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
`), ApplyOptions{})
	testkit.Must(t, err)
	obstacles := func() string { return strings.Join(testkit.Value(o.c.Obstacles(ctx, nil))(t), "\n") }
	const conversion = "masts.test.naupegos.dev can't be converted between their versions: the Service that does it, default/nobody, has no endpoint that is ready"
	if got := obstacles(); got != conversion {
		t.Errorf("of a cluster where no webhook converts masts it says:\n%s", got)
	}
	testkit.Must(t, o.c.dynamic.Resource(definitions).Delete(ctx, "masts.test.naupegos.dev", metav1.DeleteOptions{}))
	o.eventually(t, "there are no masts", func() bool { return obstacles() == "" })

	_, err = o.c.Apply(ctx, []byte(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-names}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
  validations:
    - expression: object.metadata.?labels.app.orValue("") != "names" || request.userInfo.username != "system:serviceaccount:kube-system:replicaset-controller"
      message: names are not wanted
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-names}
spec: {policyName: no-names, validationActions: [Deny]}
`), ApplyOptions{})
	testkit.Must(t, err)
	o.eventually(t, "the policy is seen to refuse what its controller would make", func() bool {
		got := obstacles()
		return strings.HasPrefix(got, "pods of Deployment kube-system/names would not be made again: ") && strings.Contains(got, "names are not wanted")
	})
	testkit.Must(t, o.c.set.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(ctx, "no-names", metav1.DeleteOptions{}))
	testkit.Must(t, o.c.set.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(ctx, "no-names", metav1.DeleteOptions{}))
	o.eventually(t, "nothing is in the way", func() bool { return obstacles() == "" })

	_, err = o.c.Apply(ctx, []byte(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: silent}
webhooks:
  - name: silent.example.org
    failurePolicy: Fail
    timeoutSeconds: 1
    sideEffects: None
    admissionReviewVersions: [v1]
    clientConfig: {url: "https://127.0.0.1:1/silent"}
    rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
`), ApplyOptions{})
	testkit.Must(t, err)
	o.eventually(t, "a webhook outside of the cluster is seen not to answer", func() bool {
		return obstacles() == "webhook silent.example.org does not answer, and pods of Deployment kube-system/names are not made without it"
	})
	testkit.Must(t, o.c.set.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, "silent", metav1.DeleteOptions{}))
	if pods := testkit.Value(o.c.set.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "app=names"}))(t); len(pods.Items) != 0 {
		t.Errorf("asking has made %d pods", len(pods.Items))
	}
	testkit.Must(t, o.c.set.AppsV1().Deployments("kube-system").Delete(ctx, "names", metav1.DeleteOptions{}))
	o.eventually(t, "the webhook is gone", func() bool { return obstacles() == "" })
}
