package storetest

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// tokens are known by their ID until they are revoked, and after.
func tokens(t *testing.T, at Opener, _ Database) {
	s, ctx := at(""), t.Context()
	now := time.Now().UTC().Truncate(time.Microsecond)
	want := store.Token{ID: "ann1", Name: "ann", Hash: "abc", Role: "operate", Cluster: "demo", Created: now, Expires: now.Add(time.Hour)}
	testkit.Must(t, s.AddToken(ctx, want))
	testkit.Fails(t, s.AddToken(ctx, want), fail.Conflict, "ann1")
	if got := testkit.Value(at("far").Token(ctx, "ann1"))(t); *got != want {
		t.Errorf("%+v", got)
	}
	_, err := s.Token(ctx, "bob1")
	testkit.Fails(t, err, fail.NotFound, "bob1")
	testkit.Must(t, s.RevokeToken(ctx, "ann1"))
	testkit.Must(t, s.RevokeToken(ctx, "ann1"))
	if all := testkit.Value(s.Tokens(ctx))(t); len(all) != 1 || all[0].Revoked.IsZero() {
		t.Errorf("%+v", all)
	}
	testkit.Fails(t, s.RevokeToken(ctx, "bob1"), fail.NotFound, "bob1")
}

// sessions are there until they are ended, and are forgotten some time after they are over.
func sessions(t *testing.T, at Opener, _ Database) {
	s, ctx := at(""), t.Context()
	now := time.Now().UTC().Truncate(time.Microsecond)
	want := store.Session{ID: "s1", Hash: "abc", Issuer: "https://idp.example.org", Subject: "ann1", Name: "ann", Claims: []byte(`{"groups":["a"]}`), Hint: "sealed", Created: now, Expires: now.Add(time.Hour)}
	over := store.Session{ID: "s2", Subject: "bob\x00", Created: now, Expires: now.Add(-time.Second)}
	testkit.Must(t, s.AddSession(ctx, over))
	if got := testkit.Value(at("far").Session(ctx, "s2"))(t); got.Subject != "bob\uFFFD" {
		t.Errorf("%+v", got)
	}
	testkit.Must(t, s.AddSession(ctx, want))
	if got := testkit.Value(at("far").Session(ctx, "s1"))(t); !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v", got)
	}
	_, err := s.Session(ctx, "s2")
	testkit.Fails(t, err, fail.NotFound, "s2")
	if all := testkit.Value(s.Sessions(ctx))(t); len(all) != 1 || all[0].ID != "s1" {
		t.Errorf("%+v", all)
	}
	testkit.Must(t, at("far").EndSession(ctx, "s1"))
	testkit.Fails(t, s.EndSession(ctx, "s1"), fail.NotFound, "s1")
	_, err = s.Session(ctx, "s1")
	testkit.Fails(t, err, fail.NotFound, "s1")
}

