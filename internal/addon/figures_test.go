package addon

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/kube/figures"
	"github.com/naupegos/naupegos/internal/kube/manifest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// metricName finds the names of metrics in PromQL, which of all words alone have a prefix of these programs.
var metricName = regexp.MustCompile(`\b(?:node|apiserver|etcd|kube)_[a-zA-Z0-9_]+\b`)

// readBy says which jobs of the addon read the metrics with a prefix. Of the job services, it is the addon node-exporter.
var readBy = map[string]string{"node_": "services", "apiserver_": "apiserver", "etcd_": "apiserver", "kube_": "kube-state-metrics"}

// TestFiguresAreMeasured: Prometheus, as the addon configures it, keeps every metric that the pages and the dashboards draw, with the labels that the queries use; and
// where a rule of the addon uses a metric, too, it names the same job.
func TestFiguresAreMeasured(t *testing.T) {
	kept := keptMetrics(t)
	exprs := map[string]string{}
	for _, q := range figures.Queries() {
		exprs["the page's chart "+q.ID] = q.Expr
	}
	for _, name := range []string{"grafana.json", "perses.json"} {
		for _, expr := range dashboardExprs(testkit.Value(os.ReadFile("../../packaging/dashboards/" + name))(t)) {
			exprs[name+": "+expr] = expr
		}
	}
	if want := 3 * len(figures.Queries()); len(exprs) != want {
		t.Errorf("%d queries, want %d", len(exprs), want)
	}
	for where, expr := range exprs {
		names := metricName.FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", where)
		}
		for _, name := range names {
			if !kept(name) {
				t.Errorf("%s: the addon's Prometheus does not keep %s", where, name)
			}
		}
		if open, closed := strings.Count(expr, "(")+strings.Count(expr, "{")+strings.Count(expr, "["), strings.Count(expr, ")")+strings.Count(expr, "}")+strings.Count(expr, "]"); open != closed {
			t.Errorf("%s: %d brackets open, and %d close", where, open, closed)
		}
	}
	if kept("apiserver_response_sizes_bucket") || kept("nothing_total") {
		t.Error("this test finds that everything is kept")
	}
}

// keptMetrics returns a function that reports whether the addon keeps a metric.
func keptMetrics(t *testing.T) func(name string) bool {
	t.Helper()
	doc := siteDocument(t, "[{name: prometheus}]")
	var conf struct {
		Jobs []struct {
			Name    string `json:"job_name"`
			Relabel []struct {
				Action string   `json:"action"`
				Regex  string   `json:"regex"`
				From   []string `json:"source_labels"`
			} `json:"metric_relabel_configs"`
		} `json:"scrape_configs"`
	}
	for _, o := range testkit.Value(manifest.Parse(testkit.Value(RenderSite(input(doc, siteBundle()), doc.Spec.Addons[0]))(t)))(t) {
		if o.GetKind() == "ConfigMap" && o.GetName() == "prometheus" {
			testkit.Must(t, yaml.Unmarshal([]byte(o.Object["data"].(map[string]any)["prometheus.yml"].(string)), &conf))
		}
	}
	return func(name string) bool {
		for prefix, job := range readBy {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			for _, j := range conf.Jobs {
				if j.Name != job {
					continue
				}
				for _, r := range j.Relabel {
					if hit := regexp.MustCompile("^(?:" + r.Regex + ")$").MatchString(name); slices.Contains(r.From, "__name__") && hit == (r.Action == "drop") {
						return false
					}
				}
				return true
			}
		}
		return false
	}
}

// dashboardExprs returns the queries of a dashboard: of each object the key expr of Grafana or query of Perses, except those of variables.
func dashboardExprs(raw []byte) (all []string) {
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				if text, is := inner.(string); is && (key == "expr" || key == "query") && strings.Contains(text, "_") && !strings.HasPrefix(text, "label_values") {
					all = append(all, text)
				}
				walk(inner)
			}
		case []any:
			for _, inner := range v {
				walk(inner)
			}
		}
	}
	var content any
	if json.Unmarshal(raw, &content) == nil {
		walk(content)
	}
	return all
}
