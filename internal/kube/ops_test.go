package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/answer"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// fakeClient works on objects in memory.
func fakeClient(nodes ...*corev1.Node) *Client {
	set := fake.NewClientset()
	for _, n := range nodes {
		_ = set.Tracker().Add(n)
	}
	return &Client{server: "https://fake", timeout: time.Second, set: set, watch: set}
}

func readyNode(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Reason: "R", Message: "m"}}}}
}

func TestMark(t *testing.T) {
	foreign := corev1.Taint{Key: "node.kubernetes.io/disk-pressure", Effect: "NoSchedule"}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w", ResourceVersion: "7", Labels: map[string]string{"zone": "a"}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{foreign}}}
	for i, step := range []struct {
		want    Marks
		changed bool
		labels  map[string]string
		taints  []string
	}{
		{Marks{}, false, map[string]string{"zone": "a"}, []string{foreign.Key}},
		{Marks{map[string]string{"pool": "x"}, []Taint{{"gpu", "yes", "NoSchedule"}}, ""}, true, map[string]string{"zone": "a", "pool": "x"}, []string{foreign.Key, "gpu=yes"}},
		{Marks{map[string]string{"pool": "x"}, []Taint{{"gpu", "yes", "NoSchedule"}}, ""}, false, map[string]string{"zone": "a", "pool": "x"}, []string{foreign.Key, "gpu=yes"}},
		{Marks{map[string]string{"pool": "y", "disk": "ssd"}, []Taint{{"gpu", "no", "NoSchedule"}}, ""}, true, map[string]string{"zone": "a", "pool": "y", "disk": "ssd"}, []string{foreign.Key, "gpu=no"}},
		{Marks{map[string]string{"disk": "ssd"}, []Taint{{"gpu", "no", "NoExecute"}}, ""}, true, map[string]string{"zone": "a", "disk": "ssd"}, []string{foreign.Key, "gpu=no"}},
		{Marks{}, true, map[string]string{"zone": "a"}, []string{foreign.Key}},
	} {
		before := n.DeepCopy()
		if got := Marked(nodeInfo(n), step.want); got == step.changed {
			t.Errorf("step %d: Marked says %v", i, got)
		}
		patch, err := nodePatch(n, func(n *corev1.Node) { mark(n, step.want) })
		if err != nil || (patch != nil) != step.changed {
			t.Errorf("step %d: patch %s, %v; changed should be %v", i, patch, err, step.changed)
		}
		if d := cmp.Diff(before, n); d != "" {
			t.Errorf("step %d: making the patch changed the node: %s", i, d)
		}
		mark(n, step.want)
		if d := cmp.Diff(step.labels, n.Labels); d != "" {
			t.Errorf("step %d: %s", i, d)
		}
		var taints []string
		for _, taint := range n.Spec.Taints {
			taints = append(taints, strings.TrimSuffix(taint.Key+"="+taint.Value, "="))
		}
		if d := cmp.Diff(step.taints, taints); d != "" {
			t.Errorf("step %d: %s", i, d)
		}
	}
	if len(n.Annotations) != 0 {
		t.Errorf("nothing is ours any more, but the annotations say %v", n.Annotations)
	}
}

