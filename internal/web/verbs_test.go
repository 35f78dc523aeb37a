package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestEveryVerbHasAForm: every verb that needs no file of the operator has a form on the cluster's pages, with its command line.
func TestEveryVerbHasAForm(t *testing.T) {
	s := newSite(t)
	c := testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour), Facts: store.Facts{{Kind: "bundle"}: "v1.36.4 0123abcd"}}))(t)
	s.saw(c.ID, &report.Status{Name: "harbour", State: report.Healthy, Healthy: true, API: "ready", Machines: []report.MachineStatus{{Name: "harbour-cp-1", Role: "control-plane", State: "running", Config: "up to date", Node: "Ready", Etcd: "leader"}}})
	a := s.ask("GET", "/ui/clusters/harbour/actions", s.admin, nil)
	if a.code != http.StatusOK {
		t.Fatalf("%d %s", a.code, a.body)
	}
	machine := s.ask("GET", "/ui/clusters/harbour/machines/harbour-cp-1", s.admin, nil).body
	var missing []string
	for _, verb := range operate.Verbs() {
		if _, known := forms()[verb]; !known && verb != operate.Apply && verb != upgrade {
			missing = append(missing, verb)
		}
	}
	if !slices.Equal(missing, []string{"etcd recover", "import", "machine kill", "release", "reset"}) { // docs/how-to/web-pages.md says why
		t.Errorf("the pages lack %q", missing)
	}
	for verb := range forms() {
		if !strings.Contains(a.body, `value="`+verb+`"`) && !strings.Contains(machine, `value="`+verb+`"`) {
			t.Errorf("there is no form of %s", verb)
		}
		if !strings.Contains(a.body, "naupegos "+verb+" harbour") && !strings.Contains(machine, "naupegos "+verb+" harbour") {
			t.Errorf("the form of %s does not show its command", verb)
		}
	}
	for _, want := range []string{"<option>v1.37.2</option>", "<option>general</option>", "<option>harbour-cp-1</option>", "naupegos upgrade harbour", "naupegos kubeconfig harbour", "naupegos support harbour"} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for verb, f := range forms() { // each option of each form can be given
		for _, o := range f.options {
			if body := a.body + machine; !strings.Contains(body, `name="`+o.name+`"`) && !strings.Contains(body, `<option value="`+o.name+`"`) {
				t.Errorf("no form of %s has %s", verb, o.name)
			}
		}
	}
	if strings.Contains(a.body, "<option>v1.36.3</option>") {
		t.Error("an older release is offered")
	}
	for _, path := range []string{"/ui/clusters/harbour/actions", "/ui/new"} {
		if a := s.ask("GET", path, s.reader, nil); a.code != http.StatusForbidden {
			t.Errorf("a reader sees %s: %d", path, a.code)
		}
	}
	for _, path := range []string{"/ui/", "/ui/clusters", "/ui/clusters/harbour", "/ui/clusters/harbour/backups"} {
		body := s.ask("GET", path, s.reader, nil).body
		for _, no := range []string{"/actions", "/ui/new", "/ui/audit", "/kubeconfig"} {
			if strings.Contains(body, no) {
				t.Errorf("a reader sees a link on %s that answers 403: %s", path, no)
			}
		}
	}
}

// TestTitles: the browser's history tells the tabs of a cluster apart.
func TestTitles(t *testing.T) {
	s := newSite(t)
	c := testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	s.saw(c.ID, &report.Status{Name: "harbour", State: report.Healthy, Machines: []report.MachineStatus{{Name: "harbour-cp-1", Role: "control-plane", State: "running"}}})
	for path, want := range map[string]string{"": "Overview · harbour", "/nodes": "Nodes · harbour", "/actions": "Actions · harbour", "/document": "Document · harbour", "/machines/harbour-cp-1": "harbour-cp-1 · harbour"} {
		if a := s.ask("GET", "/ui/clusters/harbour"+path, s.admin, nil); !strings.Contains(a.body, "<title>"+want+" · Naupegos</title>") {
			t.Errorf("%q lacks the title %q", path, want)
		}
	}
}

