package web

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestEndedSessionReturnsTheForm: every form that arrives without a session comes back with its fields, and nothing is done.
func TestEndedSessionReturnsTheForm(t *testing.T) {
	s := newSite(t)
	testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	patterns := map[string]bool{}
	for pattern := range s.pages.actions() {
		patterns[pattern] = true
	}
	for pattern := range downloads() {
		patterns[pattern] = true
	}
	for pattern := range s.pages.plans() {
		patterns[pattern] = true
	}
	for pattern := range patterns {
		path := strings.NewReplacer("{name}", "harbour", "{id}", "20261129-1", "{uuid}", "a5e6b0c2-0000-4000-8000-000000000001").Replace(pattern)
		a := s.ask("POST", path, "", url.Values{"digest": {"sha256:00"}, "document": {harbour}}, "Sec-Fetch-Site", "same-origin", "Origin", s.url)
		for _, want := range []string{"Your session has ended", "Nothing was done", `action="` + path + `"`, `name="digest" value="sha256:00"`, "name: harbour", "Send it again"} {
			if a.code != http.StatusUnauthorized || !strings.Contains(a.body, want) {
				t.Errorf("%s without a session: %d lacks %q: %s", path, a.code, want, a.body)
			}
		}
	}
	if jobs := testkit.Value(s.store.Jobs(t.Context(), "harbour", 0))(t); len(jobs) != 0 {
		t.Errorf("without a session there is %+v", jobs)
	}
}

// TestSentTwice: the same agreement leads to the same job; another one shows the job in the way, and the way back to plan and document.
func TestSentTwice(t *testing.T) {
	s := newSite(t)
	testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	agree := func(token, digest string) answer {
		return s.ask("POST", "/ui/clusters/harbour/apply", token, url.Values{"document": {strings.ReplaceAll(harbour, "\n", "\r\n")}, "digest": {digest}, "consent": {"lose-quorum"}},
			"Sec-Fetch-Site", "same-origin", "Origin", s.url, "Referer", s.url+"/ui/clusters/harbour/plan")
	}
	first := agree(s.admin, "sha256:00").Get("Location")
	if a := agree(s.admin, "sha256:00"); a.code != http.StatusSeeOther || a.Get("Location") != first || !strings.HasPrefix(first, "/ui/jobs/") {
		t.Errorf("a double click leads to %d %q, and the first click to %q", a.code, a.Get("Location"), first)
	}
	for name, a := range map[string]answer{"another plan": agree(s.admin, "sha256:01"), "another user's plan": agree(s.local, "sha256:00"), "no digest": agree(s.admin, "")} {
		for _, want := range []string{"has a job of this cluster already", `href="` + first + `">Follow apply`, `action="/ui/clusters/harbour/plan"`, "Plan again", `action="/ui/clusters/harbour/edit"`, "Edit again", "name: harbour",
			`<a href="/ui/clusters/harbour">Back`} {
			if a.code != http.StatusConflict || !strings.Contains(a.body, want) {
				t.Errorf("%s: %d lacks %q: %s", name, a.code, want, a.body)
			}
		}
		if strings.Contains(a.body, "lose-quorum") || strings.Contains(a.body, "sha256:") {
			t.Errorf("%s: the consent is kept for another plan: %s", name, a.body)
		}
	}
}

// TestBackToThePlan: the address of a plan leads to the document, a plan leads back to the typed text, and errors link to existing pages only.
func TestBackToThePlan(t *testing.T) {
	s := newSite(t)
	testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	if a := s.ask("GET", "/ui/clusters/harbour/plan", s.admin, nil); a.code != http.StatusSeeOther || a.Get("Location") != "/ui/clusters/harbour/document" {
		t.Errorf("the address of a plan: %d %s", a.code, a.Get("Location"))
	}
	own := []string{"Sec-Fetch-Site", "same-origin", "Origin", s.url}
	text := strings.Replace(harbour, "replicas: 1", "replicas: 2 # mine "+evil, 1)
	for name, action := range map[string]string{"harbour": "/ui/clusters/harbour/plan", "new": "/ui/new"} {
		a := s.ask("POST", "/ui/clusters/"+name+"/edit", s.admin, url.Values{"document": {text}}, own...)
		if a.code != http.StatusOK || !strings.Contains(a.body, `action="`+action+`"`) || !strings.Contains(a.body, "replicas: 2 # mine &lt;script&gt;") || strings.Contains(a.body, evil) {
			t.Errorf("to edit %s again: %d %s", name, a.code, a.body)
		}
	}
	if a := s.ask("POST", "/ui/clusters/harbour/edit", s.reader, url.Values{"document": {text}}, own...); a.code != http.StatusForbidden {
		t.Errorf("a reader edits: %d", a.code)
	}
	pages := testkit.Value(parse())(t)
	for document, want := range map[string]string{text: `action="/ui/clusters/harbour/edit"`, "": `href="/ui/clusters/harbour/actions"`} {
		for _, unready := range []string{"", "there is no bundle"} {
			var b bytes.Buffer
			testkit.Must(t, pages["plan"].ExecuteTemplate(&b, "content", &view{Data: planData{Cluster: "harbour", Unready: unready, Edit: editing{"harbour", document}}}))
			if page := b.String(); !strings.Contains(page, want) || strings.Contains(page, "data-once") != (unready == "") {
				t.Errorf("the plan lacks %s: %s", want, page)
			}
		}
	}
	for from, want := range map[string]string{
		"/ui/clusters/harbour/nodes?look=yes": "/ui/clusters/harbour/nodes?look=yes", "/ui/clusters/harbour/plan": "/ui/clusters/harbour", "/ui/jobs/1/stop": "/ui/jobs/1",
		"/ui/new": "/ui/new", "/ui/nowhere": "", "/elsewhere": "",
	} {
		a := s.ask("GET", "/ui/runs/none", s.admin, nil, "Referer", s.url+from)
		if got := strings.Contains(a.body, "Back to where you were"); got != (want != "") || want != "" && !strings.Contains(a.body, `<a href="`+want+`">Back`) {
			t.Errorf("an error after %s does not lead to %q: %s", from, want, a.body)
		}
	}
}

// TestNewKeepsTheAnswers: a refused answer comes back with all others, and without a place in a document that the user has not seen.
func TestNewKeepsTheAnswers(t *testing.T) {
	s := newSite(t)
	a := s.ask("GET", "/ui/new?name=DEMO_X&provider=openstack&kubernetes=v1.36.4&control-plane=5&workers=7", s.admin, nil)
	for _, want := range []string{"metadata.name", `name="name" value="DEMO_X"`, "<option selected>openstack<", "<option selected>v1.36.4<", "<option selected>5<", `value="7"`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the form lacks %s: %s", want, a.body)
		}
	}
	if strings.Contains(a.body, "line 7") || strings.Contains(a.body, "column") {
		t.Errorf("the error names a place: %s", a.body)
	}
	a = s.ask("GET", "/ui/new", s.admin, nil)
	for _, want := range []string{`name="name" value="demo"`, "<option selected>3<", `value="2"`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("an empty form lacks %s: %s", want, a.body)
		}
	}
}
