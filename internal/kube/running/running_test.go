package running

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/testkit"
)

// serve returns a client of an API that answers with h, and the queries that arrived.
func serve(t *testing.T, h http.HandlerFunc) (*kube.Client, *[]*url.URL) {
	t.Helper()
	var asked []*url.URL
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL)
		h(w, r)
	}))
	t.Cleanup(server.Close)
	conf := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\n", server.URL)
	c := testkit.Value(kube.NewClient([]byte(conf), kube.ClientOptions{}))(t)
	t.Cleanup(c.Close)
	return c, &asked
}

type object = map[string]any

// listed answers with a list of objects.
func listed(w http.ResponseWriter, kind, next string, items ...object) {
	w.Header().Set("Content-Type", "application/json")
	version := map[bool]string{true: "v1", false: "apps/v1"}[kind == "PodList"]
	if kind == "JobList" {
		version = "batch/v1"
	}
	_ = json.NewEncoder(w).Encode(object{"kind": kind, "apiVersion": version, "metadata": object{"continue": next}, "items": items})
}

func pod(name string, status object) object {
	return object{"metadata": object{"name": name, "namespace": "shop", "creationTimestamp": "2026-11-30T12:00:00Z"}, "status": status,
		"spec": object{"nodeName": "n1", "containers": []object{{"name": "web", "image": "registry.example.org/web:1"}, {"name": "side", "image": "side"}}, "initContainers": []object{{"name": "migrate"}}}}
}

var (
	ready   = object{"phase": "Running", "conditions": []object{{"type": "Ready", "status": "True"}}, "containerStatuses": []object{{"name": "web", "ready": true, "restartCount": 3}, {"name": "side", "ready": true}}}
	crashes = object{"phase": "Running", "conditions": []object{{"type": "Ready", "status": "False"}}, "containerStatuses": []object{{"name": "web", "restartCount": 7,
		"state": object{"waiting": object{"reason": "CrashLoopBackOff", "message": "back-off\x1b[2J 5m0s"}}, "lastState": object{"terminated": object{"exitCode": 2, "message": "no such table"}}}}}
	waits = object{"phase": "Pending", "conditions": []object{{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available: insufficient memory"}}}
	ended = object{"phase": "Succeeded"}
)

// TestPods: pods come with state, restarts, node and images; one that is not ready has its kubelet's words, without control characters.
func TestPods(t *testing.T) {
	c, asked := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		listed(w, "PodList", "more", pod("a", ready), pod("b", crashes), pod("c", waits), pod("d", ended))
	})
	got := testkit.Value(Of(t.Context(), c, Ask{Namespace: "shop", Selector: "app=web", Continue: "here"}))(t)
	var lines []string
	for _, w := range got.Items {
		lines = append(lines, fmt.Sprint(w.Name, " ", w.State, " ", w.OK, " ", w.Ready, " ", w.Restarts, " ", w.Node, " ", w.Why))
	}
	want := []string{"a Running true 2 of 2 3 n1 ", "b CrashLoopBackOff false 0 of 2 7 n1 container web: CrashLoopBackOff back-off␛[2J 5m0s (last exit status 2 no such table)",
		"c Pending false 0 of 2 0 n1 not scheduled: 0/3 nodes are available: insufficient memory", "d Succeeded true 0 of 2 0 n1 "}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
	if w := got.Items[0]; fmt.Sprint(w.Containers, w.Images, w.Namespace) != "[web side migrate] [registry.example.org/web:1 side]shop" || w.Created.IsZero() || got.Continue != "more" || got.Kind != Pods {
		t.Errorf("%+v %s", w, got.Continue)
	}
	at := (*asked)[0]
	if q := at.Query(); at.Path != "/api/v1/namespaces/shop/pods" || q.Get("limit") != "100" || q.Get("labelSelector") != "app=web" || q.Get("continue") != "here" {
		t.Errorf("asked %s", at)
	}
}

// TestNotReady: Of reads the API's pages until unready objects fill one, up to a bound.
func TestNotReady(t *testing.T) {
	bad := 0 // of the pods on each page
	c, asked := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		var items []object
		for i := range 500 {
			status := ready
			if i < bad {
				status = crashes
			}
			items = append(items, pod(fmt.Sprint("p", n, "-", i), status))
		}
		listed(w, "PodList", strconv.Itoa(n+1), items...)
	})
	for _, want := range []struct{ bad, items, requests int }{{0, 0, 20}, {60, 120, 2}} {
		bad, *asked = want.bad, nil
		got := testkit.Value(Of(t.Context(), c, Ask{NotReady: true}))(t)
		if len(got.Items) != want.items || len(*asked) != want.requests || got.Read != 500*want.requests || got.Continue != strconv.Itoa(want.requests) {
			t.Errorf("%d items, %d requests, %d read, continues at %s; want %+v", len(got.Items), len(*asked), got.Read, got.Continue, want)
		}
	}
}

