package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/watch"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/health"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// site is a store with a notifier and a receiver.
type site struct {
	t      *testing.T
	st     store.Store
	w      *Notifier
	log    testkit.Buffer
	broken error // of the store
	url    string

	mu     sync.Mutex
	codes  []int // of the next answers; then 200
	bodies []Message
	counts map[string]int
}

func newSite(t *testing.T) *site {
	s := &site{t: t, st: testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t), counts: map[string]int{}}
	t.Cleanup(func() { testkit.Must(t, s.st.Close()) })
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var m Message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil || m.Version != 1 {
			t.Errorf("the receiver got no message: %v", err)
		}
		code := http.StatusOK
		if len(s.codes) > 0 {
			code, s.codes = s.codes[0], s.codes[1:]
		}
		if code == http.StatusOK {
			s.bodies = append(s.bodies, m)
		} else {
			s.counts["asked"]++
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "about /"+secret)
	}))
	t.Cleanup(srv.Close)
	s.url = srv.URL
	s.add(Webhook{Name: "ops", Format: "json"})
	testkit.Must(t, s.st.BeatServer(t.Context(), store.ServerInfo{ID: "a", Started: time.Now()}, time.Hour))
	s.start("a")
	return s
}

func (s *site) add(h Webhook) {
	s.t.Helper()
	testkit.Value(NewWebhooks(s.st.ServerSecrets()).Add(s.t.Context(), h, []byte(s.url+"/"+secret), nil, true))(s.t)
}

// start begins anew, as a server that was restarted.
func (s *site) start(self string) {
	s.w = New(Config{Store: s.st, Self: self, Log: slog.New(slog.NewTextHandler(&s.log, nil)), Backoff: time.Microsecond, Pages: "https://boot.example.org",
		Ping: func(context.Context) error { return s.broken }, Unwritten: func() bool { return false },
		Counted: func(_, outcome string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.counts[outcome]++
		}})
}

// rounds lets the notifier look so many times, and returns the summaries of what the receiver got; of several messages each.
func (s *site) rounds(n int) (all []string) {
	s.t.Helper()
	for range n {
		s.w.once(s.t.Context())
		s.w.sending.Wait()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.bodies {
		if m.Event != "several" {
			m.Events = []Message{m}
		}
		for _, e := range m.Events {
			all = append(all, e.Event+" "+e.State+": "+e.Summary)
		}
	}
	s.bodies = nil
	return all
}

// expect compares what the receiver gets in so many rounds.
func (s *site) expect(what string, n int, want ...string) {
	s.t.Helper()
	got := s.rounds(n)
	if len(got) != len(want) {
		s.t.Errorf("%s: the receiver got %q, not %q", what, got, want)
		return
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			s.t.Errorf("%s: the receiver got %q, not %q", what, got[i], want[i])
		}
	}
}

func (s *site) cluster(name string) *store.Cluster {
	s.t.Helper()
	return testkit.Value(s.st.CreateCluster(s.t.Context(), store.Cluster{Name: name, Provider: "local", Document: []byte("kind: Cluster\n")}))(s.t)
}

// is records a look at a cluster.
func (s *site) is(c *store.Cluster, sum watch.Summary, causes ...report.Cause) {
	s.t.Helper()
	ctx := s.t.Context()
	st := report.Status{Name: c.Name, State: report.Healthy, Causes: causes}
	if len(causes) > 0 {
		st.State, st.Cause, st.Remedy = causes[0].State, causes[0].Text, causes[0].Remedy
	}
	testkit.Must(s.t, s.st.Health().Hurry(ctx, c.ID))
	if !testkit.Value(s.st.Health().Take(ctx, c.ID, "a", time.Hour))(s.t) {
		s.t.Fatal("a look is under way already")
	}
	testkit.Must(s.t, s.st.Health().Put(ctx, "a", health.Record{ClusterID: c.ID, State: string(st.State), Cause: st.Cause, Remedy: st.Remedy,
		Summary: testkit.Value(json.Marshal(sum))(s.t), Report: testkit.Value(json.Marshal(st))(s.t)}, 0))
}

