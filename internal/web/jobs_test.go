package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

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
		t.Errorf("who may change one cluster agrees to a plan of another: %d", a.code)
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
	if page.code != http.StatusOK || !strings.Contains(page.body, "queued") || !strings.Contains(page.body, "liz") || !strings.Contains(page.body, "data-live") {
		t.Errorf("the job's page: %d %s", page.code, page.body)
	}
	if a := s.ask("POST", at+"/stop", s.reader, url.Values{}, own...); a.code != http.StatusForbidden {
		t.Errorf("a reader stops a job: %d", a.code)
	}
	if a := s.ask("POST", at+"/stop", s.local, url.Values{}, own...); a.code != http.StatusSeeOther {
		t.Errorf("stop: %d %s", a.code, a.body)
	}
	j := testkit.Value(s.store.Job(t.Context(), strings.TrimPrefix(at, "/ui/jobs/")))(t)
	var order work.Order
	testkit.Must(t, json.Unmarshal(j.Request, &order))
	if j.Stop != store.StopSoft || order.Digest != "sha256:00" || order.Yes || len(order.Consents) != 1 || order.Document != harbour {
		t.Errorf("the job is %+v, the order %+v", j, order)
	}
	if all := s.audit(); !strings.Contains(all, "agreed to a plan "+j.ID+" harbour done") {
		t.Errorf("the audit lacks the agreement:\n%s", all)
	}
}

// harbour is a document.
const harbour = "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata:\n  name: harbour\nspec:\n  provider:\n    local: {}\n  workers:\n    - name: general\n      replicas: 1\n"

func TestDiff(t *testing.T) {
	var got []string
	for _, l := range diff("a\nb\nc\n", "a\nx\nc\nd\n") {
		got = append(got, l.Sign+l.Text)
	}
	if want := " a -b +x  c +d"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, " "), want)
	}
	if diff("a\n", "a\n") != nil {
		t.Error("what is the same differs")
	}
}