func TestNodePatch(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w", ResourceVersion: "7", Labels: map[string]string{"a": "1", "b": "2"}}}
	patch, err := nodePatch(n, func(n *corev1.Node) { n.Spec.Unschedulable = true; delete(n.Labels, "a"); n.Labels["b"] = "3" })
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"metadata":{"labels":{"a":null,"b":"3"},"resourceVersion":"7"},"spec":{"unschedulable":true}}`; string(patch) != want {
		t.Errorf("got  %s\nwant %s", patch, want)
	}
}

// Many clients change a node that has just joined: the change survives eight conflicts in a row, and a permanent conflict is an error in bounded
// time.
func TestMarkConflicts(t *testing.T) {
	for _, c := range []struct {
		conflicts int
		kind      fail.Kind
	}{{8, fail.Internal}, {1000, fail.Conflict}} {
		synctest.Test(t, func(t *testing.T) { // the pauses are about 6 s together
			client, tried := fakeClient(readyNode("w", "True")), 0
			client.set.(*fake.Clientset).PrependReactor("patch", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				if tried++; tried > c.conflicts {
					return false, nil, nil
				}
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "w", errors.New("it changed"))
			})
			changed, err := client.Mark(t.Context(), "w", Marks{Labels: map[string]string{"pool": "x"}})
			if fail.KindOf(err) != c.kind || changed != (tried == c.conflicts+1) {
				t.Errorf("after %d conflicts: changed is %v, error is %v", tried, changed, err)
			}
		})
	}
}

func TestSmokePlacement(t *testing.T) {
	node := func(s string) NodeInfo {
		n := NodeInfo{Name: s, Ready: !strings.HasSuffix(s, "!")}
		if strings.HasPrefix(s, "cp") {
			n.Taints = []Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: "NoSchedule"}}
		}
		n.Unschedulable = strings.HasSuffix(s, "~")
		return n
	}
	for _, tc := range []struct{ nodes, backends, client string }{
		{"cp1 cp2 cp3 w1 w2", "w1 w2", "cp1"},
		{"cp1 w1 w2 w3", "w1 w2", "w3"},
		{"cp1 w1", "w1", "cp1"},
		{"cp1! w1 w2", "w1", "w2"},
		{"cp1! w1", "w1", "w1"},
		{"w1~ w2", "w2", "w1~"},
		{"cp1 w1!", "", ""},
		{"", "", ""},
	} {
		var nodes []NodeInfo
		for _, s := range strings.Fields(tc.nodes) {
			nodes = append(nodes, node(s))
		}
		backends, client, err := smokePlacement(nodes)
		if strings.Join(backends, " ") != tc.backends || client != tc.client || (err != nil) != (tc.client == "") {
			t.Errorf("%s: servers %v, client %s, %v; want %s and %s", tc.nodes, backends, client, err, tc.backends, tc.client)
		}
	}
	full := NodeInfo{Name: "w1", Ready: true, Taints: []Taint{{Key: "node.kubernetes.io/disk-pressure", Effect: "NoSchedule"}}}
	if _, _, err := smokePlacement([]NodeInfo{full}); err == nil || !strings.Contains(err.Error(), "w1 (node.kubernetes.io/disk-pressure)") {
		t.Errorf("the taint that keeps pods off is not named: %v", err)
	}
	// One taint of a node that has just become ready disappears later than the other, and pods tolerate it.
	back := NodeInfo{Name: "w1", Ready: true, Taints: []Taint{{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"}}}
	if backends, client, err := smokePlacement([]NodeInfo{node("cp1"), back}); err != nil || !slices.Equal(backends, []string{"w1"}) || client != "cp1" {
		t.Errorf("a node with the taint not-ready:NoExecute takes pods: %v, %s, %v", backends, client, err)
	}
	back.Taints[0].Key = "example.com/mine"
	if _, _, err := smokePlacement([]NodeInfo{back}); err == nil {
		t.Error("a node with another taint of the effect NoExecute takes no pods")
	}
}

func TestSmokeManifestsParse(t *testing.T) {
	objects, err := manifest.Parse([]byte(smokeManifests("x/echo:1", []string{"a", "b"}, true) + "---\n" + smokeClient("x/echo:1", "c", map[string]string{"by-address": "http://1/", "by-name": "http://n/"})))
	if err != nil || len(objects) != 5 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	raw, err := json.Marshal(objects)
	if err != nil || strings.Contains(string(raw), "%!") {
		t.Errorf("badly formatted: %s, %v", raw, err)
	}
	if !strings.Contains(string(raw), `"dnsConfig":{"options":[{"name":"timeout","value":"1"}]}`) {
		t.Errorf("a question that cluster DNS has not heard holds the test up for 5 s: %s", raw)
	}
}

func TestBlocker(t *testing.T) {
	labels := map[string]string{"app": "db"}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p", Labels: labels}}
	budget := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "b"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}, Status: policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 2, DesiredHealthy: 2}}
	elsewhere, loose := *budget.DeepCopy(), *budget.DeepCopy()
	elsewhere.Namespace, loose.Status.DisruptionsAllowed = "y", 1
	if got := blocker(pod, []policyv1.PodDisruptionBudget{elsewhere, budget}); got != "x/p is held by disruption budget b (2 healthy, 2 needed)" {
		t.Error(got)
	}
	if got := blocker(pod, []policyv1.PodDisruptionBudget{elsewhere, loose}); got != "x/p has not been evicted" {
		t.Error(got)
	}
	pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	if got := blocker(pod, []policyv1.PodDisruptionBudget{budget}); got != "x/p is terminating since 1970-01-01T00:00:00Z" {
		t.Error(got)
	}
}

func TestTrouble(t *testing.T) {
	waiting := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "m"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Message: "starting\npanic\n"}}}
	}
	condition := func(kind corev1.PodConditionType, s corev1.ConditionStatus) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: kind, Status: s, Reason: "R", Message: "m"}}
	}
	for _, tc := range []struct {
		status corev1.PodStatus
		want   string
	}{
		{corev1.PodStatus{Phase: corev1.PodSucceeded}, ""},
		{corev1.PodStatus{Conditions: condition(corev1.PodReady, corev1.ConditionTrue)}, ""},
		{corev1.PodStatus{Conditions: condition(corev1.PodReady, corev1.ConditionFalse)}, "pod p on n: not ready: R m"},
		{corev1.PodStatus{Conditions: condition(corev1.PodScheduled, corev1.ConditionFalse)}, "pod p on n: not scheduled: m"},
		{corev1.PodStatus{Phase: corev1.PodPending}, "pod p on n: Pending, nothing reported yet"},
		{corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("CrashLoopBackOff")}}, "pod p on n: container c: CrashLoopBackOff m (last exit status 3 panic)"},
		{corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{waiting("ImagePullBackOff")}}, "pod p on n: container c: ImagePullBackOff m (last exit status 3 panic)"},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}, Status: tc.status}
		if got := trouble(p); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

func TestLacking(t *testing.T) {
	for _, tc := range []struct {
		generation, observed            int64
		want, updated, available, total int32
		missing                         string
	}{
		{2, 1, 2, 2, 2, 2, "its controller has not seen it yet"},
		{2, 2, 3, 1, 3, 3, "1 of 3 pods updated"},
		{2, 2, 3, 3, 3, 4, "1 old pods still there"},
		{2, 2, 3, 3, 2, 3, "2 of 3 pods available"},
		{2, 2, 3, 3, 3, 3, ""},
		{1, 1, 0, 0, 0, 0, ""},
	} {
		if got := lacking(tc.generation, tc.observed, tc.want, tc.updated, tc.available, tc.total); got != tc.missing {
			t.Errorf("%+v: got %q", tc, got)
		}
	}
}

func TestKindOf(t *testing.T) {
	g := schema.GroupResource{Resource: "pods"}
	for _, tc := range []struct {
		err  error
		want fail.Kind
	}{
		{apierrors.NewNotFound(g, "p"), fail.NotFound},
		{apierrors.NewForbidden(g, "p", errors.New("no")), fail.Unauthorized},
		{apierrors.NewUnauthorized("no"), fail.Unauthorized},
		{apierrors.NewConflict(g, "p", errors.New("newer")), fail.Conflict},
		{apierrors.NewBadRequest("bad"), fail.Invalid},
		{apierrors.NewServiceUnavailable("etcd"), fail.NotReady},
		{apierrors.NewTooManyRequests("slow", 1), fail.NotReady},
		{apierrors.NewInternalError(errors.New("x")), fail.NotReady},
		{fail.New(fail.Refused, "no"), fail.Refused},
		{errors.New("x509: unknown authority"), fail.Unauthorized},
		{context.DeadlineExceeded, fail.Unreachable},
		{errors.New("odd"), fail.Internal},
	} {
		if got := answer.Kind(t.Context(), tc.err); got != tc.want {
			t.Errorf("%v: got %s, want %s", tc.err, got, tc.want)
		}
	}
}

const testKubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func TestReady(t *testing.T) {
	status, body := 500, "[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/rbac failed\nreadyz check failed"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer srv.Close()
	c, err := NewClient([]byte(testKubeconfig), ClientOptions{Server: srv.URL, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Ready(t.Context())
	if fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), srv.URL+": API server is not ready: etcd, poststarthook/rbac") {
		t.Errorf("got %v (%s)", err, fail.KindOf(err))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := c.WaitReady(ctx); fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("got %v (%s)", err, fail.KindOf(err))
	}
	status = 200
	if err := c.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	status, body = 401, ""
	if err := c.Ready(t.Context()); fail.KindOf(err) != fail.Unauthorized {
		t.Errorf("got %v (%s)", err, fail.KindOf(err))
	}
	srv.Close()
	if err := c.Ready(t.Context()); fail.KindOf(err) != fail.Unreachable {
		t.Errorf("got %v (%s)", err, fail.KindOf(err))
	}
	if _, err := NewClient([]byte("nonsense: ["), ClientOptions{}); fail.KindOf(err) != fail.Invalid {
		t.Errorf("a bad kubeconfig: %v", err)
	}
}