// job adds a job that has ended.
func (s *site) job(cluster string, kind fail.Kind, text string) {
	s.t.Helper()
	ctx := s.t.Context()
	testkit.Value(s.st.AddJob(ctx, store.Job{Cluster: cluster, Verb: "renew", Title: "renew " + cluster, Who: "ann (1)", Request: []byte("{}")}))(s.t)
	j := testkit.Value(s.st.ClaimJob(ctx, time.Hour))(s.t)
	result := "{}"
	if text != "" {
		result = fmt.Sprintf(`{"kind":%q,"error":%q}`, kind, text)
	}
	testkit.Must(s.t, s.st.EndJob(ctx, j, []byte(result)))
}

var (
	off     = report.Cause{State: report.Unhealthy, Kind: "machine-off", Text: "demo-cp-2 is off", Remedy: "naupegos apply -f /home/ann/demo.yaml"}
	differs = report.Cause{State: report.Drifted, Kind: "node-marks", Text: "label tier differs"}
	overdue = report.Cause{State: report.Unhealthy, Kind: "backup-overdue", Text: "the backup on schedule is overdue"}
)

// TestChangesAreAnnouncedOnce: each change of a cluster's health is announced once, also by a server that was restarted or took over.
func TestChangesAreAnnouncedOnce(t *testing.T) {
	s := newSite(t)
	c := s.cluster("demo")
	s.is(c, watch.Summary{})
	s.expect("a healthy cluster", 3)
	s.is(c, watch.Summary{}, off)
	s.expect("the first look", 3, "health unhealthy: Cluster demo is unhealthy: demo-cp-2 is off")
	s.is(c, watch.Summary{}, off, differs)
	s.expect("more causes", 2)
	s.start("a")
	s.expect("after a restart", 3)
	s.is(c, watch.Summary{})
	s.expect("one look", 3)
	s.is(c, watch.Summary{})
	s.expect("two looks", 2, "health healthy: Cluster demo is healthy again")
	s.is(c, watch.Summary{}, differs)
	s.is(c, watch.Summary{})
	s.expect("for one look only", 2)
	s.is(c, watch.Summary{}, differs)
	s.rounds(1)
	s.is(c, watch.Summary{}, differs)
	s.expect("drifted", 2, "health drifted: Cluster demo is drifted: label tier differs")
	testkit.Must(t, s.st.DeleteCluster(t.Context(), c.ID))
	s.expect("a cluster that is gone", 2)
	if kept := s.w.receivers["ops"].Announced; len(kept) != 0 {
		t.Errorf("of the cluster is kept %v", kept)
	}
}

// TestWorkExplainsHealth: while a command works on a cluster, its health is not announced.
func TestWorkExplainsHealth(t *testing.T) {
	s := newSite(t)
	c := s.cluster("demo")
	l := testkit.Value(s.st.AcquireLease(t.Context(), c.ID, "upgrade", store.LeaseOptions{}))(t)
	s.is(c, watch.Summary{}, off)
	s.expect("under way", 3)
	testkit.Must(t, l.Release(t.Context()))
	s.expect("afterwards", 1, "health unhealthy")
}

// TestJobs: failures are announced once each; a success ends them silently.
func TestJobs(t *testing.T) {
	s := newSite(t)
	s.cluster("demo")
	s.job("demo", fail.Internal, "open "+s.st.Dir()+"/keys: no such file")
	got := s.rounds(3)
	if len(got) != 1 || got[0] != "failed open: renew demo of cluster demo, requested by ann (1), failed: open "+fail.Hidden+": no such file" {
		t.Errorf("of a job that failed: %q", got)
	}
	s.job("demo", fail.Unreachable, "no answer")
	s.expect("it fails otherwise", 2, "failed open: renew demo")
	s.job("demo", fail.Unreachable, "no answer")
	s.expect("it fails again", 2)
	s.start("a")
	s.expect("after a restart", 2)
	s.job("demo", 0, "")
	s.expect("it succeeds", 2)
	s.job("demo", fail.Interrupted, "stopped by the user")
	s.expect("it stops", 2, "stopped open: renew demo of cluster demo, requested by ann (1), stopped in the middle")
}

