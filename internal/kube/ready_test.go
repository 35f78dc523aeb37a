package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

func TestWaitNodesWatches(t *testing.T) {
	c := fakeClient(readyNode("a", corev1.ConditionFalse))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.WaitNodes(ctx, NodeReady, nil, "a", "b") }()
	time.Sleep(50 * time.Millisecond) // lets it list first; right either way
	for _, n := range []*corev1.Node{readyNode("b", corev1.ConditionTrue), readyNode("c", corev1.ConditionTrue)} {
		if _, err := c.set.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("a is not ready, but the wait ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if _, err := c.set.CoreV1().Nodes().Update(ctx, readyNode("a", corev1.ConditionTrue), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestWaitNodesSaysWhy(t *testing.T) {
	c := fakeClient(readyNode("a", corev1.ConditionFalse), readyNode("c", corev1.ConditionTrue))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := c.WaitNodes(ctx, NodeReady, nil, "a", "b", "c")
	want := "https://fake: wait for nodes: a: not ready, R: m; b: kubelet has not registered the node"
	if fail.KindOf(err) != fail.NotReady || err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v (%s)\nwant not ready: %s", err, fail.KindOf(err), want)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		t.Error("the deadline counts as the cause: the engine would tell that in place of what is missing")
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := c.WaitNode(stopped, "a", NodeReady); fail.KindOf(err) != fail.Interrupted {
		t.Errorf("stopped by the user: got %v (%s)", err, fail.KindOf(err))
	}
}

// The machine or its kubelet was started after the node was reported Ready: that report no longer counts.
func TestReadyIsForgottenWithTheMachine(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 600e6, time.UTC)
	life := machine.Life{BootID: "second", Since: map[string]time.Time{"kubelet.service": began}}
	for name, c := range map[string]struct {
		boot     string
		reported time.Time
		want     string
	}{
		"before the machine's start": {"first", began.Add(-time.Minute), "kubelet has not reported since the machine was started"},
		"by a clock that runs ahead": {"first", began.Add(time.Hour), "kubelet has not reported since the machine was started"},
		"before kubelet's start":     {"second", began.Add(-time.Second), "kubelet has not reported since it was started"},
		"in the same second":         {"second", began.Truncate(time.Second), ""},
		"since":                      {"second", began.Add(time.Minute), ""},
	} {
		n := readyNode("a", corev1.ConditionTrue)
		n.Status.NodeInfo.BootID, n.Status.Conditions[0].LastHeartbeatTime = c.boot, metav1.NewTime(c.reported)
		if got := nodeInfo(n).Stale(life); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		i := nodeInfo(n)
		i.Renewed = began.Add(tellTime)
		if got := i.Stale(life); c.boot == "second" && got != "" {
			t.Errorf("%s: kubelet has lived long enough to tell what has changed, but %q", name, got)
		}
		if got := nodeInfo(n).Stale(machine.Life{}); got != "" {
			t.Errorf("%s: nothing is known of the machine, but %q", name, got)
		}
	}
}

// lives answers each query of the machine's life with the next of all, and repeats the last.
func lives(all ...machine.Life) func(context.Context) (machine.Life, error) {
	return func(context.Context) (machine.Life, error) {
		l := all[0]
		if len(all) > 1 {
			all = all[1:]
		}
		return l, nil
	}
}

func TestWaitNodeReadyWaitsForTheNewKubelet(t *testing.T) {
	n := readyNode("a", corev1.ConditionTrue)
	n.Status.NodeInfo.BootID = "first"
	c := fakeClient(n)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := c.WaitNodeReady(ctx, "a", lives(machine.Life{BootID: "second"}))
	if err == nil || fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), "a: not known to be ready, kubelet has not reported since the machine was started") {
		t.Errorf("the condition of an earlier start counts: %v", err)
	}
	n.Status.NodeInfo.BootID = "second"
	if _, err := c.set.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitNodeReady(t.Context(), "a", lives(machine.Life{BootID: "second"})); err != nil {
		t.Error(err)
	}
	began := time.Now()
	life := machine.Life{BootID: "second", Since: map[string]time.Time{"kubelet.service": began}}
	again, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.WaitNodeReady(again, "a", lives(life)); fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), "kubelet has not reported since it was started") {
		t.Errorf("the condition of an earlier kubelet counts: %v", err)
	}
	renewed := metav1.NewMicroTime(began.Add(tellTime))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	if _, err := c.set.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitNodeReady(t.Context(), "a", lives(life)); err != nil {
		t.Error(err)
	}
	// Between two starts of a kubelet that systemd keeps restarting there is no process; the wait asks again.
	down := machine.Life{BootID: "second", Down: map[string]string{"kubelet.service": "activating (auto-restart)"}}
	again, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.WaitNodeReady(again, "a", lives(down)); fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), "kubelet.service is activating (auto-restart)") {
		t.Errorf("a kubelet that does not run counts: %v", err)
	}
	if err := c.WaitNodeReady(t.Context(), "a", lives(down, life)); err != nil {
		t.Error(err)
	}
	nodes, err := c.Nodes(t.Context())
	if err != nil || len(nodes) != 1 || nodes[0].Stale(life) != "" {
		t.Errorf("nodes %+v: %v", nodes, err)
	}
}

// A Ready node is usable when pods may come to it; the taint that only evicts pods which don't tolerate it does not matter.
func TestReadyNodeTakesPods(t *testing.T) {
	for effect, want := range map[corev1.TaintEffect]string{corev1.TaintEffectNoSchedule: "ready, but the controller manager", corev1.TaintEffectNoExecute: ""} {
		n := readyNode("a", corev1.ConditionTrue)
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: effect}}
		if got := lacks(n, NodeReady, machine.Life{}); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", effect, got, want)
		}
		if got := lacks(n, Registered, machine.Life{}); got != "" {
			t.Errorf("it is registered: %s", got)
		}
	}
}
