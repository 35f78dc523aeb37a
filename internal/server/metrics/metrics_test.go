package metrics

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/naupegos/naupegos/internal/server/watch"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/health"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// told returns the metrics of a server with one object of each kind.
func told(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	st := testkit.Value(store.Open(ctx, store.Location{Dir: t.TempDir()}))(t)
	t.Cleanup(func() { _ = st.Close() })
	c := testkit.Value(st.CreateCluster(ctx, store.Cluster{Name: "demo", Provider: "local", Document: []byte("kind: Cluster\n")}))(t)
	is := watch.Summary{Nodes: watch.Members{Well: 4, Wanted: 5}, Voters: watch.Members{Well: 2, Wanted: 3}, Backup: time.Now(), Proven: time.Now(), Certificate: time.Now().Add(48 * time.Hour)}
	if !testkit.Value(st.Health().Take(ctx, c.ID, "a", time.Hour))(t) {
		t.Fatal("no look is running, and none can be taken")
	}
	testkit.Must(t, st.Health().Put(ctx, "a", health.Record{ClusterID: c.ID, State: watch.Drifted, Summary: testkit.Value(json.Marshal(is))(t), Report: []byte("{}")}, time.Hour))
	l := testkit.Value(st.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{}))(t)
	t.Cleanup(func() { _ = l.Release(context.Background()) })
	_, err := st.Metal().Change(ctx, "b5bda1cd-0001", metal.How{Make: true}, func(d *metal.Draft) error { d.State = "running"; return nil })
	testkit.Must(t, err)
	testkit.Must(t, st.BeatServer(ctx, store.ServerInfo{ID: "a", Started: time.Now()}, time.Hour))
	testkit.Value(st.AddJob(ctx, store.Job{Cluster: "demo", Verb: "renew", Request: []byte("{}")}))(t)
	d := testkit.Value(st.TakeDuty(ctx, "demo", "drift", time.Hour))(t)
	d.Outcome, d.Failures = store.DutyFailed, 3
	testkit.Must(t, st.EndDuty(ctx, d, time.Hour))
	m := New(Config{Store: st, Version: "v1.2.3", Log: slog.New(slog.DiscardHandler), Expiry: func(context.Context, string) (Expiry, error) {
		return Expiry{Authority: time.Unix(2000000000, 0), Leaf: time.Unix(1900000000, 0)}, nil
	}})
	m.Job("apply", "done")
	m.Unattended(*d)
	m.Webhook("ops", "sent")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/clusters/{name}", func(http.ResponseWriter, *http.Request) {})
	for _, path := range []string{"/api/v1/clusters/demo", "/../../etc/passwd"} {
		for _, method := range []string{http.MethodGet, "PROPFIND"} {
			r := httptest.NewRequest(method, path, nil)
			if method == http.MethodGet {
				mux.ServeHTTP(httptest.NewRecorder(), r)
			}
			m.Request(r, 200, 3*time.Millisecond)
		}
	}
	w := httptest.NewRecorder()
	part := m.Part()
	part.Mounts[0].Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK || len(part.Mounts) != 1 || part.Mounts[0].Need != "read" {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestMetrics(t *testing.T) {
	text := told(t)
	for _, want := range []string{
		`naupegos_webhook_messages_total{outcome="sent",webhook="ops"} 1`,
		`naupegos_build_info{version="v1.2.3"} 1`, `naupegos_servers 1`, `naupegos_clusters 1`, `naupegos_jobs{state="queued"} 1`, `naupegos_jobs{state="running"} 0`,
		`naupegos_lease_held{cluster="demo",verb="apply"} 1`, `naupegos_machines{state="running"} 1`, `naupegos_unattended_failures{cluster="demo",kind="drift"} 3`,
		`naupegos_unattended_last_success_timestamp_seconds{cluster="demo",kind="drift"} 0`, `naupegos_unattended_runs_total{cluster="demo",kind="drift",outcome="failed"} 1`,
		`naupegos_certificate_expiry_timestamp_seconds{authority="true",cluster="demo"} 2e+09`, `naupegos_certificate_expiry_timestamp_seconds{authority="false",cluster="demo"} 1.9e+09`,
		`naupegos_cluster_healthy{cluster="demo"} 1`, `naupegos_cluster_drifted{cluster="demo"} 1`, `naupegos_cluster_nodes_ready{cluster="demo"} 4`, `naupegos_cluster_nodes_wanted{cluster="demo"} 5`,
		`naupegos_cluster_etcd_voters_healthy{cluster="demo"} 2`, `naupegos_cluster_etcd_voters{cluster="demo"} 3`,
		`naupegos_jobs_ended_total{outcome="done",verb="apply"} 1`, `naupegos_scrape_errors_total 0`,
		`naupegos_http_requests_total{code="200",method="GET",route="GET /api/v1/clusters/{name}"} 1`, `naupegos_http_requests_total{code="200",method="other",route="none"} 2`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("it does not tell %s", want)
		}
	}
	if strings.Contains(text, "passwd") {
		t.Error("a request's path becomes a label")
	}
}