// TestBackupsAndCertificates have events of their own, also where they make a cluster unhealthy.
func TestBackupsAndCertificates(t *testing.T) {
	s := newSite(t)
	c := s.cluster("demo")
	in := func(d time.Duration) watch.Summary {
		return watch.Summary{Certificate: time.Now().Add(d), CertificateOf: "etcd-peer"}
	}
	s.is(c, in(20*24*time.Hour+time.Hour), overdue)
	s.rounds(1) // of the certificate
	s.is(c, in(20*24*time.Hour+time.Hour), overdue)
	s.expect("overdue", 2, "backup open: The backup on schedule of cluster demo is overdue")
	s.is(c, in(3*24*time.Hour+time.Hour), overdue)
	s.expect("three days", 2, "certificate open: Certificate etcd-peer of cluster demo expires in 3 days")
	s.is(c, in(20*24*time.Hour), overdue)
	s.expect("the clock was wrong", 2)
	s.is(c, in(300*24*time.Hour))
	s.is(c, in(300*24*time.Hour))
	s.expect("renewed", 1, "certificate over: The certificates of cluster demo are renewed")
}

// TestDuties: an unattended task that fails again and again is announced once; its jobs are not announced as well.
func TestDuties(t *testing.T) {
	s := newSite(t)
	s.cluster("demo")
	did := func(outcome string, failures int) {
		t.Helper()
		d := testkit.Value(s.st.TakeDuty(t.Context(), "demo", "renew", time.Hour))(t)
		if d == nil {
			t.Fatal("the duty is not due")
		}
		d.Outcome, d.Failures, d.Message = outcome, failures, "open /var/lib/naupegos/keys: gone"
		testkit.Must(t, s.st.EndDuty(t.Context(), d, 0))
	}
	did(store.DutyFailed, 1)
	s.expect("the first failure", 2)
	did(store.DutyFailed, 2)
	s.expect("the second failure", 2, "unattended open: The unattended task renew of cluster demo has failed 2 times in a row: open "+fail.Hidden+": gone")
	did(store.DutyFailed, 3)
	did(store.DutyPutOff, 3)
	s.expect("put off", 2)
	did(store.DutyNothing, 0)
	s.expect("it works", 2, "unattended over: The unattended task renew of cluster demo works again")
	testkit.Value(s.st.AddJob(t.Context(), store.Job{Cluster: "demo", Verb: "renew", Who: work.Unattended, Request: []byte("{}")}))(t)
	testkit.Must(t, s.st.EndJob(t.Context(), testkit.Value(s.st.ClaimJob(t.Context(), time.Hour))(t), []byte(`{"kind":"refused","error":"x"}`)))
	s.expect("its job", 2)
}

// TestMachines: the more machines wait, the rarer is the announcement.
func TestMachines(t *testing.T) {
	s := newSite(t)
	messages := 0
	for i := range 40 {
		testkit.Value(s.st.Metal().Change(t.Context(), fmt.Sprint("m", i), metal.How{Make: true}, func(d *metal.Draft) error { d.Approval, d.Waits = "pending", metal.Once; return nil }))(t)
		s.w.receivers = map[string]*receiver{} // also for a server that restarts
		s.w.leads = false
		messages += len(s.rounds(1))
	}
	if messages != 6 {
		t.Errorf("40 machines made %d messages", messages)
	}
}

// TestStore: a store that can't be written is announced from memory.
func TestStore(t *testing.T) {
	s := newSite(t)
	s.expect("well", 2)
	s.broken = fail.New(fail.Refused, "the store's disk is full: make room").At(s.st.Dir() + "/naupegos.db")
	s.expect("broken", 3, "store open: The server's store can't be written: "+fail.Hidden+": the store's disk is full")
	s.broken = nil
	s.expect("well again", 3, "store over: The server's store can be written again")
}

