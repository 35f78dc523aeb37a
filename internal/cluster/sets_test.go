package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/siteset"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestHooksOfCharts: hooks of the installation run once, also after an interruption; hooks of a change run with each change after it.
func TestHooksOfCharts(t *testing.T) {
	dir := t.TempDir()
	job := func(name, event string) string {
		return "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: " + name + ", annotations: {helm.sh/hook: " + event + "}}\n"
	}
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "web", "templates"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "web", "Chart.yaml"), []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n"), 0o644))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "web", "templates", "a.yaml"), []byte(job("check", "pre-upgrade")+job("seed", "post-install")+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"), 0o644))
	doc, _, err := siteset.ReadDocument("cluster.yaml", dir, []byte("apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\n"+
		"spec:\n  provider: {local: {}}\n  workers: [{name: a, replicas: 1}]\n  controlPlane: {replicas: 1}\n  charts: [{name: web, chart: web}]\n"))
	testkit.Must(t, err)
	l := newLab(t, doc).Running(doc)
	const key = objects.ChartPrefix + "web"
	for _, c := range []struct {
		what, state   string
		seen          *observe.SeenSet
		before, after bool
	}{
		{"never applied", "", nil, false, true},
		{"interrupted in the installation", "installing", &observe.SeenSet{Finding: objects.Finding{Known: true, Same: true}}, false, true},
		{"ready, hooks of the installation left", "installed", &observe.SeenSet{Finding: objects.Finding{Known: true, Same: true}}, false, true},
		{"installed", "true", &observe.SeenSet{Finding: objects.Finding{Known: true, Same: true}}, false, false},
		{"changed", "true", &observe.SeenSet{Finding: objects.Finding{Known: true}}, true, false},
		{"changed during the installation", "installing", &observe.SeenSet{Finding: objects.Finding{Known: true}}, false, true},
		{"adopted from Helm", "", &observe.SeenSet{Adopts: "sh.helm.release.v1.web.v1"}, true, false},
		{"imported with its cluster", "", &observe.SeenSet{Finding: objects.Finding{Known: true, Same: true}}, false, false},
	} {
		testkit.Must(t, l.Facts.SetOf(t.Context(), memory.AddonWorks, key, c.state))
		o := l.observed(nil, "demo-cp-1")
		o.Sets = map[string]*observe.SeenSet{key: c.seen}
		steps := l.mustPlan(o)
		if before, after := strings.Contains(steps, "hooks-before/"), strings.Contains(steps, "hooks-after/"); before != c.before || after != c.after {
			t.Errorf("%s: hooks of a change %t, of the installation %t:\n%s", c.what, before, after, steps)
		}
	}
}
