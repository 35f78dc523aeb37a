package figures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// dashboards are the files for other programs that draw the same queries.
const dashboards = "../../../packaging/dashboards/"

type object = map[string]any

// TestDashboards: the dashboards for Grafana and Perses have the queries of the pages. -update writes them.
func TestDashboards(t *testing.T) {
	for name, content := range map[string]object{"grafana.json": grafana(), "perses.json": perses()} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		testkit.Must(t, enc.Encode(content))
		path := filepath.Join(dashboards, name)
		if testkit.Updating() {
			testkit.Must(t, os.WriteFile(path, b.Bytes(), 0o644))
			continue
		}
		if !bytes.Equal(testkit.Value(os.ReadFile(path))(t), b.Bytes()) {
			t.Errorf("%s does not have the queries of the pages: run this test with -update", path)
		}
		for _, q := range all {
			if strings.Count(b.String(), fmt.Sprintf("%q", q.Title)) != 1 {
				t.Errorf("%s has no panel %q, or several", path, q.Title)
			}
		}
		if strings.Contains(b.String(), "$window") || strings.Contains(b.String(), "$node") {
			t.Errorf("%s has queries with places that are not filled", path)
		}
	}
}

// expr returns the query of a chart with the variables of another program.
func expr(q Query, machine, window string) string {
	return strings.NewReplacer("$node", machine, "$window", window).Replace(q.Expr)
}

// grafana returns a dashboard of Grafana's, version 39 of its schema.
func grafana() object {
	units := map[Unit]string{Ratio: "percentunit", Bytes: "bytes", ByteRate: "Bps", Requests: "reqps", Seconds: "s", Instances: "short"}
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	x, y, group := 0, 0, ""
	for i, q := range all {
		if q.Group != group {
			if group != "" && x > 0 {
				y += 8
			}
			x, group = 0, q.Group
			panels = append(panels, object{"id": 100 + i, "type": "row", "title": group, "collapsed": false, "panels": []any{}, "gridPos": object{"h": 1, "w": 24, "x": 0, "y": y}})
			y++
		}
		panels = append(panels, object{
			"id": i + 1, "type": "timeseries", "title": q.Title, "datasource": source, "gridPos": object{"h": 8, "w": 12, "x": x, "y": y},
			"fieldConfig": object{"defaults": object{"unit": units[q.Unit], "min": 0}, "overrides": []any{}},
			"options":     object{"legend": object{"displayMode": "table", "placement": "bottom", "calcs": []string{"lastNotNull", "min", "max"}}, "tooltip": object{"mode": "multi"}},
			"targets":     []object{{"refId": "A", "datasource": source, "expr": expr(q, `,node=~"$machine"`, "$__rate_interval"), "legendFormat": "{{" + q.Label + "}}"}},
		})
		if x += 12; x == 24 {
			x, y = 0, y+8
		}
	}
	return object{
		"title": "Kubernetes cluster (Naupegos)", "uid": "naupegos-cluster", "schemaVersion": 39, "version": 1, "editable": true, "tags": []string{"naupegos"},
		"time": object{"from": "now-1h", "to": "now"}, "timezone": "utc", "refresh": "1m", "panels": panels,
		"templating": object{"list": []object{
			{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
			{"name": "machine", "type": "query", "label": "Machine", "datasource": source, "query": object{"qryType": 1, "query": "label_values(node_uname_info, node)", "refId": "machine"},
				"refresh": 2, "sort": 7, "multi": true, "includeAll": true, "allValue": ".*", "current": object{"text": []string{"All"}, "value": []string{"$__all"}}},
		}},
	}
}

// perses returns a dashboard of Perses'.
func perses() object {
	units := map[Unit]string{Ratio: "percent-decimal", Bytes: "bytes", ByteRate: "bytes/sec", Requests: "requests/sec", Seconds: "seconds", Instances: "decimal"}
	panels := object{}
	var layouts []object
	for _, q := range all {
		panels[q.ID] = object{"kind": "Panel", "spec": object{
			"display": object{"name": q.Title},
			"plugin":  object{"kind": "TimeSeriesChart", "spec": object{"legend": object{"position": "bottom", "mode": "table", "values": []string{"last-number", "min", "max"}}, "yAxis": object{"min": 0, "format": object{"unit": units[q.Unit]}}}},
			"queries": []object{{"kind": "TimeSeriesQuery", "spec": object{"plugin": object{"kind": "PrometheusTimeSeriesQuery", "spec": object{"query": expr(q, `,node=~"$machine"`, "5m"), "seriesNameFormat": "{{" + q.Label + "}}"}}}}},
		}}
		if len(layouts) == 0 || layouts[len(layouts)-1]["spec"].(object)["display"].(object)["title"] != q.Group {
			layouts = append(layouts, object{"kind": "Grid", "spec": object{"display": object{"title": q.Group}, "items": []object{}}})
		}
		spec := layouts[len(layouts)-1]["spec"].(object)
		items := spec["items"].([]object)
		spec["items"] = append(items, object{"x": 12 * (len(items) % 2), "y": 8 * (len(items) / 2), "width": 12, "height": 8, "content": object{"$ref": "#/spec/panels/" + q.ID}})
	}
	return object{"kind": "Dashboard", "metadata": object{"name": "naupegos-cluster", "project": "default"}, "spec": object{
		"display": object{"name": "Kubernetes cluster (Naupegos)"}, "duration": "1h", "refreshInterval": "1m", "panels": panels, "layouts": layouts,
		"variables": []object{{"kind": "ListVariable", "spec": object{"name": "machine", "display": object{"name": "Machine"}, "allowAllValue": true, "allowMultiple": true, "customAllValue": ".*", "defaultValue": "$__all",
			"plugin": object{"kind": "PrometheusLabelValuesVariable", "spec": object{"labelName": "node", "matchers": []string{"node_uname_info"}}}}}},
	}}
}