// TestFilters: receivers get what they asked for.
func TestFilters(t *testing.T) {
	s := newSite(t)
	s.add(Webhook{Name: "ops", Format: "json", Clusters: []string{"prod-*"}, Events: []string{Failed}})
	for _, name := range []string{"prod-a", "lab"} {
		s.job(s.cluster(name).Name, fail.Internal, "x")
		s.is(testkit.Value(s.st.Cluster(t.Context(), name))(t), watch.Summary{}, off)
	}
	s.broken = errors.New("x")
	s.expect("filtered", 4, "failed open: renew prod-a")
}

// TestRetries: what may be tried again is, a few times; what a receiver refuses is not.
func TestRetries(t *testing.T) {
	s := newSite(t)
	c := s.cluster("demo")
	s.is(c, watch.Summary{}, off)
	s.codes = []int{503, 500, 429}
	s.expect("the fourth attempt", 1, "health unhealthy")
	s.job("demo", fail.Internal, "x")
	s.codes = slices.Repeat([]int{500}, attempts)
	s.expect("all attempts fail", 3)
	if s.counts["asked"] != 3+attempts {
		t.Errorf("the receiver was asked %d times", s.counts["asked"])
	}
	listed := testkit.Value(NewWebhooks(s.st.ServerSecrets()).List(t.Context()))(t)[0]
	if !listed.Failing || listed.Sent.IsZero() || listed.Failed.IsZero() || !strings.HasPrefix(listed.Failure, "answered 500 Internal Server Error: about …") {
		t.Errorf("listed as %+v", listed)
	}
	s.job("demo", fail.Internal, "y") // only the last job counts
	s.w.receivers["ops"].not = time.Time{}
	s.expect("the pause is over", 1, "failed open: renew demo of cluster demo, requested by ann (1), failed: y")
	s.codes = []int{404}
	s.job("demo", fail.Internal, "z")
	s.expect("refused", 1)
	s.w.receivers["ops"].not = time.Time{}
	s.expect("refused, later", 2)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts["sent"] != 2 || s.counts["failed"] != 3+attempts+1 || s.counts["dropped"] != 1 {
		t.Errorf("counted %v", s.counts)
	}
	if text := s.log.String(); strings.Contains(text, secret) || strings.Count(text, "not delivered") != 1 {
		t.Errorf("the log has %s", text)
	}
}

// TestBound: a receiver gets few messages in a minute, and the rest as one.
func TestBound(t *testing.T) {
	s := newSite(t)
	for i := range 30 {
		s.job(s.cluster(fmt.Sprint("c", i)).Name, fail.Internal, "x")
		s.w.once(t.Context())
		s.w.sending.Wait()
	}
	if n := len(s.bodies); n != perMinute {
		t.Errorf("%d messages in a minute", n)
	}
	s.bodies = nil
	s.w.receivers["ops"].sent = nil
	s.w.once(t.Context())
	s.w.sending.Wait()
	if len(s.bodies) != 1 || s.bodies[0].Event != "several" || len(s.bodies[0].Events) != mostLines || s.bodies[0].More != 30-perMinute-mostLines {
		t.Errorf("afterwards: %+v", s.bodies)
	}
	s.bodies = nil
	s.expect("nothing is left", 3)
}

// TestGivesUp: what could not be delivered for a day is dropped.
func TestGivesUp(t *testing.T) {
	s := newSite(t)
	s.is(s.cluster("demo"), watch.Summary{}, off)
	s.codes = slices.Repeat([]int{500}, 2*attempts)
	s.expect("it fails", 1)
	r := s.w.receivers["ops"]
	r.not, r.Failing = time.Time{}, time.Now().Add(-2*giveUp)
	s.expect("it fails after a day", 1)
	r.not = time.Time{}
	s.expect("it works", 2)
}