// TestDestroyNeedsTheName: the name must be typed for the plan and for the job.
func TestDestroyNeedsTheName(t *testing.T) {
	s := newSite(t)
	testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	own := []string{"Sec-Fetch-Site", "same-origin", "Origin", s.url}
	for _, path := range []string{"plan", "apply"} {
		form := url.Values{"verb": {"destroy"}, "confirm": {"harbor"}, "digest": {"sha256:00"}}
		if a := s.ask("POST", "/ui/clusters/harbour/"+path, s.admin, form, own...); a.code != http.StatusBadRequest || !strings.Contains(a.body, "type harbour to destroy it") {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
	a := s.ask("POST", "/ui/clusters/harbour/apply", s.admin, url.Values{"verb": {"destroy"}, "confirm": {"harbour"}, "digest": {"sha256:00"}}, own...)
	j := testkit.Value(s.store.Job(t.Context(), strings.TrimPrefix(a.Get("Location"), "/ui/jobs/")))(t)
	var order work.Order
	testkit.Must(t, json.Unmarshal(j.Request, &order))
	if order.Verb != "destroy" || order.Cluster != "harbour" {
		t.Errorf("the order is %+v", order)
	}
	if all := s.audit(); !strings.Contains(all, "agreed to destroy harbour begun") {
		t.Errorf("the audit lacks that it began:\n%s", all)
	}
}

// TestTypoKeepsTheText: a wrong document comes back with its text and the marked line; an expired session returns the text, too.
func TestTypoKeepsTheText(t *testing.T) {
	s := newSite(t)
	testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	own := []string{"Sec-Fetch-Site", "same-origin", "Origin", s.url}
	typo := strings.Replace(harbour, "replicas: 1", "replicsa: 1 # mine "+evil, 1)
	for _, path := range []string{"/ui/clusters/harbour/plan", "/ui/new"} {
		a := s.ask("POST", path, s.admin, url.Values{"document": {strings.ReplaceAll(typo, "\n", "\r\n")}}, own...)
		for _, want := range []string{"<strong>line 10</strong>", "replicsa: 1 # mine &lt;script&gt;", `<span class="bad">  10 ›`, `action="` + path + `"`, "did you mean"} {
			if a.code != http.StatusBadRequest || !strings.Contains(a.body, want) || strings.Contains(a.body, evil) {
				t.Errorf("%s: %d lacks %s: %s", path, a.code, want, a.body)
			}
		}
	}
	if a := s.ask("POST", "/ui/new", s.admin, url.Values{"document": {harbour}}, own...); a.code != http.StatusConflict || !strings.Contains(a.body, "there is a cluster harbour already") || !strings.Contains(a.body, "name: harbour") {
		t.Errorf("a name that is taken: %d %s", a.code, a.body)
	}
	a := s.ask("POST", "/ui/clusters/harbour/plan", "", url.Values{"document": {typo}, "verb": {"apply"}}, own...)
	if a.code != http.StatusUnauthorized || !strings.Contains(a.body, "replicsa: 1 # mine &lt;script&gt;") || !strings.Contains(a.body, `name="verb" value="apply"`) {
		t.Errorf("a session that has ended loses the text: %d %s", a.code, a.body)
	}
}

// TestNoJSON: unknown paths are answered with a page.
func TestNoJSON(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/ui/nothing", "/ui/clusters/nobody", "/ui/clusters/nobody/nodes", "/ui/runs/x", "/ui/jobs/x"} {
		if a := s.ask("GET", path, s.admin, nil); a.code != http.StatusNotFound || !strings.HasPrefix(a.Get("Content-Type"), "text/html") || !strings.Contains(a.body, "<h1>Not found</h1>") {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
}

// TestOverview: the overview guides a new user, and lists the needs.
func TestOverview(t *testing.T) {
	s := newSite(t)
	a := s.ask("GET", "/ui/", s.admin, nil)
	for _, want := range []string{"naupegos doctor", "naupegos plan -f cluster.yaml", `href="/ui/new"`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("an empty store lacks %s: %s", want, a.body)
		}
	}
	for _, no := range []string{`href="/ui/machines"`, `href="/ui/approvals"`, `href="/ui/waves"`} {
		if strings.Contains(a.body, no) {
			t.Errorf("without physical machines there is %s", no)
		}
	}
	c := testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	s.saw(c.ID, &report.Status{Name: "harbour", State: report.Unhealthy, Cause: "harbour-cp-1 is stopped", API: "ready", Machines: []report.MachineStatus{{Name: "harbour-cp-1", Role: "control-plane", State: "stopped"}}})
	testkit.Must(t, s.ran(c.ID))
	s.discover(1)
	a = s.ask("GET", "/ui/", s.admin, nil)
	for _, want := range []string{"harbour-cp-1 is stopped", "the last run, apply, ended failed", "1 machine waits for approval", "there is no backup", `href="/ui/machines"`, "<strong>1</strong> <span>unhealthy</span>", "apply harbour failed after"} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the overview lacks %s: %s", want, a.body)
		}
	}
	if a := s.ask("GET", "/ui/", s.local, nil); a.code != http.StatusOK || strings.Contains(a.body, "wait for approval") {
		t.Errorf("an operator of one cluster sees %s", a.body)
	}
}
