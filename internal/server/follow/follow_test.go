package follow

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gitread"
	"github.com/naupegos/naupegos/internal/gitread/gittest"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// document is of a cluster without machines: its plan creates them all. No test carries it out.
func document(workers string) string {
	return "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  provider: {local: {}}\n  workers: [{name: a, replicas: " + workers + "}]\n"
}

// place is a store with the cluster demo, a repository that demo follows, and servers.
type place struct {
	*gittest.Repo
	t       *testing.T
	site    *gittest.Site
	at      store.Location
	store   store.Store
	follows Follows
	board   *work.Board
	rules   *v1alpha1.ServerPolicy
	follow  Follow
}

func newPlace(t *testing.T) *place {
	t.Helper()
	site := gittest.NewSite(t)
	p := &place{Repo: site.NewRepo("infra"), t: t, site: site, at: store.Location{Dir: t.TempDir()}, rules: v1alpha1.DefaultServerPolicy()}
	p.rules.Providers = []string{"local"}
	p.rules.Clusters = []v1alpha1.ClusterPolicy{{Endpoints: []string{"127.0.0.1"}}}
	testkit.Must(t, os.WriteFile(filepath.Join(p.at.Dir, "agent"), []byte("#!/bin/false\n"), 0o755)) // nothing runs it
	p.store = testkit.Value(p.open(t.Context()))(t)
	t.Cleanup(func() { testkit.Must(t, p.store.Close()) })
	testkit.Value(p.store.CreateCluster(t.Context(), store.Cluster{Name: "demo", Provider: "local", Document: []byte(document("2"))}))(t)
	p.follows = NewFollows(p.store.ServerSecrets())
	p.board = work.New(work.Config{Store: p.store, Open: p.open, Options: p.options, Log: slog.New(slog.DiscardHandler), Version: "test", Reviewed: p.follows.Check})
	p.follow = Follow{Cluster: "demo", Source: gitread.Source{URL: p.URL, Branch: "main", Path: "demo.yaml", CA: site.CA}, Apply: Approve, Every: "10s"}
	p.Commit("demo.yaml", document("2"))
	return p
}

func (p *place) open(ctx context.Context) (store.Store, error) { return store.Open(ctx, p.at) }

func (p *place) options(a operate.Asked, n work.Need) operate.Options {
	o := operate.Options{Look: n.Look, ReadOnly: !n.CarryOut, Policy: policy.New(p.rules), Agent: func() (string, error) { return filepath.Join(p.at.Dir, "agent"), nil }}
	if n.CarryOut {
		o.Verb = a.Verb
	}
	return o
}

func (p *place) runner() *Runner {
	return NewRunner(Config{Store: p.store, Open: p.open, Options: p.options, Board: p.board, Policy: policy.New(p.rules), Log: slog.New(slog.DiscardHandler), Tick: 10 * time.Millisecond})
}

// add stores the follow.
func (p *place) add() {
	p.t.Helper()
	testkit.Must(p.t, p.follows.Add(p.t.Context(), p.follow, true))
}

// look looks at the repository, and returns the state afterwards.
func (p *place) look() *Status {
	p.t.Helper()
	f := testkit.Value(p.follows.Get(p.t.Context(), "demo"))(p.t)
	_, _ = p.runner().look(p.t.Context(), &store.Duty{Cluster: "demo", Kind: Duty, Ended: time.Now()}, f) // the state has the error
	return p.status()
}

func (p *place) status() *Status {
	p.t.Helper()
	f := testkit.Value(p.follows.Get(p.t.Context(), "demo"))(p.t)
	return testkit.Value(p.follows.Status(p.t.Context(), f))(p.t)
}

// expect looks, and expects a state.
func (p *place) expect(state string, words ...string) *Status {
	p.t.Helper()
	s := p.look()
	if s.State != state {
		p.t.Fatalf("it is %s: %s; want %s", s.State, s.Why, state)
	}
	why := s.Why
	if s.Review != nil {
		why += " " + s.Review.Person
	}
	for _, w := range words {
		if !strings.Contains(why, w) {
			p.t.Errorf("%s: %q is not in %q", state, w, why)
		}
	}
	return s
}

