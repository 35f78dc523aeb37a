package kube

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestLoadsAndEvents: pods count on their nodes, and events of pods belong to the pods' machines, newest last, within their bounds.
func TestLoadsAndEvents(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourcePods: resource.MustParse("110")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}}}
	pod := func(name, on string, phase corev1.PodPhase, ready bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Spec: corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("64Mi")}}}}}, Status: corev1.PodStatus{Phase: phase}}
		if ready {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		return p
	}
	event := func(name, kind, of string, at time.Time) *corev1.Event {
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: "n", Name: of},
			Type: corev1.EventTypeWarning, Reason: "R", Message: name, LastTimestamp: metav1.NewTime(at)}
	}
	c := &Client{set: fake.NewClientset(node, pod("p", "a", corev1.PodRunning, true), pod("q", "a", corev1.PodPending, false), pod("done", "a", corev1.PodSucceeded, false), pod("far", "b", corev1.PodRunning, true),
		event("2", "Pod", "p", now.Add(-time.Minute)), event("1", "Node", "a", now.Add(-2*time.Minute)), event("old", "Pod", "p", now.Add(-2*time.Hour)), event("3", "Pod", "gone", now))}
	loads, pods, err := Loads(t.Context(), c)
	testkit.Must(t, err)
	if len(loads) != 1 || loads[0].Pods != 2 || loads[0].PodsReady != 1 || loads[0].CPUAsked != 500 || loads[0].CPU != 2000 || loads[0].MemoryAsked != 128<<20 || loads[0].PodLimit != 110 {
		t.Errorf("%+v", loads)
	}
	events, err := Events(t.Context(), c, now.Add(-time.Hour), 10, pods)
	testkit.Must(t, err)
	said := ""
	for _, e := range events {
		said += fmt.Sprintf("%s on %q: %s\n", e.Text, e.Node, e.Object)
	}
	if want := "1 on \"a\": Node a\n2 on \"a\": Pod n/p\n3 on \"\": Pod n/gone\n"; said != want {
		t.Errorf("the events are\n%swant\n%s", said, want)
	}
	if few, err := Events(t.Context(), c, now.Add(-time.Hour), 1, pods); err != nil || len(few) != 1 || few[0].Text != "3" {
		t.Errorf("%+v, %v", few, err)
	}
}

// TestUsageOf: UsageOf reads kubelet's summary through the API server.
func TestUsageOf(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes/a/proxy/stats/summary" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, `{"node":{"cpu":{"usageNanoCores":250000000},"memory":{"workingSetBytes":100,"availableBytes":300},"fs":{"usedBytes":5,"capacityBytes":20}}}`)
	}))
	defer server.Close()
	c := &Client{server: server.URL, set: testkit.Value(kubernetes.NewForConfig(&rest.Config{Host: server.URL}))(t)}
	if u, err := UsageOf(t.Context(), c, "a"); err != nil || u != (Usage{Node: "a", CPU: 250, Memory: 100, MemoryTotal: 400, Disk: 5, DiskTotal: 20}) {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := UsageOf(t.Context(), c, "b"); err == nil {
		t.Error("a node without an answer")
	}
}
