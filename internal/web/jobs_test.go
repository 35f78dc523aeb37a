package web

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestJobs(t *testing.T) {
	s := newSite(t)
	testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	own := []string{"Sec-Fetch-Site", "same-origin", "Origin", s.url}
	form := url.Values{"document": {harbour}, "digest": {"sha256:00"}, "consent": {"lose-quorum"}}
	if a := s.ask("POST", "/ui/clusters/harbour/apply", s.reader, form, own...); a.code != http.StatusForbidden {
		t.Errorf("a reader agrees to a plan: %d", a.code)
	}
	if a := s.ask("POST", "/ui/clusters/other/apply", s.local, form, own...); a.code != http.StatusNotFound {
		t.Errorf("an operator of one cluster agrees to a plan of another: %d", a.code)
	}
	if a := s.ask("POST", "/ui/clusters/harbour/apply", s.admin, url.Values{"document": {strings.ReplaceAll(harbour, "harbour", "other")}}, own...); a.code != http.StatusBadRequest {
		t.Errorf("the document of another cluster: %d", a.code)
	}
	if a := s.ask("POST", "/ui/clusters/harbour/plan", s.local, url.Values{"document": {"kind: Nonsense " + evil}}, own...); a.code != http.StatusBadRequest || strings.Contains(a.body, evil) {
		t.Errorf("what is no document: %d %s", a.code, a.body)
	}
	a := s.ask("POST", "/ui/clusters/harbour/apply", s.local, form, own...)
	at := a.Get("Location")
	if a.code != http.StatusSeeOther || !strings.HasPrefix(at, "/ui/jobs/") {
		t.Fatalf("agreed: %d %s %s", a.code, at, a.body)
	}
	page := s.ask("GET", at, s.reader, nil)
	if page.code != http.StatusOK || !strings.Contains(page.body, "queued") || !strings.Contains(page.body, "liz") || !strings.Contains(page.body, "data-live") || !strings.Contains(page.body, "naupegos apply -f FILE") {
		t.Errorf("the job's page: %d %s", page.code, page.body)
	}
	if a := s.ask("POST", at+"/stop", s.reader, url.Values{}, own...); a.code != http.StatusForbidden {
		t.Errorf("a reader stops a job: %d", a.code)
	}
	if a := s.ask("POST", at+"/stop", s.local, url.Values{}, own...); a.code != http.StatusSeeOther {
		t.Errorf("stop: %d %s", a.code, a.body)
	}
	if a := s.ask("GET", at, s.reader, nil); !strings.Contains(a.body, "It stops when the running steps have ended") {
		t.Errorf("the page does not say that the job stops: %s", a.body)
	}
	j := testkit.Value(s.store.Job(t.Context(), strings.TrimPrefix(at, "/ui/jobs/")))(t)
	var order work.Order
	testkit.Must(t, json.Unmarshal(j.Request, &order))
	if j.Stop != store.StopSoft || order.Digest != "sha256:00" || order.Yes || len(order.Consents) != 1 || order.Document != harbour {
		t.Errorf("the job is %+v, the order %+v", j, order)
	}
	if all := s.audit(); !strings.Contains(all, "agreed to "+j.Title+", job "+j.ID+" harbour done") {
		t.Errorf("the audit lacks the agreement:\n%s", all)
	}
}

// harbour is a document.
const harbour = "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: harbour\nspec:\n  provider:\n    local: {}\n  workers:\n    - name: general\n      replicas: 1\n"

// TestJobIsDrawn: a job's page draws the job's own run while it runs, and changes as steps end.
func TestJobIsDrawn(t *testing.T) {
	s := newSite(t)
	c := testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	own := []string{"Sec-Fetch-Site", "same-origin", "Origin", s.url}
	at := s.ask("POST", "/ui/clusters/harbour/apply", s.admin, url.Values{"document": {harbour}, "digest": {"sha256:00"}}, own...).Get("Location")
	id := strings.TrimPrefix(at, "/ui/jobs/")
	testkit.Must(t, s.ran(c.ID)) // another run of the cluster
	if a := s.ask("GET", at, s.reader, nil); a.code != http.StatusOK || strings.Contains(a.body, "<svg") {
		t.Errorf("the page of a job that has not begun draws another's run: %d %s", a.code, a.body)
	}
	ask := testkit.Value(url.Parse(at))(t)
	who := &access.Operator{Role: server.Admin}
	data := func() string {
		data, going := s.pages.look(httptest.NewRequestWithContext(t.Context(), "GET", at, nil), ask, who)
		if !going {
			t.Error("the page is not renewed while the job runs")
		}
		return data
	}
	before := data()
	p := &plan.Plan{Verb: "apply", Cluster: "harbour", Steps: []*plan.Step{{
		ID: "machine/cp-1", Action: plan.Create, Title: "make machine cp-1 " + evil, Subject: "cp-1", Reason: "it is wanted",
		Run: func(context.Context, plan.Progress) error {
			a := s.ask("GET", at, s.reader, nil)
			if !strings.Contains(a.body, "<svg") || !strings.Contains(a.body, "make machine cp-1 &lt;script&gt;") || strings.Contains(a.body, evil) {
				t.Errorf("the page of the job that runs does not draw its step: %s", a.body)
			}
			if now := data(); now == before {
				t.Error("the page does not renew itself when the run begins")
			}
			before = data()
			return nil
		},
	}}}
	testkit.Value(plan.Execute(t.Context(), p, plan.Options{Journal: s.store.Journal(c.ID), Meta: map[string]string{"job": id}}))(t)
	if now := data(); now == before {
		t.Error("the page does not renew itself when a step ends")
	}
}

