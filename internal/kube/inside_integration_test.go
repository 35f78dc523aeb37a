//go:build integration

package kube_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/figures"
	"github.com/naupegos/naupegos/internal/kube/figures/figurestest"
	"github.com/naupegos/naupegos/internal/kube/running"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestInside lists workloads page by page from a real API server, and reads figures through its proxy from a server at the address of a pod.
func TestInside(t *testing.T) {
	c := kube.RealAPI(t)
	ctx := t.Context()
	testkit.Must(t, c.WaitReady(ctx))
	manifests := `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: shop}
---
apiVersion: v1
kind: Namespace
metadata: {name: prometheus}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: default, namespace: prometheus}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: dep}}
  template: {metadata: {labels: {app: dep}}, spec: {containers: [{name: web, image: example.org/web:1}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: shop}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: once, image: example.org/once}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: prometheus-a-0, namespace: prometheus, labels: {app.kubernetes.io/name: prometheus}}
spec: {containers: [{name: prometheus, image: example.org/prometheus}]}
`
	for i := range 105 { // without a controller: it may terminate slowly
		manifests += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: web-%03d, namespace: shop, labels: {app: web}}\nspec: {containers: [{name: web, image: 'example.org/web:1'}]}\n", i)
	}
	_, err := c.Apply(ctx, []byte(manifests), kube.ApplyOptions{})
	testkit.Must(t, err)
	workloads(t, c)
	proxied(t, c)
}

func workloads(t *testing.T, c *kube.Client) {
	ctx := t.Context()
	list := func(ask running.Ask) *running.List { t.Helper(); return testkit.Value(running.Of(ctx, c, ask))(t) }
	if bad := list(running.Ask{Namespace: "shop", Selector: "app=web", NotReady: true}); len(bad.Items) != 105 || bad.Read != 105 {
		t.Errorf("%d pods of %d are not ready", len(bad.Items), bad.Read)
	}
	first := list(running.Ask{Namespace: "shop", Selector: "app=web"})
	if len(first.Items) != 100 || first.Continue == "" {
		t.Fatalf("%d pods, continues at %q", len(first.Items), first.Continue)
	}
	second := list(running.Ask{Namespace: "shop", Selector: "app=web", Continue: first.Continue})
	if len(second.Items) != 5 || second.Continue != "" || second.Items[0].OK || second.Items[0].Why == "" || fmt.Sprint(second.Items[0].Containers, second.Items[0].Images) != "[web] [example.org/web:1]" {
		t.Errorf("%d more pods, such as %+v", len(second.Items), second.Items[0])
	}
	if d := list(running.Ask{Kind: running.Deployments, Namespace: "shop"}).Items; len(d) != 1 || d[0].OK || d[0].Ready != "0 of 3" || d[0].Selector != "app=dep" {
		t.Errorf("%+v", d)
	}
	if j := list(running.Ask{Kind: running.Jobs, Namespace: "shop"}).Items; len(j) != 1 || j[0].State != "suspended" || !j[0].OK {
		t.Errorf("%+v", j)
	}
	if none := list(running.Ask{Kind: running.StatefulSets, NotReady: true}); len(none.Items) != 0 {
		t.Errorf("%+v", none)
	}
	_, err := running.Of(ctx, c, running.Ask{Continue: "bm90aGluZw"})
	testkit.Fails(t, err, fail.Invalid, "list pods")
	if log := testkit.Value(running.LogFrom(ctx, c, running.LogOf{Namespace: "shop", Pod: first.Items[0].Name}))(t); log.Text != "" { // it runs nowhere
		t.Errorf("%+v", log)
	}
	_, err = running.LogFrom(ctx, c, running.LogOf{Namespace: "shop", Pod: "nothing"})
	testkit.Fails(t, err, fail.NotFound, "nothing")
}

func proxied(t *testing.T, c *kube.Client) {
	ctx := t.Context()
	var hostile atomic.Pointer[string] // the target of redirections
	fake, elsewhere := figurestest.Serve(t, 3), atomic.Int64{}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	host := address(t)
	l := testkit.Value(net.Listen("tcp", net.JoinHostPort(host, "0")))(t)
	pod := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := hostile.Load(); to != nil {
			http.Redirect(w, r, *to, http.StatusFound)
			return
		}
		q := r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, fake.Matrix(q.Get("query"), q.Get("start"), q.Get("end"), q.Get("step")))
	})}}
	pod.Start()
	defer pod.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	at := figures.Place{Namespace: "prometheus", App: "prometheus", Port: port}

	_, err := figures.Of(ctx, c, at, figures.Ask{}, time.Now())
	testkit.Fails(t, err, fail.NotReady, "pod prometheus-a-0 of Prometheus is not ready")
	live := testkit.Value(kube.Set(c).CoreV1().Pods("prometheus").Get(ctx, "prometheus-a-0", metav1.GetOptions{}))(t)
	live.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: host, PodIPs: []corev1.PodIP{{IP: host}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	testkit.Value(kube.Set(c).CoreV1().Pods("prometheus").UpdateStatus(ctx, live, metav1.UpdateOptions{}))(t)
	f := testkit.Value(figures.Of(ctx, c, at, figures.Ask{}, time.Now()))(t)
	for _, chart := range f.Charts {
		if chart.Problem != "" || len(chart.Series) == 0 {
			t.Errorf("%s: %q, %d series", chart.ID, chart.Problem, len(chart.Series))
		}
	}
	for _, to := range []string{other.URL + "/latest/meta-data", "/elsewhere"} {
		hostile.Store(&to)
		if _, err := figures.Of(ctx, c, at, figures.Ask{}, time.Now()); err == nil || !strings.Contains(err.Error(), "does not answer as Prometheus does") {
			t.Errorf("a redirection to %s: %v", to, err)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
	pod.Close()
	_, err = figures.Of(ctx, c, at, figures.Ask{}, time.Now())
	testkit.Fails(t, err, fail.NotReady, "ask pod prometheus-a-0", "refused")
}

// address returns a non-loopback address of this host, because API servers connect to no others.
func address(t *testing.T) string {
	t.Helper()
	for _, a := range testkit.Value(net.InterfaceAddrs())(t) {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Fatal("this test needs an address other than a loopback one")
	return ""
}
