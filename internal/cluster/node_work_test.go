package cluster

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestQuorumWithout(t *testing.T) {
	l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
	o := l.observed(nil, controlPlanes(3)...)
	if p, err := nodes.QuorumWithout(o, []string{"demo-cp-2"}); err != nil || p.String() != "2 of 3 voters healthy, 2 needed" {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := nodes.QuorumWithout(o, []string{"demo-cp-2", "demo-cp-3"}); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "lose its quorum") {
		t.Errorf("two of three: %v", err)
	}
	l.state("demo-cp-3", provider.Stopped)
	o = l.observed(nil, controlPlanes(3)...)
	if _, err := nodes.QuorumWithout(o, []string{"demo-cp-2"}); fail.KindOf(err) != fail.Refused {
		t.Errorf("the second after one is down: %v", err)
	}
	if _, err := nodes.QuorumWithout(o, []string{"demo-cp-3"}); err != nil {
		t.Errorf("the one that is down: %v", err)
	}
	o.EtcdErr = errors.New("no answer")
	if _, err := nodes.QuorumWithout(o, []string{"demo-cp-1"}); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "can't be foreseen") {
		t.Errorf("blind: %v", err)
	}
}

// TestOutage: each role has its own words, and machines that are off have none.
func TestOutage(t *testing.T) {
	l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
	for _, c := range []struct {
		machines []string
		want     []string
	}{
		{[]string{"demo-a-1"}, []string{"demo-a-1: pods are not evicted"}},
		{[]string{"demo-gw-1", "demo-a-2"}, []string{"demo-a-2: pods", "another gateway takes over the address"}},
		{[]string{"demo-gw-1", "demo-gw-2"}, []string{"no gateway is left"}},
	} {
		got, err := l.Outage(t.Context(), c.machines)
		if err != nil || got.Quorum != nil || len(got.Words) != len(c.want) {
			t.Errorf("%v: %+v, %v", c.machines, got, err)
			continue
		}
		for i, w := range c.want {
			if !strings.Contains(got.Words[i], w) {
				t.Errorf("%v: %q lacks %q", c.machines, got.Words[i], w)
			}
		}
	}
	l.state("demo-a-1", provider.Stopped)
	if got, err := l.Outage(t.Context(), []string{"demo-a-1"}); err != nil || len(got.Words) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestNodesAreAskedFirst: work on nodes is refused at once if the cluster never came up, if its API does not answer, or if one of the nodes does
// not exist: nothing waits for that, and the other nodes are not touched.
func TestNodesAreAskedFirst(t *testing.T) {
	ours := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/nodes/demo-a-1":
			_, _ = w.Write([]byte(`{"kind": "Node", "apiVersion": "v1", "metadata": {"name": "demo-a-1"}}`))
		case "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/demo-a-1":
			_, _ = w.Write([]byte(`{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "demo-a-1"}}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "nodes not found"}`))
		}
	}))
	defer ours.Close()
	conf := []byte("{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x}}], clusters: [{name: x, cluster: {server: '" + ours.URL + "'}}]}")
	doc := document(t, 1, 0, 2)
	l := newLab(t, doc)
	plans := map[string]func(nodes ...string) (*plan.Plan, error){
		"node cordon": func(nodes ...string) (*plan.Plan, error) {
			return l.PlanCordon(t.Context(), "node cordon", nodes, true)
		},
		"node uncordon": func(nodes ...string) (*plan.Plan, error) {
			return l.PlanCordon(t.Context(), "node uncordon", nodes, false)
		},
		"node drain": func(nodes ...string) (*plan.Plan, error) {
			return l.PlanDrain(t.Context(), "node drain", nodes, kube.DrainOptions{})
		},
	}
	for _, planned := range plans {
		_, err := planned("demo-a-1")
		testkit.Fails(t, err, fail.NotReady, "cluster demo has not come up yet", "naupegos apply")
	}
	l.Running(doc)
	l.UseAPI(testkit.Value(kube.NewClient(conf, kube.ClientOptions{Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, fail.New(fail.Unreachable, "connection refused")
	}}))(t))
	for verb, planned := range plans {
		_, err := planned("demo-a-1")
		testkit.Fails(t, err, fail.Unreachable, verb+": the API of cluster demo does not answer", "connection refused", "naupegos status demo")
	}
	l.UseAPI(testkit.Value(kube.NewClient(conf, kube.ClientOptions{Timeout: 20 * time.Second}))(t))
	for verb, planned := range plans {
		_, err := planned("demo-a-1", "demo-a-9")
		testkit.Fails(t, err, fail.NotFound, "cluster demo has no node demo-a-9", "naupegos node list demo")
		if p := testkit.Value(planned("demo-a-1"))(t); len(p.Steps) != 1 || p.Verb != verb {
			t.Errorf("%s plans %+v", verb, p)
		}
	}
}
