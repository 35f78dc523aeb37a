package web

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/kube/figures"
	"github.com/naupegos/naupegos/internal/kube/figures/figurestest"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// measured adds the cluster quay with so many nodes, whose figures a fake of Prometheus has.
func (s *site) measured(nodes int) *figurestest.Fake {
	s.t.Helper()
	c := testkit.Value(s.store.CreateCluster(s.t.Context(), store.Cluster{Name: "quay", Provider: "local", Document: []byte(harbour)}))(s.t)
	fake := figurestest.Serve(s.t, nodes)
	status := &report.Status{Name: "quay", State: report.Healthy, API: "ready", Machines: []report.MachineStatus{{Name: "quay-gw-1", Role: "gateway", State: "running"}}}
	for _, n := range fake.Nodes {
		status.Machines = append(status.Machines, report.MachineStatus{Name: n, Role: "worker", Pool: "general", Address: "10.0.0.7", State: "running", Config: "up to date", Node: "Ready"})
	}
	s.saw(c.ID, status)
	s.pages.figures = func(ctx context.Context, _ *Pages, _ *access.Operator, name string, ask figures.Ask) (*figures.Figures, error) {
		if name != "quay" {
			s.t.Errorf("the figures of %s are read", name)
		}
		return figures.Of(ctx, fake.Client, figurestest.Place, ask, time.Now())
	}
	return fake
}

// TestFiguresTab: the page comes without waiting for the cluster, its charts follow, and they have their values in words. Names of machines stay text.
func TestFiguresTab(t *testing.T) {
	s := newSite(t)
	fake := s.measured(50)
	fake.Odd = evil
	a := s.ask("GET", "/ui/clusters/quay/figures?range=6h", s.reader, nil)
	for _, want := range []string{`data-later="/ui/clusters/quay/figures?look=yes&amp;range=6h" data-every="360"`, `aria-current="true">last 6 hours<`, `<script src="/ui/static/charts.js`, `<div id="head" data-live=`, "naupegos top quay"} {
		if !strings.Contains(a.body, want) {
			t.Errorf("there is no %s in %s", want, a.body)
		}
	}
	if n := len(fake.Asked()); a.code != http.StatusOK || n != 0 {
		t.Errorf("%d, and %d queries before the page was there", a.code, n)
	}
	a = s.ask("GET", "/ui/clusters/quay/figures?look=yes", s.reader, nil)
	drawn := 0
	for _, q := range figures.Queries() {
		if !strings.Contains(a.body, "<h3>"+q.Title+"</h3>") {
			t.Errorf("there is no chart %q", q.Title)
		}
		drawn++
	}
	if n := strings.Count(a.body, `<svg role="img" aria-label="`); n != drawn {
		t.Errorf("%d of %d charts are drawn with a text for those who do not see them", n, drawn)
	}
	for _, want := range []string{"Only the highest are drawn; 45 others are lower.", `href="/ui/clusters/quay/machines/quay-general-50"`, "as prometheus-a-0 measured", "&lt;script&gt;", `class="line s5"`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("there is no %q", want)
		}
	}
	if strings.Contains(a.body, evil) || strings.Contains(a.body, " style=") || len(a.body) > 100<<10 {
		t.Errorf("the page has %d bytes, or a stranger's markup, or a style of its own", len(a.body))
	}
	t.Logf("FIGURE the figures of 50 nodes have %d bytes", len(a.body))
	if path := regexp.MustCompile(`class="line s0" d="(M[^"]*)"`).FindStringSubmatch(a.body); path == nil || strings.Count(path[1], "M") != 2 || strings.Contains(path[1], "NaN") {
		t.Errorf("the first line does not have its gap: %v", path)
	}
	for path, code := range map[string]int{"/ui/clusters/quay/figures?range=2h": 400, "/ui/clusters/nothing/figures": 404} {
		if a := s.ask("GET", path, s.admin, nil); a.code != code {
			t.Errorf("%s: %d", path, a.code)
		}
	}
	if a := s.ask("GET", "/ui/clusters/quay/figures?look=yes", s.local, nil); a.code != http.StatusNotFound {
		t.Errorf("an operator of another cluster: %d", a.code)
	}
	if a := s.ask("GET", "/ui/clusters/quay/nodes", s.reader, nil); strings.Contains(a.body, "charts.js") {
		t.Error("a page without charts has their script")
	}
}

// TestFiguresThatAreMissing: a cluster without Prometheus, one whose Prometheus is broken, one without a kind of metric and one that does not exist yet say so, and
// the rest of the page is there.
func TestFiguresThatAreMissing(t *testing.T) {
	s := newSite(t)
	fake := s.measured(1)
	see := func(words ...string) {
		t.Helper()
		a := s.ask("GET", "/ui/clusters/quay/figures?look=yes", s.reader, nil)
		for _, w := range append(words, "quay</h1>", ">last hour<", `class="tabs"`) {
			if !strings.Contains(strings.ReplaceAll(a.body, ` <span class="dim small">local</span>`, ""), w) {
				t.Errorf("%d, and there is no %q in %s", a.code, w, a.body)
			}
		}
	}
	fake.Change(func() {
		fake.Pods["prometheus-a-0"], fake.Pods["prometheus-b-0"] = "no volume"+evil, "no volume"
	})
	see(`role="alert"`, "pod prometheus-a-0 of Prometheus is not ready", "no volume&lt;script&gt;")
	fake.Change(func() {
		fake.Pods["prometheus-a-0"] = ""
		fake.Answer = func(w http.ResponseWriter, r *http.Request, _ string) {
			w.Header().Set("Content-Type", "application/json")
			if strings.Contains(r.URL.Query().Get("query"), "kube_") {
				fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
				return
			}
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"status":"error","error":"too many samples"}`)
		}
	})
	see("Prometheus does not answer this query", "too many samples", "The addon kube-state-metrics measures them.")
	fake.Change(func() { fake.Pods = nil })
	see("The cluster has no Prometheus", "spec.addons")
	s.pages.figures = askFigures // of a cluster that never came up
	see(`role="alert"`, "quay")
}

// TestFiguresOfAMachine: a machine's page has its charts, unless it is no node.
func TestFiguresOfAMachine(t *testing.T) {
	s := newSite(t)
	fake := s.measured(3)
	a := s.ask("GET", "/ui/clusters/quay/machines/quay-general-2", s.reader, nil)
	if want := `data-later="/ui/clusters/quay/machines/quay-general-2?look=yes"`; !strings.Contains(a.body, want) || !strings.Contains(a.body, "charts.js") {
		t.Errorf("there is no %s in %s", want, a.body)
	}
	a = s.ask("GET", "/ui/clusters/quay/machines/quay-general-2?look=yes&range=24h", s.reader, nil)
	if !strings.Contains(a.body, "<h3>CPU</h3>") || strings.Contains(a.body, "quay-general-1") || strings.Contains(a.body, "All machines") || strings.Contains(a.body, "Pods by phase") {
		t.Errorf("%d %s", a.code, a.body)
	}
	asked := fake.Asked()
	if a := s.ask("GET", "/ui/clusters/quay/machines/quay-gw-1?look=yes", s.reader, nil); a.code != http.StatusOK || strings.Contains(a.body, "<figure") || len(fake.Asked()) != len(asked) {
		t.Errorf("the page of a gateway: %d %s", a.code, a.body)
	}
}