// jobs returns the orders of all jobs, the newest first.
func (p *place) jobs() (orders []work.Order, jobs []store.Job) {
	p.t.Helper()
	jobs = testkit.Value(p.store.Jobs(p.t.Context(), "demo", 0))(p.t)
	for i := range jobs {
		var o work.Order
		testkit.Must(p.t, json.Unmarshal(jobs[i].Request, &o))
		orders = append(orders, o)
	}
	return orders, jobs
}

// finish ends the job that waits, as a server does: it stores the document, if the job gets so far, and the result.
func (p *place) finish(stores bool, result work.Result) {
	p.t.Helper()
	ctx := p.t.Context()
	j := testkit.Value(p.store.ClaimJob(ctx, time.Minute))(p.t)
	if j == nil {
		p.t.Fatal("no job waits")
	}
	var o work.Order
	testkit.Must(p.t, json.Unmarshal(j.Request, &o))
	if stores {
		p.save(o.Document)
	}
	testkit.Must(p.t, p.store.EndJob(ctx, j, testkit.Value(json.Marshal(result))(p.t)))
}

// save stores a document as an apply does.
func (p *place) save(text string) {
	p.t.Helper()
	c := testkit.Value(p.store.Cluster(p.t.Context(), "demo"))(p.t)
	c.Document = []byte(text)
	testkit.Must(p.t, p.store.SaveCluster(p.t.Context(), c))
}

// TestReview: a change waits as a review until a person approves it; a newer commit replaces the review, and its approval is refused.
func TestReview(t *testing.T) {
	p := newPlace(t)
	p.add()
	first := p.expect(InStep)
	p.Commit("other", "a commit without a change of the document")
	if s := p.expect(InStep); s.Seen == first.Seen || s.Applied != s.Seen {
		t.Errorf("%+v", s)
	}
	p.Commit("demo.yaml", "# only a comment\r\n"+strings.ReplaceAll(document("2"), "\n", "\r\n"))
	p.expect(InStep)
	old := p.Commit("demo.yaml", document("3"))
	s := p.expect(Waits, "each change waits for approval")
	r := s.Review
	if r.Commit != old || r.Asked.Document != document("3") || !strings.HasPrefix(r.Summary, "Plan: ") || r.Digest == "" || r.Plan == nil || r.Subject != "Change demo.yaml" {
		t.Errorf("%+v", r)
	}
	if again := p.expect(Waits); again.Review.ID != r.ID {
		t.Error("it was planned again, although nothing has changed")
	}
	stale := r.Order(nil, false)
	p.Commit("demo.yaml", document("4"))
	now := p.expect(Waits).Review
	_, err := p.board.Add(t.Context(), "ann", "demo", stale)
	testkit.Fails(t, err, fail.Conflict, "was replaced", "nothing was done")
	_, err = p.follows.Reviewed(t.Context(), "demo", old)
	testkit.Fails(t, err, fail.Conflict, "was replaced")
	forged := now.Order(nil, false)
	forged.Document = document("9")
	_, err = p.board.Add(t.Context(), "ann", "demo", forged)
	testkit.Fails(t, err, fail.Conflict, "not the one of the review")
	j := testkit.Value(p.board.Add(t.Context(), "ann", "demo", now.Order(nil, false)))(t)
	if s := p.expect(Under, j.ID, "ann"); s.Job != j.ID {
		t.Errorf("%+v", s)
	}
	p.Commit("demo.yaml", document("5"))
	p.expect(Under) // the next commit waits for the job's end
	p.finish(true, work.Result{Done: operate.Done{Changed: true}})
	if s := p.expect(Waits); s.Applied != now.Commit || s.Review.Asked.Document != document("5") {
		t.Errorf("%+v", s)
	}
	log := testkit.Value(p.store.Audit(t.Context(), store.AuditQuery{Cluster: "demo"}))(t)
	if !slices.ContainsFunc(log, func(e store.AuditEntry) bool {
		return e.Who == "follow demo at "+gitread.Short(old) && e.Action == "follow review" && e.Outcome == "done"
	}) {
		t.Errorf("the audit has %+v", log)
	}
}