// audit finds an operator's entries, the newest first, and forgets old ones.
func audit(t *testing.T, at Opener, _ Database) {
	s, ctx := at(""), t.Context()
	now := time.Now().UTC().Truncate(time.Microsecond)
	for i, e := range []store.AuditEntry{
		{At: now.Add(-3 * 365 * 24 * time.Hour), Who: "ann", Action: "long ago"},
		{At: now.Add(-time.Minute), Who: "ann", From: "192.0.2.1", Action: "POST /api/v1/jobs", Cluster: "demo", Outcome: "done"},
		{At: now, Who: "bob\x00", From: "192.0.2.2", Action: "POST /api/v1/jobs", Cluster: "other", Outcome: "refused"},
	} {
		if err := s.Note(ctx, e); err != nil {
			t.Fatal(i, err)
		}
	}
	for _, c := range []struct {
		q    store.AuditQuery
		want int
	}{
		{store.AuditQuery{}, 2}, {store.AuditQuery{Limit: 1}, 1}, {store.AuditQuery{Who: "ann"}, 1}, {store.AuditQuery{Cluster: "other"}, 1},
		{store.AuditQuery{Outcome: "done"}, 1}, {store.AuditQuery{Since: now.Add(-time.Second)}, 1}, {store.AuditQuery{Who: "ann", Cluster: "other"}, 0},
		{store.AuditQuery{Text: "API/V1"}, 2}, {store.AuditQuery{Text: "192.0.2.1"}, 1}, {store.AuditQuery{Text: "Ref"}, 1}, {store.AuditQuery{Text: "demo", Who: "ann"}, 1},
		{store.AuditQuery{Text: "ÉMILE"}, 0}, {store.AuditQuery{Text: "%"}, 0}, {store.AuditQuery{Text: "j_bs"}, 0}, {store.AuditQuery{Text: `\`}, 0},
		{store.AuditQuery{Text: "post", Limit: 1, Offset: 1}, 1}, {store.AuditQuery{Offset: 2}, 0},
	} {
		got := testkit.Value(s.Audit(ctx, c.q))(t)
		if len(got) != c.want {
			t.Errorf("%+v found %+v", c.q, got)
		}
		if c.q == (store.AuditQuery{}) && got[0].Who != "bob␀" {
			t.Errorf("the newest is %+v", got[0])
		}
		c.q.Oldest = true
		if back := testkit.Value(s.Audit(ctx, c.q))(t); len(back) != c.want || c.want == 2 && !cmp.Equal(back, []store.AuditEntry{got[1], got[0]}) {
			t.Errorf("%+v found %+v", c.q, back)
		}
	}
}

// jobs are carried out by one server at a time, and by the next where it vanished.
func jobs(t *testing.T, at Opener, _ Database) {
	near, far, ctx := at("near"), at("far"), t.Context()
	if j := testkit.Value(near.ClaimJob(ctx, time.Minute))(t); j != nil {
		t.Fatalf("there is %+v", j)
	}
	first := testkit.Value(near.AddJob(ctx, store.Job{Cluster: "demo", Verb: "apply", Request: []byte(`{"a":1}`), Who: "ann"}))(t)
	_, err := far.AddJob(ctx, store.Job{Cluster: "demo", Verb: "destroy", Who: "bob"})
	testkit.Fails(t, err, fail.Conflict, "apply by ann", first.ID)
	a := testkit.Value(near.ClaimJob(ctx, time.Minute))(t)
	if a == nil || a.ID != first.ID || a.State != store.JobRunning || a.Generation != 1 || string(a.Request) != `{"a":1}` {
		t.Fatalf("claimed was %+v", a)
	}
	if j := testkit.Value(far.ClaimJob(ctx, time.Minute))(t); j != nil {
		t.Fatalf("it was claimed twice: %+v", j)
	}
	testkit.Must(t, near.AgreeJob(ctx, a, []byte(`{"steps":[]}`)))
	testkit.Must(t, near.SayJob(ctx, a, []string{"one", "two"}))
	testkit.Must(t, far.StopJob(ctx, a.ID, store.StopHard))
	testkit.Must(t, far.StopJob(ctx, a.ID, store.StopSoft)) // less than what was asked for
	if s := testkit.Value(near.BeatJob(ctx, a, time.Millisecond))(t); s != store.StopHard {
		t.Errorf("asked to stop: %d", s)
	}
	var b *store.Job
	testkit.Until(t, time.Minute, 10*time.Millisecond, func() error { // once the first one's time is over
		if b, err = far.ClaimJob(ctx, time.Minute); err == nil && b == nil {
			err = fail.New(fail.NotReady, "not yet")
		}
		return err
	})
	if b.Generation != 2 || string(b.Agreed) != `{"steps":[]}` {
		t.Errorf("taken over was %+v", b)
	}
	_, err = near.BeatJob(ctx, a, time.Minute)
	testkit.Fails(t, err, fail.Conflict, "another server")
	testkit.Fails(t, near.SayJob(ctx, a, []string{"late"}), fail.Conflict, "another server")
	testkit.Fails(t, near.EndJob(ctx, a, []byte("{}")), fail.Conflict, "another server")
	testkit.Must(t, far.ReturnJob(ctx, b))
	c := testkit.Value(near.ClaimJob(ctx, time.Minute))(t)
	testkit.Must(t, near.SayJob(ctx, c, []string{"three"}))
	testkit.Must(t, near.EndJob(ctx, c, []byte(`{"changed":true}`)))
	testkit.Must(t, near.StopJob(ctx, c.ID, store.StopSoft))
	lines := testkit.Value(far.JobLines(ctx, c.ID, 1, 10))(t)
	if len(lines) != 2 || lines[0] != (store.JobLine{Seq: 2, Line: "two"}) || lines[1].Line != "three" {
		t.Errorf("it told %+v", lines)
	}
	if j := testkit.Value(far.Job(ctx, c.ID))(t); j.State != store.JobEnded || string(j.Result) != `{"changed":true}` || j.Ended.IsZero() {
		t.Errorf("%+v", j)
	}
	testkit.Value(far.AddJob(ctx, store.Job{Cluster: "demo", Verb: "destroy", Request: []byte("{}"), Who: "bob"}))(t)
	if all := testkit.Value(near.Jobs(ctx, "demo", 1))(t); len(all) != 1 || all[0].Verb != "destroy" {
		t.Errorf("%+v", all)
	}
	_, err = near.Job(ctx, "none")
	testkit.Fails(t, err, fail.NotFound, "none")
}

// endedJobs: jobs that end at once remove no other cluster's jobs from the history, and do not fill the store. Lists of all clusters' jobs hold no requests.
func endedJobs(t *testing.T, at Opener, d Database) {
	s, ctx := at(""), t.Context()
	end := func(cluster string, request []byte) string {
		testkit.Value(s.AddJob(ctx, store.Job{Cluster: cluster, Verb: "apply", Request: request}))(t)
		j := testkit.Value(s.ClaimJob(ctx, time.Minute))(t)
		testkit.Must(t, s.EndJob(ctx, j, []byte("{}")))
		return j.ID
	}
	testkit.Value(s.CreateCluster(ctx, store.Cluster{Name: "quiet", Provider: "local", Document: []byte("x")}))(t)
	quiet, gone := end("quiet", []byte("{}")), end("never-created", []byte("{}"))
	d.SQL(t, s, fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= %d)
		INSERT INTO jobs (id, cluster, verb, title, request, who, state, stop, generation, holder, expires, agreed, result, created_at, ended)
		SELECT 'loud' || i, 'loud', 'apply', '', '{}', '', 'ended', 0, 0, '', 0, '', '{}', %d + i, 0 FROM n`, store.KeepJobs, time.Now().UnixMicro()))
	end("loud", []byte("{}"))
	testkit.Value(s.Job(ctx, quiet))(t)
	_, err := s.Job(ctx, gone)
	testkit.Fails(t, err, fail.NotFound)
	d.SQL(t, s, "DELETE FROM jobs WHERE cluster = 'loud'")
	document := []byte(`"` + strings.Repeat("x", 5<<20) + `"`)
	for range 10 {
		end("large", document)
	}
	if all := testkit.Value(s.Jobs(ctx, "large", 100))(t); len(all) < 6 || len(all) > 7 || len(all[0].Request) != len(document) {
		t.Errorf("there are %d large jobs", len(all))
	}
	for _, j := range testkit.Value(s.Jobs(ctx, "", 100))(t) {
		if len(j.Request)+len(j.Agreed) > 0 {
			t.Errorf("the list of all jobs has %d bytes of %s", len(j.Request), j.ID)
		}
	}
	testkit.Value(s.Job(ctx, quiet))(t)
}

// manyRaceForJobs: each job is claimed once, however many servers look.
func manyRaceForJobs(t *testing.T, at Opener, _ Database) {
	s := at("")
	const n = 6
	for i := range n {
		testkit.Value(s.AddJob(t.Context(), store.Job{Cluster: string(rune('a' + i)), Verb: "apply", Request: []byte("{}")}))(t)
	}
	var mu sync.Mutex
	got := map[string]int{}
	var wg sync.WaitGroup
	for range 4 {
		other := at("")
		wg.Go(func() {
			for {
				j, err := other.ClaimJob(t.Context(), time.Minute)
				if err != nil {
					t.Error(err)
				}
				if err != nil || j == nil {
					return
				}
				mu.Lock()
				got[j.ID]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(got) != n {
		t.Errorf("%d jobs were claimed", len(got))
	}
	for id, times := range got {
		if times != 1 {
			t.Errorf("%s was claimed %d times", id, times)
		}
	}
}