// TestControllers: each kind says how many of its pods are ready, and why not, if its controller says so.
func TestControllers(t *testing.T) {
	template := object{"spec": object{"containers": []object{{"name": "web", "image": "web:1"}}}}
	selector := object{"matchLabels": object{"app": "web"}}
	meta := object{"name": "web", "namespace": "shop", "generation": 2}
	for kind, c := range map[string]struct {
		list, path string
		spec       object
		cases      map[string]object // by the expected reason
	}{
		Deployments: {"DeploymentList", "/apis/apps/v1/deployments", object{"replicas": 3, "selector": selector, "template": template}, map[string]object{
			"ready true 3 of 3 ":                      {"observedGeneration": 2, "updatedReplicas": 3, "readyReplicas": 3},
			"incomplete false 1 of 3 ":                {"observedGeneration": 2, "updatedReplicas": 3, "readyReplicas": 1},
			"rolling out false 3 of 3 quota exceeded": {"observedGeneration": 2, "updatedReplicas": 1, "readyReplicas": 3, "conditions": []object{{"type": "ReplicaFailure", "status": "True", "message": "quota exceeded"}}},
			"not taken up yet false 3 of 3 ":          {"observedGeneration": 1, "updatedReplicas": 3, "readyReplicas": 3}}},
		StatefulSets: {"StatefulSetList", "/apis/apps/v1/statefulsets", object{"selector": selector, "template": template}, map[string]object{
			"ready true 1 of 1 ": {"observedGeneration": 2, "readyReplicas": 1, "currentRevision": "a", "updateRevision": "a"}, "rolling out false 1 of 1 ": {"observedGeneration": 2, "readyReplicas": 1, "currentRevision": "a", "updateRevision": "b"}}},
		DaemonSets: {"DaemonSetList", "/apis/apps/v1/daemonsets", object{"selector": selector, "template": template}, map[string]object{
			"incomplete false 4 of 5 ": {"observedGeneration": 2, "desiredNumberScheduled": 5, "updatedNumberScheduled": 5, "numberReady": 4}}},
		Jobs: {"JobList", "/apis/batch/v1/jobs", object{"selector": selector, "template": template}, map[string]object{
			"complete true 1 of 1 ": {"succeeded": 1, "failed": 2, "conditions": []object{{"type": "Complete", "status": "True"}}}, "running true 0 of 1 ": {"active": 1},
			"failed false 0 of 1 BackoffLimitExceeded: too often": {"failed": 6, "conditions": []object{{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}}}}},
	} {
		for want, status := range c.cases {
			client, asked := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				listed(w, c.list, "", object{"metadata": meta, "spec": c.spec, "status": status})
			})
			got := testkit.Value(Of(t.Context(), client, Ask{Kind: kind}))(t)
			if w := got.Items[0]; fmt.Sprint(w.State, " ", w.OK, " ", w.Ready, " ", w.Why) != want || w.Selector != "app=web" || (*asked)[0].Path != c.path {
				t.Errorf("%s: %+v of %s, want %s", kind, w, (*asked)[0].Path, want)
			}
		}
	}
}

// TestHostileLists: a list without an end, or with more than requested, stays bounded; an impossible request does not reach the API.
func TestHostileLists(t *testing.T) {
	c, asked := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var items []object
		for i := range 3000 {
			items = append(items, pod(strings.Repeat("x", 100)+fmt.Sprint(i), waits))
		}
		listed(w, "PodList", r.URL.Query().Get("continue")+"x", items...)
	})
	if got := testkit.Value(Of(t.Context(), c, Ask{NotReady: true}))(t); len(got.Items) != 500 || len(*asked) != 1 {
		t.Errorf("%d items in %d requests", len(got.Items), len(*asked))
	}
	*asked = nil
	for _, ask := range []Ask{{Kind: "secrets"}, {Namespace: "../../secrets"}, {Namespace: "A"}, {Selector: "a in"}, {Selector: strings.Repeat("a,", 1000)}, {Continue: strings.Repeat("a", 5000)}} {
		_, err := Of(t.Context(), c, ask)
		testkit.Fails(t, err, fail.Invalid)
	}
	for _, of := range []LogOf{{}, {Namespace: "shop"}, {Namespace: "shop", Pod: "../x"}, {Namespace: "shop", Pod: "a", Container: "a/b"}, {Namespace: "shop", Pod: "a", Lines: 9999}} {
		_, err := LogFrom(t.Context(), c, of)
		testkit.Fails(t, err, fail.Invalid)
	}
	if len(*asked) != 0 {
		t.Errorf("%v was asked", *asked)
	}
}

// TestLog: Log returns the last lines without terminal control sequences; of a log that is too long, the end.
func TestLog(t *testing.T) {
	text := "2026-11-30T12:00:00Z <script>\x1b]0;x\a\u202eok\n"
	c, asked := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
	of := LogOf{Namespace: "shop", Pod: "a", Container: "web", Previous: true}
	if got := testkit.Value(LogFrom(t.Context(), c, of))(t); got.Text != "2026-11-30T12:00:00Z <script>ok\n" || got.Cut {
		t.Errorf("%+v", got)
	}
	if q := (*asked)[0].Query(); (*asked)[0].Path != "/api/v1/namespaces/shop/pods/a/log" || q.Get("tailLines") != "200" || q.Get("container") != "web" || q.Get("previous") != "true" || q.Get("limitBytes") == "" || q.Get("follow") != "" {
		t.Errorf("asked %s", (*asked)[0])
	}
	for _, line := range []string{strings.Repeat("y", 1000) + "\n", strings.Repeat("z", 8<<20)} {
		text = strings.Repeat(line, (8<<20)/len(line)) + "the end\n"
		got := testkit.Value(LogFrom(t.Context(), c, of))(t)
		if len(got.Text) > maxLog || !got.Cut {
			t.Errorf("%d bytes, cut %v", len(got.Text), got.Cut)
		}
	}
	text = strings.Repeat(strings.Repeat("y", 1000)+"\n", 100) + "the end\n"
	if got := testkit.Value(LogFrom(t.Context(), c, of))(t); !strings.HasSuffix(got.Text, "\nthe end\n") || !strings.HasPrefix(got.Text, "yyy") || !got.Cut {
		t.Errorf("%d bytes, cut %v", len(got.Text), got.Cut)
	}
}