// TestJobAsksAgain: a job that was approved in time, and begins after the review was replaced, does nothing.
func TestJobAsksAgain(t *testing.T) {
	p := newPlace(t)
	p.add()
	p.Commit("demo.yaml", document("3"))
	r := p.expect(Waits).Review
	j := testkit.Value(p.board.Add(t.Context(), "ann", "demo", r.Order(nil, true)))(t)
	f := testkit.Value(p.follows.Get(t.Context(), "demo"))(t)
	s := p.status()
	s.Review.ID, s.Review.Commit = "000000000000-x", strings.Repeat("0", 40)
	testkit.Must(t, p.follows.put(t.Context(), f.Cluster, s))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.board.Run(ctx) }()
	testkit.Until(t, time.Minute, 20*time.Millisecond, func() (err error) {
		if j, err = p.store.Job(t.Context(), j.ID); err == nil && j.State != store.JobEnded {
			err = fail.New(fail.NotReady, "it is %s", j.State)
		}
		return err
	})
	stop()
	testkit.Must(t, <-done)
	var res work.Result
	testkit.Must(t, json.Unmarshal(j.Result, &res))
	testkit.Fails(t, res.Err(), fail.Conflict, "was replaced")
	if c := testkit.Value(p.store.Cluster(t.Context(), "demo"))(t); string(c.Document) != document("2") {
		t.Errorf("the stored document is %s", c.Document)
	}
}

// TestFailedJob: after a failed job a person decides, also with auto; a document that was applied by other means is in step.
func TestFailedJob(t *testing.T) {
	p := newPlace(t)
	p.follow.Apply = Auto
	p.add()
	p.expect(InStep)
	p.Commit("demo.yaml", document("3"))
	p.expect(Under)
	p.finish(true, work.Result{Kind: fail.Unreachable.String(), Error: "the machine is off"})
	s := p.expect(Waits, "failed: the machine is off")
	p.expect(Waits)
	if _, jobs := p.jobs(); len(jobs) != 1 {
		t.Errorf("%d jobs ran", len(jobs))
	}
	testkit.Value(p.board.Add(t.Context(), "ann", "demo", s.Review.Order(nil, true)))(t)
	p.expect(Under)
	p.finish(true, work.Result{Done: operate.Done{Changed: true}})
	if s := p.expect(InStep); s.Failed != "" || s.Review != nil {
		t.Errorf("%+v", s)
	}
}

// TestAuto: a new commit is applied once, by a job of the follow, also if a server ends between the decision and the job's record.
func TestAuto(t *testing.T) {
	p := newPlace(t)
	p.follow.Apply = Auto
	p.add()
	p.expect(InStep)
	commit := p.Commit("demo.yaml", document("3"))
	s := p.expect(Under)
	orders, jobs := p.jobs()
	if len(jobs) != 1 || jobs[0].Who != "follow demo at "+gitread.Short(commit) || orders[0].Document != document("3") || orders[0].Digest == "" || !orders[0].Yes {
		t.Errorf("%+v", jobs)
	}
	s.State, s.Job = Waits, "" // as a server leaves it that ends right after it has added the job
	testkit.Must(t, p.follows.put(t.Context(), "demo", s))
	p.expect(Under)
	p.finish(true, work.Result{Done: operate.Done{Changed: true}})
	p.expect(InStep)
	p.Commit("demo.yaml", document("4"))
	s = p.expect(Under)
	s.State, s.Job = Waits, ""
	s.Review.ID = "000000000000-unknown" // as a server leaves it that ends right before: the job is another one's
	testkit.Must(t, p.follows.put(t.Context(), "demo", s))
	if s := p.look(); s.State != Waits {
		t.Errorf("it is %s", s.State)
	}
	if _, jobs := p.jobs(); len(jobs) != 2 {
		t.Errorf("%d jobs", len(jobs))
	}
}

