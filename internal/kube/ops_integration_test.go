//go:build integration

package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestOperations works on one real API server, subtest after subtest.
func TestOperations(t *testing.T) {
	a := startAPI(t)
	c := a.client()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testkit.Must(t, c.WaitReady(ctx))
	t.Logf("the API is ready %s after its start", time.Since(start))
	if a.dialled.Load() == 0 {
		t.Error("the dialer given was not used")
	}
	o := &operations{a: a, c: c}
	t.Run("nodes", o.nodes)
	t.Run("checks", o.checks)
	t.Run("refusals", o.refusals)
	o.k = startKubelets(t, c, "w1", "w2", "w3")
	t.Run("apply", o.apply)
	t.Run("definitions", o.definitions)
	t.Run("rollout", o.rollout)
	t.Run("drain", o.drain)
	t.Run("conditions", o.conditions)
	t.Run("smoke", o.smoke)
	t.Run("token", o.token)
	t.Run("wrong user", o.wrongUser)
}

type operations struct {
	a *api
	c *Client
	k *kubelets
}

// within bounds a wait and requires that it ends with this kind of error and these words.
func wantFail(t *testing.T, err error, kind fail.Kind, words ...string) {
	t.Helper()
	if fail.KindOf(err) != kind || err == nil {
		t.Errorf("got %v (%s), want %s", err, fail.KindOf(err), kind)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

// moment is long enough for a busy API server to answer, and short enough for a wait that must fail.
const moment = 2 * time.Second

func short(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func (o *operations) nodes(t *testing.T) {
	c := o.c
	wantFail(t, c.WaitNode(short(t, moment), "w1", Registered), fail.NotReady, "w1: kubelet has not registered the node")
	got := make(chan error, 1)
	var seen []string
	go func() {
		got <- c.WaitNodes(t.Context(), NodeReady, func(n string) { seen = append(seen, n) }, "w1", "w2")
	}()
	addNode(t, c, "w1", false)
	addNode(t, c, "w2", true)
	addNode(t, c, "w3", true)
	addNode(t, c, "cp", true, corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: "NoSchedule"})
	wantFail(t, c.WaitNode(short(t, moment), "w1", NodeReady), fail.NotReady, "network plugin is missing")
	setReady(t, c, "w1", true)
	testkit.Must(t, <-got)
	if slices.Sort(seen); !slices.Equal(seen, []string{"w1", "w2"}) {
		t.Errorf("told of %v, want w1 and w2 once each", seen)
	}

	m := Marks{Labels: map[string]string{"pool": "general", "disk": "ssd"}, Taints: []Taint{{"dedicated", "gpu", "NoSchedule"}}}
	for i, want := range []bool{true, false} {
		changed, err := c.Mark(t.Context(), "w3", m)
		testkit.Must(t, err)
		if changed != want {
			t.Errorf("marking, time %d: changed %v", i+1, changed)
		}
	}
	n, err := c.Node(t.Context(), "w3")
	testkit.Must(t, err)
	if n.Labels["disk"] != "ssd" || !slices.Contains(n.Taints, m.Taints[0]) || !Marked(n, m) {
		t.Errorf("marks are missing: %+v", n)
	}
	_, err = c.Mark(t.Context(), "w3", Marks{Labels: map[string]string{"pool": "general"}})
	testkit.Must(t, err)
	n, err = c.Node(t.Context(), "w3")
	testkit.Must(t, err)
	if _, there := n.Labels["disk"]; there || slices.Contains(n.Taints, m.Taints[0]) || n.Labels["kubernetes.io/hostname"] != "w3" {
		t.Errorf("obsolete marks should be removed and the rest stay: %+v", n)
	}

	testkit.Must(t, c.Cordon(t.Context(), "w3"))
	testkit.Must(t, c.Cordon(t.Context(), "w3"))
	if n, err = c.Node(t.Context(), "w3"); err != nil || !n.Unschedulable {
		t.Errorf("w3 is not cordoned: %v", err)
	}
	testkit.Must(t, c.Uncordon(t.Context(), "w3"))
	wantFail(t, c.Cordon(t.Context(), "nobody"), fail.NotFound)
	addNode(t, c, "gone", true)
	testkit.Must(t, c.DeleteNode(t.Context(), "gone"))
	testkit.Must(t, c.DeleteNode(t.Context(), "gone"))
	all, err := c.Nodes(t.Context())
	testkit.Must(t, err)
	if len(all) != 4 || all[0].Name != "cp" || all[1].Addresses[0] != "10.0.0.5" {
		t.Errorf("nodes: %+v", all)
	}
}

// checks looks at users' conditions on objects of all kinds.
func (o *operations) checks(t *testing.T) {
	named := Marks{ProviderID: "naupegos://demo/w2"}
	for _, m := range []Marks{named, {ProviderID: "naupegos://demo/other"}, {}} { // which never changes again
		testkit.Value(o.c.Mark(t.Context(), "w2", m))(t)
	}
	if n := testkit.Value(o.c.Node(t.Context(), "w2"))(t); n.ProviderID != named.ProviderID || !Marked(n, named) {
		t.Errorf("w2's machine is %q", n.ProviderID)
	}
	holds := func(apiVersion, kind, namespace, expression string) error {
		return o.c.Holds(t.Context(), Check{Name: "mine", APIVersion: apiVersion, Kind: kind, Namespace: namespace, Expression: expression})
	}
	testkit.Must(t, holds("v1", "Node", "", "object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"))
	testkit.Must(t, holds("v1", "Namespace", "", "object.status.phase == 'Active'"))
	testkit.Must(t, holds("rbac.authorization.k8s.io/v1", "Role", "kube-system", "size(object.rules) > 0"))
	wantFail(t, holds("v1", "Node", "", "object.metadata.name != 'w2'"), fail.NotReady, "check mine does not hold of Node w2: object.metadata.name != 'w2'")
	wantFail(t, holds("v1", "Namespace", "", "object.status.nothing == 1"), fail.NotReady, "check mine does not hold of Namespace", "no such key: nothing")
	wantFail(t, holds("apps/v1", "Deployment", "default", "true"), fail.NotReady, "check mine: there is no Deployment in namespace default")
	wantFail(t, holds("example.org/v1", "Thing", "", "true"), fail.NotReady, "check mine", "Thing") // its definition may come
}

const demo = `# a comment only
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: demo}
data: {a: "%s"}
---
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Namespace, metadata: {name: demo}}
  - {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: demo}, rules: []}
`

const extra = `---
apiVersion: v1
kind: ConfigMap
metadata: {name: extra}
`

func (o *operations) apply(t *testing.T) {
	c, opts := o.c, ApplyOptions{Addon: "demo", Prune: true}
	first := []byte(fmt.Sprintf(demo, "1") + extra)
	upToDate := func(m []byte, want bool, when string) {
		t.Helper()
		got, err := c.UpToDate(t.Context(), m, opts)
		if err != nil || got != want {
			t.Errorf("%s: up to date is %v, %v; want %v", when, got, err, want)
		}
	}
	upToDate(first, false, "before")
	r, err := c.Apply(t.Context(), first, opts)
	testkit.Must(t, err)
	if want := []string{"Namespace demo", "ClusterRole demo", "ConfigMap demo/settings", "ConfigMap extra"}; !slices.Equal(r.Applied, want) {
		t.Errorf("applied %v, want %v", r.Applied, want)
	}
	upToDate(first, true, "after")
	second := []byte(fmt.Sprintf(demo, "2"))
	upToDate(second, false, "other content")
	r, err = c.Apply(t.Context(), second, opts)
	testkit.Must(t, err)
	if !slices.Equal(r.Pruned, []string{"ConfigMap extra"}) {
		t.Errorf("pruned %v, want ConfigMap extra", r.Pruned)
	}
	if _, err := c.set.CoreV1().ConfigMaps("default").Get(t.Context(), "extra", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("extra is still there: %v", err)
	}
	upToDate(second, true, "after the second")
	testkit.Must(t, c.set.CoreV1().ConfigMaps("demo").Delete(t.Context(), "settings", metav1.DeleteOptions{}))
	upToDate(second, false, "an object was deleted")
	_, err = c.Apply(t.Context(), second, opts)
	testkit.Must(t, err)
	cm, err := c.set.CoreV1().ConfigMaps("demo").Get(t.Context(), "settings", metav1.GetOptions{})
	testkit.Must(t, err)
	if d := cmp.Diff(map[string]string{"a": "2"}, cm.Data); d != "" {
		t.Error(d)
	}
	addons, err := c.Addons(t.Context())
	testkit.Must(t, err)
	if !slices.Equal(addons, []string{"demo"}) {
		t.Errorf("addons: %v", addons)
	}
	for _, zone := range []string{"a", "b"} { // a class can't be changed: it is recreated
		_, err = c.Apply(t.Context(), []byte("apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: slow}\nprovisioner: x.example.org\nparameters: {zone: "+zone+"}\n"), ApplyOptions{})
		testkit.Must(t, err)
		class, err := c.set.StorageV1().StorageClasses().Get(t.Context(), "slow", metav1.GetOptions{})
		if err != nil || class.Parameters["zone"] != zone {
			t.Errorf("zone %s: %v %v", zone, class.Parameters, err)
		}
	}
	_, err = c.Apply(t.Context(), []byte("apiVersion: v1\nkind: Nonsense\nmetadata: {name: x}\n"), ApplyOptions{})
	wantFail(t, err, fail.NotReady, "Nonsense")
	_, err = c.Apply(t.Context(), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: nowhere}\n"), ApplyOptions{})
	wantFail(t, err, fail.NotReady, "nowhere")
	_, err = c.Apply(t.Context(), []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: 1}\n"), ApplyOptions{})
	wantFail(t, err, fail.Invalid)
	for range 2 {
		testkit.Must(t, c.Delete(t.Context(), second, opts))
	}
	upToDate(second, false, "deleted")
}

// definitions: objects of a kind that the same manifests define.
func (o *operations) definitions(t *testing.T) {
	m := []byte(`apiVersion: naupegos.dev/v1
kind: Boat
metadata: {name: argo, namespace: default}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.naupegos.dev}
spec:
  group: naupegos.dev
  scope: Namespaced
  names: {kind: Boat, plural: boats}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	opts := ApplyOptions{Addon: "boats"}
	_, err := o.c.Apply(short(t, 20*time.Second), m, opts)
	testkit.Must(t, err)
	fresh := o.a.client()
	if ok, err := fresh.UpToDate(t.Context(), m, opts); err != nil || !ok {
		t.Errorf("up to date is %v, %v", ok, err)
	}
	testkit.Must(t, o.c.Delete(t.Context(), m, opts))
	testkit.Must(t, o.a.client().Delete(t.Context(), m, opts)) // its kind is unknown by now
}

// eventually waits for effects of the controller manager and the kubelets.
func (o *operations) eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	testkit.Until(t, 3*time.Minute, 50*time.Millisecond, testkit.That(what, done))
}

func workload(kind, name, image, spec string) []byte {
	return fmt.Appendf(nil, `apiVersion: apps/v1
kind: %s
metadata: {name: %s, namespace: default}
spec:
  selector: {matchLabels: {app: %s}}
  %s
  template:
    metadata: {labels: {app: %s}}
    spec: {terminationGracePeriodSeconds: 1, automountServiceAccountToken: false, containers: [{name: c, image: %s}]}
`, kind, name, name, spec, name, image)
}

func (o *operations) rollout(t *testing.T) {
	ctx := short(t, time.Minute)
	o.k.set(func() { o.k.stuck = "stuck:1" })
	for _, w := range []struct {
		kind string
		spec string
		wait func(context.Context, string, string) error
	}{{"Deployment", "replicas: 2", o.c.WaitDeployment}, {"DaemonSet", "", o.c.WaitDaemonSet}} {
		name := strings.ToLower(w.kind)
		wantFail(t, w.wait(short(t, moment), "default", name), fail.NotReady, "does not exist")
		_, err := o.c.Apply(ctx, workload(w.kind, name, "stuck:1", w.spec), ApplyOptions{})
		testkit.Must(t, err)
		o.eventually(t, "a pod of "+name+" is stuck", func() bool {
			pods, err := o.c.set.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name})
			return err == nil && slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return len(p.Status.ContainerStatuses) > 0 })
		})
		wantFail(t, w.wait(short(t, moment), "default", name), fail.NotReady, "pods available", "container c: ErrImagePull no such image")
		_, err = o.c.Apply(ctx, workload(w.kind, name, "good:1", w.spec), ApplyOptions{})
		testkit.Must(t, err)
		testkit.Must(t, w.wait(ctx, "default", name))
		_, err = o.c.Apply(ctx, workload(w.kind, name, "good:2", w.spec), ApplyOptions{})
		testkit.Must(t, err)
		testkit.Must(t, w.wait(ctx, "default", name))
	}
}

func (o *operations) smoke(t *testing.T) {
	var said []string
	opts := SmokeOptions{Image: "echo:1", Timeout: 30 * time.Second, Status: func(f string, args ...any) { said = append(said, fmt.Sprintf(f, args...)) }}
	for range 2 { // the second finds the first one's namespace terminating
		r, err := o.c.Smoke(t.Context(), opts)
		testkit.Must(t, err)
		if !slices.Equal(r.Backends, []string{"w1", "w2"}) || r.Client != "w3" || !r.CrossNode || r.ClusterIP <= 0 || r.DNS <= 0 {
			t.Errorf("%+v", r)
		}
		ns, err := o.c.set.CoreV1().Namespaces().Get(t.Context(), SmokeNamespace, metav1.GetOptions{})
		if err == nil && ns.DeletionTimestamp == nil {
			t.Error("the namespace stays behind")
		}
	}
	o.smokeTaints(t, opts)
	o.k.set(func() { o.k.exit = 1 })
	_, err := o.c.Smoke(t.Context(), opts)
	wantFail(t, err, fail.NotReady, "did not answer by its address from node w3: what the client said")
	o.k.set(func() { o.k.exit, o.k.stuck = 0, "echo:2" })
	testkit.Must(t, o.c.waitNamespaceGone(short(t, 20*time.Second), SmokeNamespace))
	opts.Image, opts.Timeout = "echo:2", 6*time.Second
	_, err = o.c.Smoke(t.Context(), opts)
	wantFail(t, err, fail.NotReady, "pod echo-", "ErrImagePull")
	testkit.Must(t, o.c.waitNamespaceGone(short(t, 20*time.Second), SmokeNamespace))
}

// smokeTaints runs the smoke test a moment after a node came back: its taint disappears, or stays.
func (o *operations) smokeTaints(t *testing.T, opts SmokeOptions) {
	taint := Taint{corev1.TaintNodeNotReady, "", "NoSchedule"}
	waiting := "waiting until the controller manager has removed the taint node.kubernetes.io/not-ready from w2"
	put := func(taints ...Taint) {
		t.Helper()
		n, err := o.c.set.CoreV1().Nodes().Get(t.Context(), "w2", metav1.GetOptions{})
		testkit.Must(t, err)
		n.Spec.Taints = nil
		for _, taint := range taints {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: taint.Key, Effect: corev1.TaintEffect(taint.Effect)})
		}
		_, err = o.c.set.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
		testkit.Must(t, err)
	}
	sibling := Taint{corev1.TaintNodeNotReady, "", "NoExecute"} // disappears later than the other; pods tolerate it
	put(taint, sibling)
	waited := 0
	opts.Status = func(f string, args ...any) {
		if fmt.Sprintf(f, args...) == waiting { // only now does it go
			waited++
			put(sibling)
		}
	}
	r, err := o.c.Smoke(t.Context(), opts)
	testkit.Must(t, err)
	if waited != 1 || !slices.Equal(r.Backends, []string{"w1", "w2"}) || r.Client != "w3" {
		t.Errorf("the test did not wait for the taint: told of it %d times, %+v", waited, r)
	}

	put(taint)
	defer put()
	opts.Status, opts.Taints = nil, moment
	_, err = o.c.Smoke(t.Context(), opts)
	wantFail(t, err, fail.NotReady, "smoke test", "w2: ready, but the controller manager has not removed the taint node.kubernetes.io/not-ready yet", "look at kube-controller-manager")
}

func (o *operations) token(t *testing.T) {
	token, err := o.c.CreateToken(t.Context(), time.Hour, "one more machine")
	testkit.Must(t, err)
	id, secret, _ := strings.Cut(token, ".")
	s, err := o.c.set.CoreV1().Secrets("kube-system").Get(t.Context(), "bootstrap-token-"+id, metav1.GetOptions{})
	testkit.Must(t, err)
	if string(s.Data["token-secret"]) != secret || len(id) != 6 || len(secret) != 16 {
		t.Errorf("token and Secret differ")
	}
	_, err = o.c.CreateToken(t.Context(), 0, "")
	wantFail(t, err, fail.Invalid)
}

func (o *operations) wrongUser(t *testing.T) {
	foreign := &api{t: t, dir: t.TempDir(), server: o.a.server}
	foreign.certificates()
	_, err := foreign.client().Nodes(t.Context())
	wantFail(t, err, fail.Unauthorized)
}