// TestLastRehearsal: the page of backups names the last proven backup, regardless of later runs, and does not count failed rehearsals.
func TestLastRehearsal(t *testing.T) {
	s := newSite(t)
	c := testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	run := func(step string, err error) {
		p := &plan.Plan{Verb: "backup rehearse", Cluster: "harbour", Steps: []*plan.Step{{ID: step, Action: plan.Change, Subject: "cluster", Title: step, Reason: "it is asked for",
			Run: func(context.Context, plan.Progress) error { return err }}}}
		if _, got := plan.Execute(t.Context(), p, plan.Options{Journal: s.store.Journal(c.ID)}); (got == nil) != (err == nil) {
			t.Fatal(got)
		}
	}
	says := func(want string) {
		t.Helper()
		if a := s.ask("GET", "/ui/backups", s.reader, nil); a.code != http.StatusOK || !strings.Contains(a.body, want) {
			t.Errorf("%d, wanted %q: %s", a.code, want, a.body)
		}
	}
	const none = "No rehearsal in this store has proven a backup of this cluster."
	says(none)
	run(operate.RehearseStep+"20261101T000000Z-0001", fail.New(fail.Refused, "it is damaged"))
	says(none)
	run(operate.RehearseStep+"20261102T000000Z-0002", nil)
	for range 12 {
		run("backup", nil)
	}
	run(operate.RehearseStep+"20261103T000000Z-0003", fail.New(fail.Refused, "it is damaged"))
	says("has proven backup <code>20261102T000000Z-0002</code>")
}

// TestTold: a job's lines are readable, the newest first; repeated lines of a running step appear once.
func TestTold(t *testing.T) {
	var lines []store.JobLine
	for _, l := range []string{
		`{"event":"plan","plan":{}}`, `{"event":"say","text":"there may be more to do"}`, `{"event":"step","time":"2026-11-27T02:00:01Z","step":"machine/w-1","state":"running","status":"write root"}`,
		`{"event":"step","time":"2026-11-27T02:00:02Z","step":"api","state":"running"}`, `{"event":"step","time":"2026-11-27T02:00:03Z","step":"machine/w-1","state":"running","status":"write root"}`,
		`{"event":"step","time":"2026-11-27T02:00:04Z","step":"machine/w-1","state":"failed","attempt":3,"seconds":3.04,"error":"no room"}`, `no JSON`,
	} {
		lines = append(lines, store.JobLine{Line: l})
	}
	want := []string{"no JSON", "02:00:04  machine/w-1  failed  no room  attempt 3  after 3.0s", "02:00:02  api  running", "02:00:01  machine/w-1  running  write root", "say  there may be more to do"}
	if diff := cmp.Diff(want, tell(lines)); diff != "" {
		t.Error(diff)
	}
}

// TestPlanPage: the summary is beside the button, equal steps are one entry, lines of files are behind a toggle, and no secret is shown.
func TestPlanPage(t *testing.T) {
	hunks := []delta.Hunk{{From: 1, To: 1, Lines: []string{" a", "-" + evil, "+b"}}}
	p := &plan.Plan{Estimate: 10 * time.Second}
	for _, m := range []string{"w-1", "w-2"} {
		p.Steps = append(p.Steps, &plan.Step{ID: "configure/" + m, Action: plan.Change, Subject: m, Title: "configure worker " + m, Deltas: []delta.Delta{
			{Kind: "file", Name: "/etc/hosts", Action: "update", Why: "content differs", Hunks: hunks}, {Kind: "file", Name: "/k", Action: "update", Secret: true}}})
	}
	d := planData{Cluster: "harbour", Changes: true, Summary: show.Summary(p), Notes: show.Notes(p), Groups: show.Groups(p), Warnings: []string{"odd " + evil}, Diff: hunks}
	var b bytes.Buffer
	pages := testkit.Value(parse())(t)
	testkit.Must(t, pages["plan"].ExecuteTemplate(&b, "content", &view{name: "plan", Data: d}))
	page := b.String()
	summary, button, steps := strings.Index(page, "2 to change, 0 to destroy; about 10 s by history"), strings.Index(page, "Carry out the plan"), strings.Index(page, "2 machines: w-1, w-2")
	if summary < 0 || button < summary || steps < button {
		t.Errorf("summary at %d, button at %d, steps at %d", summary, button, steps)
	}
	if strings.Count(page, "configure worker") != 1 || !strings.Contains(page, "(secret, changed)") || !strings.Contains(page, "<details") || strings.Contains(page, evil) || !strings.Contains(page, "@@ -1,2 &#43;1,2 @@") {
		t.Error(page)
	}
}