// TestPerson: with auto, too, a person decides about removals, drift, and clusters that are gone.
func TestPerson(t *testing.T) {
	p := newPlace(t)
	p.follow.Apply = Auto
	p.add()
	p.expect(InStep)
	p.save(document("7"))
	p.expect(Waits, "changed by other means")
	p.save(document("2"))
	p.expect(InStep)
	c := testkit.Value(p.store.Cluster(t.Context(), "demo"))(t)
	testkit.Must(t, p.store.DeleteCluster(t.Context(), c.ID))
	p.Commit("demo.yaml", document("3"))
	p.expect(Waits, "is gone")
	if _, jobs := p.jobs(); len(jobs) != 0 {
		t.Errorf("%d jobs", len(jobs))
	}
}

// TestSigned: with signers, only signed commits count, and by itself the server applies only commits that come after the last one. Other signers make it read
// the commit again.
func TestSigned(t *testing.T) {
	p := newPlace(t)
	_, key := p.SSHKey()
	p.follow.Apply, p.follow.Signers = Auto, &gitread.Signers{}
	testkit.Must(t, p.follow.Signers.Add("signers", []byte("ann@example.org "+key)))
	p.add()
	p.expect(Refused, "is not signed", "Ann <ann@example.org>")
	first := p.Commit("demo.yaml", document("2")+"# first\n", "-S")
	if s := p.expect(InStep); !strings.Contains(s.Signer, "ann@example.org") {
		t.Errorf("%+v", s)
	}
	p.Commit("demo.yaml", document("3"), "-S")
	p.expect(Under)
	p.finish(true, work.Result{Done: operate.Done{Changed: true}})
	p.expect(InStep)
	p.Run("reset", "-q", "--hard", first)
	s := p.expect(Waits, "does not come after commit")
	if s.Review.Commit != first {
		t.Errorf("%+v", s.Review)
	}
	p.Commit("demo.yaml", document("4"))
	if s := p.expect(Refused, "is not signed"); s.Review != nil {
		t.Error("the former review waits still")
	}
	p.Run("reset", "-q", "--hard", first)
	p.expect(Waits)
	p.follow.Signers = &gitread.Signers{}
	_, other := p.SSHKey()
	testkit.Must(t, p.follow.Signers.Add("signers", []byte("bob@example.org "+other)))
	p.add()
	if s := p.status(); s.Review != nil || s.State != New {
		t.Errorf("a commit of another signer counts: %+v", s)
	}
	p.expect(Refused, "--signers does not have")
}

// TestDocuments: a document that could not be applied through the API is refused here, with the reason. The cluster stays.
func TestDocuments(t *testing.T) {
	p := newPlace(t)
	p.add()
	p.expect(InStep)
	for text, word := range map[string]string{
		"x": "demo.yaml", document("2") + "---\n" + document("3"): "", strings.Replace(document("3"), "name: demo", "name: other", 1): "is of cluster other",
		strings.Replace(document("3"), "local: {}", "hosts: {sshKeyFile: /root/.ssh/id}", 1): "", strings.Replace(document("3"), "local: {}", "openstack: {}", 1): "",
		document("3") + "  manifests: [{name: k, file: k.yaml}]\n": "k.yaml, which the commit does not have", document("3") + "  manifests: [{name: k, file: /etc/passwd}]\n": "/etc/passwd",
		document("3") + "  manifests: [{name: k, dir: ../../etc}]\n": "not below the top", document("3") + "  charts: [{name: x, chart: /srv/chart}]\n": "/srv/chart",
		"": "demo.yaml", document("3") + "  nonsense: true\n": "nonsense", "a: &a [*a]\n": "demo.yaml", strings.Repeat("[", 10000): "demo.yaml",
	} {
		p.Commit("demo.yaml", text)
		if s := p.expect(Refused, word); s.Review != nil {
			t.Errorf("%.50q: a review waits", text)
		}
	}
	p.Run("rm", "-q", "demo.yaml")
	p.Commit("other", "x")
	p.expect(Refused, "has no file demo.yaml", "the cluster stays")
	if c := testkit.Value(p.store.Cluster(t.Context(), "demo"))(t); string(c.Document) != document("2") {
		t.Errorf("the stored document is %s", c.Document)
	}
	if _, jobs := p.jobs(); len(jobs) != 0 {
		t.Errorf("%d jobs", len(jobs))
	}
}

