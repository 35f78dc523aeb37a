package work

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

const document = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  provider: {local: {}}
  workers: [{name: a, replicas: 2}]
`

// site is a store with a cluster without machines, and a board.
type site struct {
	at    store.Location
	store store.Store
	board *Board
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{at: store.Location{Dir: t.TempDir()}}
	testkit.Must(t, os.WriteFile(filepath.Join(s.at.Dir, "agent"), []byte("#!/bin/false\n"), 0o755)) // no job runs it
	s.store = testkit.Value(s.open(t.Context()))(t)
	t.Cleanup(func() { testkit.Must(t, s.store.Close()) })
	testkit.Value(s.store.CreateCluster(t.Context(), store.Cluster{Name: "demo", Provider: "local", Document: []byte(document)}))(t)
	s.board = s.newBoard()
	return s
}

func (s *site) open(ctx context.Context) (store.Store, error) { return store.Open(ctx, s.at) }

func (s *site) newBoard() *Board {
	return New(Config{Store: s.store, Open: s.open, Log: slog.New(slog.DiscardHandler), Version: "test", Drain: 5 * time.Second,
		Here: "127.0.0.1", Reached: func() ([]string, error) { return []string{"127.0.0.1"}, nil },
		Options: func(a operate.Asked, n Need) operate.Options {
			o := operate.Options{Look: n.Look, ReadOnly: !n.CarryOut, Agent: func() (string, error) { return filepath.Join(s.at.Dir, "agent"), nil }}
			if n.CarryOut {
				o.Verb = a.Verb
			}
			return o
		}})
}

// plan returns the digest and the plan of a destroy.
func (s *site) plan(t *testing.T) (operate.Asked, string, []byte) {
	t.Helper()
	asked := operate.Asked{Verb: operate.Destroy, Cluster: "demo"}
	b := testkit.Value(operate.Begin(t.Context(), testkit.Value(s.open(t.Context()))(t), asked, s.board.c.Options(asked, Need{})))(t)
	defer b.Close()
	return asked, testkit.Value(b.Digest())(t), testkit.Value(json.Marshal(show.JSON(b.First.Plan)))(t)
}

// run runs a board until a job has ended.
func (s *site) run(t *testing.T, id string) (*store.Job, Result) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.board.Run(ctx) }()
	var j *store.Job
	testkit.Until(t, time.Minute, 20*time.Millisecond, func() (err error) {
		if j, err = s.store.Job(t.Context(), id); err == nil && j.State != store.JobEnded {
			err = fail.New(fail.NotReady, "it is %s", j.State)
		}
		return err
	})
	stop()
	testkit.Must(t, <-done)
	var r Result
	testkit.Must(t, json.Unmarshal(j.Result, &r))
	return j, r
}

// TestJob: the agreed plan is executed, with output, and recorded in the journal.
func TestJob(t *testing.T) {
	s := newSite(t)
	asked, digest, _ := s.plan(t)
	j := testkit.Value(s.board.Add(t.Context(), "ann", "demo", Order{Asked: asked, Digest: digest}))(t)
	j, r := s.run(t, j.ID)
	if r.Err() != nil || !r.Changed {
		t.Fatalf("%+v", r)
	}
	told := ""
	for _, l := range testkit.Value(s.store.JobLines(t.Context(), j.ID, 0, 1000))(t) {
		told += l.Line + "\n"
	}
	for _, want := range []string{`"event":"plan"`, `"event":"begin"`, `"state":"succeeded"`, `"event":"end"`} {
		if !strings.Contains(told, want) {
			t.Errorf("it did not tell %s:\n%s", want, told)
		}
	}
	runs := testkit.Value(s.store.Runs(t.Context(), "demo", 1))(t)
	if len(runs) != 1 || runs[0].Meta["job"] != j.ID || runs[0].Meta["by"] != "ann" {
		t.Errorf("the journal has %+v", runs)
	}
	_, err := s.store.Cluster(t.Context(), "demo")
	testkit.Fails(t, err, fail.NotFound)
}

// TestAnotherPlan: a plan that differs from the shown one is not executed.
func TestAnotherPlan(t *testing.T) {
	s := newSite(t)
	asked, digest, _ := s.plan(t)
	asked.KeepVolumes = true
	for name, d := range map[string]string{"another digest": "sha256:0", "the digest of another store": strings.Replace(digest, "a", "b", 1)} {
		j := testkit.Value(s.board.Add(t.Context(), "ann", "demo", Order{Asked: asked, Digest: d}))(t)
		if _, r := s.run(t, j.ID); fail.KindOf(r.Err()) != fail.Conflict || !strings.Contains(r.Error, "nothing was done") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	testkit.Value(s.store.Cluster(t.Context(), "demo"))(t)
}

// TestServerVanishes: another server continues the agreed plan, whether the first one vanished before it stored the plan or after, or after it removed
// the cluster.
func TestServerVanishes(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, s *site, j *store.Job, plan []byte){
		"before it had planned": func(*testing.T, *site, *store.Job, []byte) {},
		"after it had planned": func(t *testing.T, s *site, j *store.Job, plan []byte) {
			testkit.Must(t, s.store.AgreeJob(t.Context(), j, plan))
		},
		"after the last step": func(t *testing.T, s *site, j *store.Job, plan []byte) {
			testkit.Must(t, s.store.AgreeJob(t.Context(), j, plan))
			testkit.Must(t, s.store.DeleteCluster(t.Context(), testkit.Value(s.store.Cluster(t.Context(), "demo"))(t).ID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			asked, digest, plan := s.plan(t)
			j := testkit.Value(s.board.Add(t.Context(), "ann", "demo", Order{Asked: asked, Digest: digest}))(t)
			lost := testkit.Value(s.store.ClaimJob(t.Context(), time.Millisecond))(t) // by a server that vanishes
			prepare(t, s, lost, plan)
			j, r := s.run(t, j.ID)
			if r.Err() != nil || !r.Changed || j.Generation < 2 {
				t.Errorf("%+v: %+v", j, r)
			}
			testkit.Fails(t, s.store.EndJob(t.Context(), lost, []byte("{}")), fail.Conflict, "another server")
		})
	}
}

// TestMoreThanWasAgreed: after a server vanished, work beyond the agreed plan requires a new agreement.
func TestMoreThanWasAgreed(t *testing.T) {
	s := newSite(t)
	asked, digest, _ := s.plan(t)
	j := testkit.Value(s.board.Add(t.Context(), "ann", "demo", Order{Asked: asked, Digest: digest}))(t)
	lost := testkit.Value(s.store.ClaimJob(t.Context(), time.Millisecond))(t)
	testkit.Must(t, s.store.AgreeJob(t.Context(), lost, []byte(`{"verb":"destroy","cluster":"demo","steps":[]}`)))
	if _, r := s.run(t, j.ID); !r.More || fail.KindOf(r.Err()) != fail.Interrupted {
		t.Errorf("%+v", r)
	}
	testkit.Value(s.store.Cluster(t.Context(), "demo"))(t)
}

// TestStoppedBeforeItBegan: a job that is stopped before it begins does nothing.
func TestStoppedBeforeItBegan(t *testing.T) {
	s := newSite(t)
	asked, digest, _ := s.plan(t)
	j := testkit.Value(s.board.Add(t.Context(), "ann", "demo", Order{Asked: asked, Digest: digest}))(t)
	testkit.Must(t, s.board.Stop(t.Context(), j.ID, store.StopHard))
	if _, r := s.run(t, j.ID); fail.KindOf(r.Err()) != fail.Interrupted {
		t.Errorf("%+v", r)
	}
	testkit.Value(s.store.Cluster(t.Context(), "demo"))(t)
}

// TestStoppedWhilePlanning: before the first step, a soft stop ends a job at once.
func TestStoppedWhilePlanning(t *testing.T) {
	s := newSite(t)
	asked, digest, _ := s.plan(t)
	j := testkit.Value(s.board.Add(t.Context(), "ann", "demo", Order{Asked: asked, Digest: digest}))(t)
	s.board.c.Open = func(ctx context.Context) (store.Store, error) {
		testkit.Must(t, s.board.Stop(ctx, j.ID, store.StopSoft))
		<-ctx.Done() // as while a bundle is made or a backup rehearsed
		return nil, fail.Wrap(fail.Unreachable, ctx.Err(), "open the store")
	}
	if _, r := s.run(t, j.ID); fail.KindOf(r.Err()) != fail.Interrupted || !strings.Contains(r.Error, "before a step was done") {
		t.Errorf("%+v", r)
	}
	testkit.Value(s.store.Cluster(t.Context(), "demo"))(t)
}

// TestReleasedByAServerThatVanished: a cluster that a vanished server has already released is gone, as agreed.
func TestReleasedByAServerThatVanished(t *testing.T) {
	s := newSite(t)
	j := testkit.Value(s.board.Add(t.Context(), "ann", "demo", Order{Asked: operate.Asked{Verb: operate.Release, Cluster: "demo"}, Digest: "sha256:0"}))(t)
	lost := testkit.Value(s.store.ClaimJob(t.Context(), time.Millisecond))(t)
	testkit.Must(t, s.store.AgreeJob(t.Context(), lost, []byte(`{"verb":"release","cluster":"demo","steps":[]}`)))
	testkit.Must(t, s.store.DeleteCluster(t.Context(), testkit.Value(s.store.Cluster(t.Context(), "demo"))(t).ID))
	if _, r := s.run(t, j.ID); r.Err() != nil || !r.Changed {
		t.Errorf("%+v", r)
	}
}

// TestJobThatPanics: a job that panics while it plans ends as failed, its store is closed, and the next job runs.
func TestJobThatPanics(t *testing.T) {
	s := newSite(t)
	asked, digest, _ := s.plan(t)
	options, opened, closed := s.board.c.Options, 0, 0
	s.board.c.Open = func(ctx context.Context) (store.Store, error) {
		st, err := s.open(ctx)
		opened++
		return &countsClose{st, &closed}, err
	}
	for name, broken := range map[string]func(a operate.Asked, n Need) operate.Options{
		"options": func(operate.Asked, Need) operate.Options { panic("options") },
		"agent": func(a operate.Asked, n Need) operate.Options {
			o := options(a, n)
			o.Agent = func() (string, error) { panic("agent") }
			return o
		},
		"nil map": func(a operate.Asked, n Need) operate.Options {
			o := options(a, n)
			o.Agent = func() (string, error) { var m map[string]int; m["x"] = 1; return "", nil } //nolint:staticcheck // the panic is the point
			return o
		},
	} {
		s.board.c.Options = broken
		j := testkit.Value(s.board.Add(t.Context(), "ann", "demo", Order{Asked: asked, Digest: digest}))(t)
		if _, r := s.run(t, j.ID); fail.KindOf(r.Err()) != fail.Internal || !strings.Contains(r.Error, "defect") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if opened != 2 || closed != opened {
		t.Errorf("%d stores were opened, %d closed", opened, closed)
	}
	s.board.c.Options = options
	j := testkit.Value(s.board.Add(t.Context(), "ann", "demo", Order{Asked: asked, Digest: digest}))(t)
	if _, r := s.run(t, j.ID); r.Err() != nil {
		t.Errorf("%+v", r)
	}
}

type countsClose struct {
	store.Store
	closed *int
}

// Close counts each store once: closing it again has no effect.
func (c *countsClose) Close() error {
	if c.closed != nil {
		*c.closed++
		c.closed = nil
	}
	return c.Store.Close()
}

// TestJobThatEndsServers: a job is not taken for ever by one server after another.
func TestJobThatEndsServers(t *testing.T) {
	for name, most := range map[string]int{"before the plan": mostPlannings, "with the plan": mostExecutions} {
		s := newSite(t)
		asked, digest, plan := s.plan(t)
		j := testkit.Value(s.board.Add(t.Context(), "ann", "demo", Order{Asked: asked, Digest: digest}))(t)
		for range most {
			lost := testkit.Value(s.store.ClaimJob(t.Context(), time.Nanosecond))(t)
			if most == mostExecutions {
				testkit.Must(t, s.store.AgreeJob(t.Context(), lost, plan))
			}
		}
		if _, r := s.run(t, j.ID); fail.KindOf(r.Err()) != fail.Refused || !strings.Contains(r.Error, "not taken again") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestReturnedJobIsNoFailure: a job that a stopping server returns to the queue has not ended, neither in the log nor for metrics.
func TestReturnedJobIsNoFailure(t *testing.T) {
	s := newSite(t)
	asked, digest, _ := s.plan(t)
	j := testkit.Value(s.board.Add(t.Context(), "ann", "demo", Order{Asked: asked, Digest: digest}))(t)
	var log bytes.Buffer
	s.board.c.Log = slog.New(slog.NewTextHandler(&log, nil))
	s.board.c.Ended = func(verb string, err error) { t.Errorf("%s counts as ended: %v", verb, err) }
	ctx, stop := context.WithCancel(t.Context())
	stop()
	s.board.carryOut(ctx, testkit.Value(s.store.ClaimJob(t.Context(), ttl))(t))
	if got := testkit.Value(s.store.Job(t.Context(), j.ID))(t); got.State != store.JobQueued {
		t.Errorf("the job is %s", got.State)
	}
	if text := log.String(); strings.Contains(text, "level=WARN") || strings.Contains(text, "job ended") || !strings.Contains(text, "job returned") {
		t.Error(text)
	}
	s.board.c.Ended = nil
	if _, r := s.run(t, j.ID); r.Err() != nil || !r.Changed {
		t.Errorf("it does not continue: %+v", r)
	}
}