// TestOneServerAnnounces: of several servers, the oldest announces; when it stops, another one goes on.
func TestOneServerAnnounces(t *testing.T) {
	s := newSite(t)
	testkit.Must(t, s.st.BeatServer(t.Context(), store.ServerInfo{ID: "b", Started: time.Now().Add(time.Minute)}, time.Hour))
	first := s.w
	s.start("b")
	c := s.cluster("demo")
	s.is(c, watch.Summary{}, off)
	s.expect("the younger server", 3)
	s.w, first = first, s.w
	s.expect("the older server", 1, "health unhealthy")
	testkit.Must(t, s.st.LeaveServer(t.Context(), "a"))
	s.w = first
	s.expect("the younger server takes over", 3)
	s.job("demo", fail.Internal, "x")
	s.expect("the younger server", 1, "failed open")
}

// TestReplaced: a webhook that is replaced gets what needs a person now, a removed one nothing.
func TestReplaced(t *testing.T) {
	s := newSite(t)
	s.is(s.cluster("demo"), watch.Summary{}, off)
	s.expect("the first webhook", 2, "health unhealthy")
	s.add(Webhook{Name: "ops", Format: "json"})
	s.expect("the second webhook", 2, "health unhealthy")
	all := NewWebhooks(s.st.ServerSecrets())
	testkit.Must(t, all.Remove(t.Context(), "ops"))
	testkit.Fails(t, all.Remove(t.Context(), "ops"), fail.NotFound, "webhook list")
	s.job("demo", fail.Internal, "x")
	s.expect("removed", 2)
	if names := testkit.Value(s.st.ServerSecrets().Names(t.Context()))(t); slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "webhook") }) {
		t.Errorf("the store keeps %q", names)
	}
}

// TestRunEnds: Run ends with its context, and a receiver that hangs delays that no longer than one request.
func TestRunEnds(t *testing.T) {
	s := newSite(t)
	s.is(s.cluster("demo"), watch.Summary{}, off)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.w.Run(ctx) }()
	testkit.Until(t, time.Minute, 10*time.Millisecond, testkit.That("the receiver has the message", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.bodies) == 1
	}))
	stop()
	testkit.Must(t, <-ended)
	s.rounds(0)
	s.start("a")
	s.expect("after the restart", 2)
}

func TestWebhooks(t *testing.T) {
	s := newSite(t)
	all := NewWebhooks(s.st.ServerSecrets())
	for says, h := range map[string]Webhook{
		"the name of a webhook": {Name: "Ops", Format: "json"}, "--format": {Name: "x", Format: "discord"}, "--events": {Name: "x", Format: "json", Events: []string{"all"}},
		"not a name or a pattern": {Name: "x", Format: "json", Clusters: []string{"a b"}}, "about no cluster": {Name: "x", Format: "json", Clusters: []string{"a"}, Events: []string{Machines}},
		`"["`: {Name: "x", Format: "json", Clusters: []string{"["}},
	} {
		_, err := all.Add(t.Context(), h, []byte("https://x/"), nil, false)
		testkit.Fails(t, err, fail.Invalid, says)
	}
	_, err := all.Add(t.Context(), Webhook{Name: "x", Format: "json"}, []byte("https://x/"), []byte("no certificate"), false)
	testkit.Fails(t, err, fail.Invalid, "--ca-file")
	_, err = all.Add(t.Context(), Webhook{Name: "ops", Format: "json"}, []byte("https://x/"), nil, false)
	testkit.Fails(t, err, fail.Conflict, "--replace")
	listed := testkit.Value(all.List(t.Context()))(t)
	if raw := string(testkit.Value(json.Marshal(listed))(t)); len(listed) != 1 || strings.Contains(raw, secret) || listed[0].Host == "" {
		t.Errorf("listed: %s", raw)
	}
	hook, said, err := all.Test(t.Context(), "ops")
	if err != nil || said != "200 OK: about …" || hook.Name != "ops" {
		t.Errorf("%+v: %s, %v", hook, said, err)
	}
	for i := range mostWebhooks {
		_, err = all.Add(t.Context(), Webhook{Name: fmt.Sprint("w", i), Format: "json"}, []byte("https://x/"), nil, false)
	}
	testkit.Fails(t, err, fail.Refused, "webhook remove")
}
