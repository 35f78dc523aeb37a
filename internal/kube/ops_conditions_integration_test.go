//go:build integration

package kube

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// conditions removes the conditions of a reporter that belongs to the addon, once its pods are gone. Other conditions of nodes stay.
func (o *operations) conditions(t *testing.T) {
	const name = "reporter"
	apply := func(owner string) {
		t.Helper()
		_, err := o.c.Apply(t.Context(), []byte("apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: "+name+", namespace: default}\nspec:\n  selector: {matchLabels: {app: "+name+"}}\n  template:\n"+
			"    metadata: {labels: {app: "+name+", app.kubernetes.io/name: "+name+"}}\n    spec:\n      automountServiceAccountToken: false\n      containers: [{name: c, image: example.org/c:v1}]\n"), ApplyOptions{Addon: owner})
		testkit.Must(t, err)
		testkit.Must(t, o.c.WaitDaemonSet(short(t, time.Minute), "default", name))
	}
	report := func() {
		t.Helper()
		for _, node := range []string{"w1", "w2"} {
			_, err := o.c.set.CoreV1().Nodes().Patch(t.Context(), node, types.StrategicMergePatchType,
				[]byte(`{"status":{"conditions":[{"type":"KernelDeadlock","status":"False"},{"type":"Other","status":"True"}]}}`), metav1.PatchOptions{}, "status")
			testkit.Must(t, err)
		}
	}
	counts := func(kind string) int {
		t.Helper()
		n := 0
		for _, node := range testkit.Value(o.c.set.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}))(t).Items {
			if slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return string(c.Type) == kind }) {
				n++
			}
		}
		return n
	}
	remove := func(ctx context.Context) error {
		return RemoveReporter(ctx, o.c, "default", name, []string{"KernelDeadlock", "XfsShutdown"})
	}

	apply("theirs")
	report()
	testkit.Must(t, remove(t.Context()))
	if _, err := o.c.set.AppsV1().DaemonSets("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil || counts("KernelDeadlock") != 2 {
		t.Errorf("the reporter of another owner was touched: %v, %d nodes have the condition", err, counts("KernelDeadlock"))
	}
	testkit.Must(t, o.c.Delete(t.Context(), nil, ApplyOptions{Addon: "theirs"}))

	apply(name)
	o.k.set(func() { o.k.hang = name })
	wantFail(t, remove(short(t, moment)), fail.NotReady, "is not gone yet")
	if counts("KernelDeadlock") != 2 {
		t.Error("conditions are removed while a pod may still set them")
	}
	o.k.set(func() { o.k.hang = "" })
	ready := counts("Ready")
	testkit.Must(t, remove(short(t, time.Minute))) // like the next run
	if _, err := o.c.set.AppsV1().DaemonSets("default").Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) || counts("KernelDeadlock") != 0 || counts("Other") != 2 || counts("Ready") != ready {
		t.Errorf("%v; %d nodes have the condition, %d another one, %d are reported ready or not", err, counts("KernelDeadlock"), counts("Other"), counts("Ready"))
	}
	report()
	testkit.Must(t, remove(t.Context())) // the DaemonSet is gone after an interrupted run
	if counts("KernelDeadlock") != 0 {
		t.Error("a run after one that was cut off leaves conditions")
	}
	testkit.Must(t, o.c.Delete(t.Context(), nil, ApplyOptions{Addon: name}))
}