// TestStoreAway: metrics that can't be read from the store are omitted, and counted.
func TestStoreAway(t *testing.T) {
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	testkit.Must(t, st.Close())
	m := New(Config{Store: st, Log: slog.New(slog.DiscardHandler), Within: time.Second})
	p := m.Part()
	var body string
	for range 2 {
		w := httptest.NewRecorder()
		p.Mounts[0].Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		body = w.Body.String()
	}
	if strings.Contains(body, "naupegos_clusters") || !regexp.MustCompile(`naupegos_scrape_errors_total ([6-9]|1[0-9])`).MatchString(body) {
		t.Errorf("it tells %s", body)
	}
}

// parsed parses metrics as Prometheus does: the labels of each metric by its name, and the server's own metrics. A histogram has three names.
func parsed(t *testing.T, text string) (labels map[string][]string, own []string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families := testkit.Value(parser.TextToMetricFamilies(strings.NewReader(text)))(t)
	labels = map[string][]string{}
	for name, f := range families {
		if f.GetHelp() == "" {
			t.Errorf("%s is not described", name)
		}
		if strings.HasPrefix(name, "naupegos_") {
			own = append(own, name)
		}
		if len(f.GetMetric()) == 0 {
			t.Errorf("%s has no value", name)
			continue
		}
		has := []string{"instance", "job"} // Prometheus adds these
		for _, l := range f.GetMetric()[0].GetLabel() {
			has = append(has, l.GetName())
		}
		if labels[name] = has; f.GetType().String() == "HISTOGRAM" {
			labels[name+"_sum"], labels[name+"_count"], labels[name+"_bucket"] = has, has, append(slices.Clone(has), "le")
		}
	}
	return labels, own
}

// TestDashboard: the server serves each metric of the dashboard, with the labels that the dashboard uses, and the dashboard shows all of the
// server's own metrics.
func TestDashboard(t *testing.T) {
	var board struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr   string `json:"expr"`
				Legend string `json:"legendFormat"`
			} `json:"targets"`
		} `json:"panels"`
	}
	testkit.Must(t, json.Unmarshal(testkit.Value(os.ReadFile("../../../examples/grafana/naupegos.json"))(t), &board))
	labels, own := parsed(t, told(t))
	shown := map[string]bool{}
	names, by, legend := regexp.MustCompile(`\b(naupegos|go|process)_[a-z_]+`), regexp.MustCompile(`\bby \(([^)]*)\)`), regexp.MustCompile(`{{ *([a-z_]+) *}}`)
	for _, p := range board.Panels {
		if p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("a panel has no title, or shows nothing: %+v", p)
		}
		for _, target := range p.Targets {
			var asked []string
			for _, m := range by.FindAllStringSubmatch(target.Expr, -1) {
				asked = append(asked, strings.Split(strings.ReplaceAll(m[1], " ", ""), ",")...)
			}
			for _, m := range legend.FindAllStringSubmatch(target.Legend, -1) {
				asked = append(asked, m[1])
			}
			used := names.FindAllString(target.Expr, -1)
			if len(used) == 0 {
				t.Errorf("%s: %s is about no metric", p.Title, target.Expr)
			}
			for _, name := range used {
				shown[strings.TrimSuffix(name, "_bucket")] = true
				has, ok := labels[name]
				if !ok {
					t.Errorf("%s: there is no metric %s", p.Title, name)
				}
				for _, l := range asked {
					if ok && !slices.Contains(has, l) {
						t.Errorf("%s: %s has no label %s, only %v", p.Title, name, l, has)
					}
				}
			}
		}
	}
	for _, name := range own {
		if !shown[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// TestReference: the page about metrics lists exactly the server's own metrics, with their labels.
func TestReference(t *testing.T) {
	page := string(testkit.Value(os.ReadFile("../../../docs/reference/server.md"))(t))
	labels, own := parsed(t, told(t))
	told := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`naupegos_[^|]*)\\| ([^|]*)\\|").FindAllStringSubmatch(page, -1) {
		for _, name := range regexp.MustCompile(`naupegos_[a-z_]+`).FindAllString(row[1], -1) {
			told[name] = true
			has := slices.DeleteFunc(slices.Clone(labels[name]), func(l string) bool { return l == "instance" || l == "job" })
			want := strings.FieldsFunc(row[2], func(r rune) bool { return r == ',' || r == ' ' })
			slices.Sort(want)
			if slices.Sort(has); !slices.Equal(has, want) {
				t.Errorf("%s has the labels %v, the page says %v", name, has, want)
			}
		}
	}
	for _, name := range own {
		if !told[name] {
			t.Errorf("the page does not tell of %s", name)
		}
	}
	if len(told) != len(own) {
		t.Errorf("the page tells of %d metrics, there are %d", len(told), len(own))
	}
}

// TestAlerts: the server serves each metric in the alert rules.
func TestAlerts(t *testing.T) {
	labels, _ := parsed(t, told(t))
	rules := string(testkit.Value(os.ReadFile("../../../examples/prometheus/alerts.yaml"))(t))
	used := regexp.MustCompile(`expr: .*`).FindAllString(rules, -1)
	if len(used) < 8 {
		t.Fatalf("there are %d rules", len(used))
	}
	for _, expr := range used {
		names := regexp.MustCompile(`naupegos_[a-z_]+`).FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s is about no metric", expr)
		}
		for _, name := range names {
			if !slices.Contains(labels[name], "cluster") {
				t.Errorf("%s: there is no metric %s of clusters", expr, name)
			}
		}
	}
}