// TestFilesOfDocuments: the files that a document names come from its commit; a change in one of them is a change of the document.
func TestFilesOfDocuments(t *testing.T) {
	p := newPlace(t)
	p.follow.Path = "clusters/demo.yaml"
	p.add()
	p.Write("common/k/kustomization.yaml", "resources: [a.yaml]\n")
	p.Write("common/k/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n")
	p.Write("clusters/m.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: default}\n")
	text := document("2") + "  manifests: [{name: k, kustomize: ../common/k}, {name: m, file: m.yaml}]\n"
	p.Commit("clusters/demo.yaml", text)
	s := p.expect(Waits)
	doc := testkit.Value(validation.Parse("review", []byte(s.Review.Asked.Document)))(t)
	if len(doc.Sources) != 2 || doc.Sources["../common/k"] == "" || !strings.HasPrefix(s.Review.Asked.Document, text) {
		t.Errorf("%s", s.Review.Asked.Document)
	}
	p.save(s.Review.Asked.Document)
	p.expect(InStep)
	p.Commit("common/k/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: default}\n")
	p.expect(Waits)
	testkit.Must(t, os.Symlink("/etc/passwd", filepath.Join(p.Work, "common/k/link")))
	p.Run("add", "-A")
	p.Commit("other", "x")
	p.expect(Refused, "common/k/link is a symbolic link")
	if left := testkit.Value(os.ReadDir(filepath.Join(p.at.Dir, "follow")))(t); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestAway: while a repository can't be read, its state says why, and the review stays.
func TestAway(t *testing.T) {
	p := newPlace(t)
	p.add()
	p.Commit("demo.yaml", document("3"))
	r := p.expect(Waits).Review
	p.site.User = "ann:s3cret"
	p.expect(Unfetched, "does not accept the credential")
	p.follow.Credential = "git"
	p.add()
	p.expect(Unfetched, "cluster demo has no credential git")
	creds := policy.NewCredentials(p.store.ServerSecrets())
	cred := policy.Credential{Name: "git", For: []string{"git.example.org"}, Clusters: []string{"demo"}}
	testkit.Must(t, creds.Add(t.Context(), cred, []byte("ann:s3cret"), true))
	p.expect(Unfetched, "credential git is not bound to https://127.0.0.1")
	cred.For, cred.Paths = []string{"127.0.0.1"}, []string{"other"}
	testkit.Must(t, creds.Add(t.Context(), cred, []byte("ann:s3cret"), true))
	p.expect(Unfetched, "not bound to path infra.git")
	cred.Paths = []string{"infra.git"}
	testkit.Must(t, creds.Add(t.Context(), cred, []byte("ann:s3cret"), true))
	s := p.expect(Waits)
	if s.Review.ID == r.ID {
		t.Error("the review of other settings counts")
	}
	p.site.Before = func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "no", http.StatusServiceUnavailable)
		return true
	}
	if away := p.expect(Unfetched, "can't be reached"); away.Review == nil || strings.Contains(away.Why, "s3cret") {
		t.Errorf("%+v", away)
	}
	p.site.Before = nil
	if back := p.expect(Waits); back.Review.ID != s.Review.ID {
		t.Error("it was planned again, although nothing has changed")
	}
	p.rules.Clusters = nil
	p.expect(Unfetched, "the server's policy", "127.0.0.1")
}

