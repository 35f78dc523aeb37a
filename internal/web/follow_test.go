package web

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/gitread"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/server/follow"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// review puts a state with a review into the store, as a server leaves it.
func (s *site) review(cluster string, r follow.Review) {
	s.t.Helper()
	ctx, secrets := s.t.Context(), s.store.ServerSecrets()
	f := follow.Follow{Cluster: cluster, Source: gitread.Source{URL: "https://git.example.org/infra.git", Branch: "main", Path: "harbour.yaml"}, Apply: follow.Approve, Every: "1m0s"}
	testkit.Must(s.t, follow.NewFollows(secrets).Add(ctx, f, true))
	settings := sha256.Sum256(testkit.Value(secrets.Get(ctx, "follow/"+cluster))(s.t))
	state := follow.Status{State: follow.Waits, Seen: r.Commit, Signer: r.Signer, Review: &r, Settings: fmt.Sprintf("sha256:%x", settings)}
	testkit.Must(s.t, secrets.Put(ctx, "follow-state/"+cluster, testkit.Value(json.Marshal(state))(s.t)))
}

// TestReviewsOnPages: a review is shown with its change, to operators who see the cluster; operators who may change it approve it, as long as it waits.
func TestReviewsOnPages(t *testing.T) {
	s := newSite(t)
	testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "local", Document: []byte(harbour)}))(t)
	changed := strings.Replace(harbour, "replicas: 1", "replicas: 2", 1)
	commit := strings.Repeat("1a", 20)
	r := follow.Review{ID: "1a1a1a1a1a1a-first", Commit: commit, Signer: evil, Committer: evil, Subject: evil, Summary: "Plan: 1 to create.", Person: "each change waits for approval", Digest: "sha256:00",
		Asked: operate.Asked{Verb: operate.Apply, Document: changed}}
	s.review("harbour", r)
	s.review("quay", r) // the store does not have it yet
	for _, path := range []string{"/ui/clusters/harbour", "/ui/reviews/harbour", "/ui/reviews/quay"} {
		a := s.ask("GET", path, s.reader, nil)
		for _, want := range []string{"review waits", "replicas: 2", "1a1a1a1a1a1a", "each change waits for approval", "naupegos"} {
			if a.code != http.StatusOK || !strings.Contains(a.body, want) {
				t.Errorf("%s lacks %q: %d %s", path, want, a.code, a.body)
			}
		}
		if strings.Contains(a.body, evil) || strings.Contains(a.body, "Plan it, and approve") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	if a := s.ask("GET", "/ui/", s.local, nil); !strings.Contains(a.body, "the change of commit 1a1a1a1a1a1a waits for approval") || strings.Contains(a.body, "quay") {
		t.Errorf("the overview: %s", a.body)
	}
	if a := s.ask("GET", "/ui/reviews/harbour", s.local, nil); !strings.Contains(a.body, "Plan it, and approve") {
		t.Errorf("no button: %s", a.body)
	}
	if a := s.ask("GET", "/ui/reviews/quay", s.local, nil); a.code == http.StatusOK {
		t.Errorf("another cluster's review: %d", a.code)
	}
	if a := s.ask("GET", "/ui/reviews/nothing", s.admin, nil); a.code != http.StatusNotFound {
		t.Errorf("no follow: %d", a.code)
	}
	own := []string{"Sec-Fetch-Site", "same-origin", "Origin", s.url}
	form := url.Values{"review": {r.ID}, "digest": {"sha256:01"}, "document": {harbour}} // the document of the form does not count
	if a := s.ask("POST", "/ui/clusters/harbour/apply", s.reader, form, own...); a.code != http.StatusForbidden {
		t.Errorf("a reader approves: %d", a.code)
	}
	next := r
	next.ID = "1a1a1a1a1a1a-second"
	s.review("harbour", next)
	if a := s.ask("POST", "/ui/clusters/harbour/apply", s.local, form, own...); a.code != http.StatusConflict || !strings.Contains(a.body, "replaced") {
		t.Errorf("an old approval: %d %s", a.code, a.body)
	}
	form.Set("review", next.ID)
	a := s.ask("POST", "/ui/clusters/harbour/apply", s.local, form, own...)
	at := a.Get("Location")
	if a.code != http.StatusSeeOther || !strings.HasPrefix(at, "/ui/jobs/") {
		t.Fatalf("approved: %d %s", a.code, a.body)
	}
	j := testkit.Value(s.store.Job(t.Context(), strings.TrimPrefix(at, "/ui/jobs/")))(t)
	var order work.Order
	testkit.Must(t, json.Unmarshal(j.Request, &order))
	if j.Who == "" || order.Review != next.ID || order.Document != changed || order.Digest != "sha256:01" {
		t.Errorf("%+v, %+v", j, order)
	}
}
