package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/staged"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/siteset"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestHooksOfCharts: hooks of the installation run once, also after an interruption; hooks of a change run with each change after it.
func TestHooksOfCharts(t *testing.T) {
	l := setsLab(t)
	const key = webChart
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
		{"a repair was interrupted", "mended", &observe.SeenSet{Finding: objects.Finding{Known: true, Mending: true}}, false, false},
		{"only a hook has changed", "true", &observe.SeenSet{Finding: objects.Finding{Known: true, Same: true, Hooked: true}}, true, false},
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

// TestOrderOfRemovals: custom resources go before the set with their definitions, and before sets with workloads that may be their operator. Sets that use each
// other are removed one after another, too.
func TestOrderOfRemovals(t *testing.T) {
	for _, c := range []struct {
		what string
		all  []observe.SurplusSet
		want string
	}{
		{"defined by another set", []observe.SurplusSet{{Key: "charts.operator", Defines: []string{"example.org"}}, {Key: "manifests.sails", Uses: []string{"example.org"}}}, "map[charts.operator:[manifests.sails]]"},
		{"an operator without its definitions", []observe.SurplusSet{{Key: "charts.operator", Works: true}, {Key: "manifests.sails", Uses: []string{"example.org"}}}, "map[charts.operator:[manifests.sails]]"},
		{"each uses the other", []observe.SurplusSet{
			{Key: "charts.a", Works: true, Defines: []string{"a.org"}, Uses: []string{"b.org"}}, {Key: "charts.b", Works: true, Defines: []string{"b.org"}, Uses: []string{"a.org"}},
		}, "map[charts.a:[charts.b]]"},
		{"nothing in common", []observe.SurplusSet{{Key: "charts.a", Works: true}, {Key: "manifests.b", Works: true}}, "map[]"},
		{"its own objects", []observe.SurplusSet{{Key: "charts.a", Works: true, Defines: []string{"a.org"}, Uses: []string{"a.org"}}}, "map[]"},
	} {
		if got := fmt.Sprint(removals(c.all)); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	l := setsLab(t)
	o := l.observed(nil, "demo-cp-1")
	sail := objects.Ref{APIVersion: "example.org/v1", Kind: "Sail", Name: "jib", Namespace: "web"}
	o.Sets = map[string]*observe.SeenSet{webChart: {Finding: objects.Finding{Known: true, Pruned: []objects.Ref{sail}}}}
	o.SurplusSets = []observe.SurplusSet{{Key: "charts.operator", Works: true, Defines: []string{"example.org"}}, {Key: "manifests.more", Uses: []string{"example.org"}}}
	if steps := l.mustPlan(o); !strings.Contains(steps, "remove-set/charts.operator  <- remove-set/manifests.more set/"+webChart) && !strings.Contains(steps, "remove-set/charts.operator  <- set/"+webChart+" remove-set/manifests.more") {
		t.Errorf("the operator goes too early:\n%s", steps)
	}
}

// TestManyRemovals: sets that all use and serve each other's kinds are ordered at once.
func TestManyRemovals(t *testing.T) {
	var all []observe.SurplusSet
	for i := range 40 {
		s := observe.SurplusSet{Key: fmt.Sprint("charts.s", i), Works: true, Defines: []string{fmt.Sprintf("s%d.org", i)}}
		for k := range 40 {
			if k != i {
				s.Uses = append(s.Uses, fmt.Sprintf("s%d.org", k))
			}
		}
		all = append(all, s)
	}
	all = append(all, observe.SurplusSet{Key: "charts.last", Works: true})
	out := removals(all)
	if len(out["charts.last"]) != 40 {
		t.Errorf("before the last: %v", out["charts.last"])
	}
}

// TestUnseenSets: sets that can't be rendered or compared are one step that fails; machines are looked after all the same.
func TestUnseenSets(t *testing.T) {
	l := setsLab(t)
	l.state("demo-a-1", provider.Stopped)
	o := l.observed(nil, "demo-cp-1")
	o.SetsErr = fail.New(fail.Invalid, "template: no such kind")
	steps := l.mustPlan(o)
	if !strings.Contains(steps, "wait    "+addons.UnseenSets) || !strings.Contains(steps, provider.MachineStep("demo-a-1")) || strings.Contains(steps, "set/"+webChart) {
		t.Errorf("the plan:\n%s", steps)
	}
	ap := &Applied{Plan: &plan.Plan{Steps: []*plan.Step{l.UnseenSetsStep(o.SetsErr)}}}
	if err := l.nothingElse(ap, "", staged.NoStep); err != nil {
		t.Errorf("certificates can't be renewed: %v", err)
	}
}

// TestPodNetworkAsSet: without a pod network of ours, sets are applied before nodes are Ready, and waited for afterwards.
func TestPodNetworkAsSet(t *testing.T) {
	for _, cni := range []string{layout.CNINone, layout.CNIFlannel} {
		l := setsLab(t)
		l.Doc.Spec.Kubernetes.CNI = cni
		o := l.observed(nil, "demo-cp-1")
		o.Sets = map[string]*observe.SeenSet{}
		steps := l.mustPlan(o)
		if early := strings.Contains(steps, "network:\n  create  set/"+webChart); early != (cni == layout.CNINone) || !regexp.MustCompile("works/"+webChart+"  <- .*\\bset/"+webChart).MatchString(steps) {
			t.Errorf("cni %s:\n%s", cni, steps)
		}
	}
}

const webChart = objects.ChartPrefix + "web"

// setsLab is a running cluster whose document has the chart web.
func setsLab(t *testing.T) *lab {
	t.Helper()
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
	return newLab(t, doc).Running(doc)
}
