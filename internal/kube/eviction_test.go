package kube

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktest "k8s.io/client-go/testing"

	"github.com/naupegos/naupegos/internal/fail"
)

// shop is a cluster with one pod under some budgets, whose evictions an error answers.
func shop(refuse error, phase corev1.PodPhase, budgets ...*policyv1.PodDisruptionBudget) *Client {
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web", "tier": "front"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "u", Controller: &yes}}}, Spec: corev1.PodSpec{NodeName: "w"}, Status: corev1.PodStatus{Phase: phase}}
	objects := []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}, pod}
	for _, b := range budgets {
		objects = append(objects, b)
	}
	set := fake.NewClientset(objects...)
	set.PrependReactor("create", "pods", func(a ktest.Action) (bool, runtime.Object, error) {
		return a.GetSubresource() == "eviction", nil, refuse
	})
	set.Resources = []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods/eviction", Kind: "Eviction", Group: "policy", Version: "v1"}}},
		{GroupVersion: "policy/v1", APIResources: []metav1.APIResource{{Name: "poddisruptionbudgets", Kind: "PodDisruptionBudget"}}},
	}
	return &Client{server: "https://fake", timeout: time.Second, set: set, watch: set}
}

func budgetOf(name, key, value string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, CurrentHealthy: 2, DesiredHealthy: 1}}
}

// TestDrainKeepsItsCause: the error quotes what refused an eviction, with matching advice, and mentions a time-out only if time ran out.
func TestDrainKeepsItsCause(t *testing.T) {
	two := []*policyv1.PodDisruptionBudget{budgetOf("a", "app", "web", 1), budgetOf("b", "tier", "front", 1)}
	for _, c := range []struct {
		name    string
		refuse  error
		budgets []*policyv1.PodDisruptionBudget
		kind    fail.Kind
		says    string
		not     string
	}{
		{"two budgets", apierrors.NewInternalError(fmt.Errorf("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")), two, fail.Refused, // the API's words
			"web-1 is held by 2 disruption budgets at once, a and b|more than one PodDisruptionBudget|let one disruption budget select", "did not go within"},
		{"webhook denies", apierrors.NewForbidden(corev1.Resource("pods"), "web-1", fmt.Errorf(`admission webhook "keep.example.org" denied the request: not in office hours`)), nil, fail.NotReady,
			"not in office hours|the webhook keep.example.org forbids", "did not go within"},
		{"webhook away", apierrors.NewInternalError(fmt.Errorf(`failed calling webhook "keep.example.org": no endpoints available for service "keep"`)), nil, fail.NotReady,
			`no endpoints available for service "keep"|the webhook keep.example.org must answer|failurePolicy`, "did not go within"},
		{"policy denies", apierrors.NewForbidden(corev1.Resource("pods"), "web-1", fmt.Errorf(`ValidatingAdmissionPolicy 'freeze' with binding 'freeze' denied request: change freeze`)), nil, fail.NotReady,
			"change freeze|the policy freeze forbids", "did not go within"},
		{"no right", apierrors.NewForbidden(corev1.Resource("pods"), "web-1", fmt.Errorf(`User "x" cannot create resource "pods/eviction" in API group ""`)), nil, fail.Refused,
			"may not evict pods", "did not go within"},
		{"something else", apierrors.NewInternalError(fmt.Errorf("etcdserver: mvcc: database space exceeded")), nil, fail.NotReady,
			"database space exceeded|stays cordoned", "did not go within"},
		{"a budget", apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0), []*policyv1.PodDisruptionBudget{budgetOf("a", "app", "web", 0)}, fail.NotReady,
			"did not go within 2s|web-1 is held by disruption budget a (2 healthy, 1 needed)|loosen", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := shop(c.refuse, corev1.PodRunning, c.budgets...).Drain(ctx, "w", DrainOptions{Timeout: 2 * time.Second})
			if fail.KindOf(err) != c.kind {
				t.Errorf("kind %v", fail.KindOf(err))
			}
			for _, part := range append(strings.Split(c.says, "|"), "drain node w: 1 pods") {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%v lacks %q", err, part)
				}
			}
			if c.not != "" && err != nil && strings.Contains(err.Error(), c.not) {
				t.Errorf("%v says %q", err, c.not)
			}
		})
	}
}

// TestHolding: a running pod that several budgets select is never evicted, whatever these allow.
func TestHolding(t *testing.T) {
	pod := func(phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web", "tier": "front"}}, Status: corev1.PodStatus{Phase: phase}}
	}
	elsewhere := budgetOf("c", "app", "web", 0)
	elsewhere.Namespace = "other"
	for _, c := range []struct {
		name    string
		phase   corev1.PodPhase
		budgets []*policyv1.PodDisruptionBudget
		want    string
	}{
		{"none", corev1.PodRunning, nil, ""},
		{"one that allows", corev1.PodRunning, []*policyv1.PodDisruptionBudget{budgetOf("a", "app", "web", 1)}, ""},
		{"one that does not", corev1.PodRunning, []*policyv1.PodDisruptionBudget{budgetOf("a", "app", "web", 0)}, "disruption budget a (2 healthy, 1 needed)"},
		{"two that allow", corev1.PodRunning, []*policyv1.PodDisruptionBudget{budgetOf("b", "tier", "front", 1), budgetOf("a", "app", "web", 1)}, "2 disruption budgets at once, a and b: the API evicts no pod that more than one selects"},
		{"two, pending", corev1.PodPending, []*policyv1.PodDisruptionBudget{budgetOf("b", "tier", "front", 1), budgetOf("a", "app", "web", 1)}, ""},
		{"another's", corev1.PodRunning, []*policyv1.PodDisruptionBudget{budgetOf("b", "app", "db", 0)}, ""},
		{"another namespace", corev1.PodRunning, []*policyv1.PodDisruptionBudget{budgetOf("a", "app", "web", 1), elsewhere}, ""},
	} {
		var budgets []policyv1.PodDisruptionBudget
		for _, b := range c.budgets {
			budgets = append(budgets, *b)
		}
		if got := strings.Join(holding(pod(c.phase), budgets), ", "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestUnevictable: UnevictableOn names only pods that several budgets select, on the given nodes alone.
func TestUnevictable(t *testing.T) {
	both := []*policyv1.PodDisruptionBudget{budgetOf("b", "tier", "front", 1), budgetOf("a", "app", "web", 1)}
	for name, c := range map[string]struct {
		node    string
		budgets []*policyv1.PodDisruptionBudget
		want    string
	}{
		"two":          {"w", both, "drain of node w would fail: shop/web-1 is held by 2 disruption budgets at once, a and b: the API evicts no pod that more than one selects; let one disruption budget select the pod"},
		"one":          {"w", both[:1], ""},
		"one of two":   {"w", []*policyv1.PodDisruptionBudget{both[0], budgetOf("c", "app", "db", 0)}, ""},
		"none":         {"w", nil, ""},
		"another node": {"v", both, ""},
	} {
		found, err := UnevictableOn(t.Context(), shop(nil, corev1.PodRunning, c.budgets...), []string{c.node})
		got := ""
		for _, u := range found {
			got += u.Why
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %q %v, want %q", name, got, err, c.want)
		}
	}
}
