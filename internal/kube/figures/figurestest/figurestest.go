// Package figurestest serves a Kubernetes API with pods of Prometheus behind it, for tests.
package figurestest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/figures"
	"github.com/naupegos/naupegos/internal/testkit"
)

// Place is the place of the API's Prometheus pods.
var Place = figures.Place{Namespace: "prometheus", App: "prometheus", Port: "9090"}

// Fake is a Kubernetes API. A test sets its fields before the first request, and through Change after it.
type Fake struct {
	Client *kube.Client
	URL    string
	Pods   map[string]string // the pods of Prometheus, and why they are not ready; empty: they are
	Nodes  []string
	Odd    string // a name that the fake uses for one series of each kind, such as that of an attacker
	// Answer answers queries in place of the fake; nil: the fake does.
	Answer func(w http.ResponseWriter, r *http.Request, pod string)

	serving sync.RWMutex // held for reading by each request: a client that has its answer may have left others
	mutex   sync.Mutex
	asked   []Asked
}

// Asked is a query that arrived.
type Asked struct{ Pod, Query, Start, End, Step, Limit string }

// Serve starts a fake with two pods of Prometheus and the given number of nodes.
func Serve(t testing.TB, nodes int) *Fake {
	t.Helper()
	f := &Fake{Pods: map[string]string{"prometheus-a-0": "", "prometheus-b-0": ""}}
	for i := range nodes {
		f.Nodes = append(f.Nodes, fmt.Sprintf("quay-general-%d", i+1))
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.URL = server.URL
	conf := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: secret}}]\n", server.URL)
	f.Client = testkit.Value(kube.NewClient([]byte(conf), kube.ClientOptions{}))(t)
	t.Cleanup(f.Client.Close)
	return f
}

// Change changes the fake's fields while it serves no request.
func (f *Fake) Change(change func()) {
	f.serving.Lock()
	defer f.serving.Unlock()
	change()
}

// Asked returns the queries that arrived.
func (f *Fake) Asked() []Asked {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.asked)
}

// ServeHTTP implements http.Handler.
func (f *Fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.serving.RLock()
	defer f.serving.RUnlock()
	const pods = "/api/v1/namespaces/prometheus/pods"
	if r.URL.Path == pods && r.URL.Query().Get("labelSelector") == "app.kubernetes.io/name=prometheus" {
		f.list(w)
		return
	}
	rest, found := strings.CutPrefix(r.URL.Path, pods+"/")
	pod, rest, _ := strings.Cut(rest, ":")
	if _, known := f.Pods[pod]; !found || !known || rest != "9090/proxy/api/v1/query_range" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"there is no %s"}`, r.URL.Path)
		return
	}
	q := r.URL.Query()
	f.mutex.Lock()
	f.asked = append(f.asked, Asked{pod, q.Get("query"), q.Get("start"), q.Get("end"), q.Get("step"), q.Get("limit")})
	f.mutex.Unlock()
	if f.Answer != nil {
		f.Answer(w, r, pod)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, f.Matrix(q.Get("query"), q.Get("start"), q.Get("end"), q.Get("step")))
}

// list answers with the pods.
func (f *Fake) list(w http.ResponseWriter) {
	var items []map[string]any
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(f.Pods))) {
		ready := map[string]any{"type": "Ready", "status": "True"}
		if why := f.Pods[name]; why != "" {
			ready = map[string]any{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": why}
		}
		items = append(items, map[string]any{"metadata": map[string]any{"name": name, "namespace": "prometheus"}, "status": map[string]any{"phase": "Running", "conditions": []any{ready}}})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "PodList", "apiVersion": "v1", "items": items}) // an error means that the client has left
}

// Matrix is Prometheus 3's answer to a query: with the labels of its aggregation, and a value for each step except for a gap.
func (f *Fake) Matrix(query, start, end, step string) string {
	names := map[string][]string{"verb": {"GET", "LIST", "PATCH", "POST", "PUT", "DELETE", "APPLY"}, "phase": {"Failed", "Pending", "Running", "Succeeded", "Unknown"}, "namespace": {"default", "kube-system"}, "node": f.Nodes}
	label, top := "node", 1.0
	for _, l := range []string{"verb", "phase", "namespace"} {
		if strings.Contains(query, "by ("+l) {
			label, top = l, 40
		}
	}
	switch {
	case strings.Contains(query, "network"):
		top = 3e7
	case strings.Contains(query, "size_bytes{job"):
		top = 5e7
	case strings.Contains(query, "duration"):
		top = 0.02
	}
	all := names[label]
	if f.Odd != "" {
		all = append(slices.Clone(all), f.Odd)
	}
	if _, only, is := strings.Cut(query, `,node="`); is {
		only, _, _ = strings.Cut(only, `"`)
		all = []string{only}
	}
	from, _ := strconv.ParseInt(start, 10, 64)
	to, _ := strconv.ParseInt(end, 10, 64)
	each, _ := strconv.ParseInt(step, 10, 64)
	var result []map[string]any
	for n, name := range all {
		var values [][2]any
		for at := from; at <= to && each > 0; at += each {
			i := float64((at - from) / each)
			if i == 20 { // a gap, as of a machine that rebooted
				continue
			}
			v := strconv.FormatFloat(top*(0.3+0.05*float64(n%9)+0.25*math.Sin(i/7+float64(n))), 'g', -1, 64)
			if i == 21 {
				v = "NaN"
			}
			values = append(values, [2]any{float64(at), v})
		}
		result = append(result, map[string]any{"metric": map[string]string{label: name}, "values": values})
	}
	text, _ := json.Marshal(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": result}}) // of plain types alone
	return string(text)
}