// TestRunners: of three servers, one looks at a time, and one job is added.
func TestRunners(t *testing.T) {
	p := newPlace(t)
	p.follow.Apply = Auto
	p.add()
	p.Commit("demo.yaml", document("3"))
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var mu sync.Mutex
	ended := 0
	for range 3 {
		r := p.runner()
		r.c.Ended = func(store.Duty) { mu.Lock(); defer mu.Unlock(); ended++ }
		running.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	testkit.Until(t, time.Minute, 20*time.Millisecond, func() error {
		if s := p.status(); s.State != Under {
			return fail.New(fail.NotReady, "it is %s: %s", s.State, s.Why)
		}
		mu.Lock()
		defer mu.Unlock()
		if ended == 0 {
			return fail.New(fail.NotReady, "no look has ended")
		}
		return nil
	})
	stop()
	running.Wait()
	if _, jobs := p.jobs(); len(jobs) != 1 || ended != 1 {
		t.Errorf("%d jobs, %d looks", len(jobs), ended)
	}
	d := testkit.Value(p.store.Duties(t.Context(), "demo"))(t)
	if len(d) != 1 || d[0].Kind != Duty || d[0].Outcome != store.DutyDone || d[0].Due.Sub(d[0].Ended) != 10*time.Second {
		t.Errorf("%+v", d)
	}
	testkit.Must(t, p.follows.Remove(t.Context(), "demo"))
	testkit.Fails(t, p.follows.Remove(t.Context(), "demo"), fail.NotFound, "follows no repository")
	testkit.Must(t, p.runner().round(t.Context(), &running))
	running.Wait()
	if d := testkit.Value(p.store.Duties(t.Context(), "demo"))(t); len(d) != 0 {
		t.Errorf("%+v", d)
	}
	if left := testkit.Value(p.store.ServerSecrets().Names(t.Context()))(t); slices.ContainsFunc(left, func(n string) bool { return strings.HasPrefix(n, "follow") }) {
		t.Errorf("%v", left)
	}
}

// TestNewCluster: a cluster that the store does not know is planned with the ID that it will get.
func TestNewCluster(t *testing.T) {
	p := newPlace(t)
	c := testkit.Value(p.store.Cluster(t.Context(), "demo"))(t)
	testkit.Must(t, p.store.DeleteCluster(t.Context(), c.ID))
	p.add()
	if s := p.expect(Waits); s.Review.Asked.ClusterID == "" {
		t.Errorf("%+v", s.Review.Asked)
	}
}

// TestSettings: settings that no server could follow are refused, and a second follow of a cluster too.
func TestSettings(t *testing.T) {
	p := newPlace(t)
	good := p.follow
	testkit.Must(t, p.follows.Add(t.Context(), good, false))
	other := good
	other.Path = "other.yaml"
	testkit.Fails(t, p.follows.Add(t.Context(), other, false), fail.Conflict, "follows a repository already", "--replace")
	for _, change := range []func(f *Follow){
		func(f *Follow) { f.Cluster = "" }, func(f *Follow) { f.Cluster = "../x" }, func(f *Follow) { f.Apply = "sometimes" }, func(f *Follow) { f.Every = "1s" },
		func(f *Follow) { f.Every = "99h" }, func(f *Follow) { f.Path = "../x" }, func(f *Follow) { f.Branch = "" },
	} {
		f := good
		change(&f)
		testkit.Fails(t, p.follows.Add(t.Context(), f, true), fail.Invalid)
	}
	all := testkit.Value(p.follows.List(t.Context(), func(string) bool { return true }))(t)
	if len(all) != 1 || all[0].Path != "demo.yaml" || all[0].Status.State != New {
		t.Errorf("%+v", all)
	}
	if all := testkit.Value(p.follows.List(t.Context(), func(string) bool { return false }))(t); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// TestInnerAddresses: a repository's host that resolves to the server itself, or to a cloud's metadata service, is not asked.
func TestInnerAddresses(t *testing.T) {
	p := newPlace(t)
	p.rules.Clusters = nil
	p.add()
	r := p.runner()
	for _, ip := range []string{"127.0.0.1", "169.254.169.254", "::1", "fe80::1", "100.100.100.200"} {
		r.c.Resolve = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr(ip)}, nil
		}
		f := testkit.Value(p.follows.Get(t.Context(), "demo"))(t)
		_, err := r.look(t.Context(), &store.Duty{}, f)
		testkit.Fails(t, err, fail.Refused, "the server's policy", "endpoints")
	}
	if n := p.site.Requests.Load(); n != 0 {
		t.Errorf("%d requests reached it", n)
	}
}
