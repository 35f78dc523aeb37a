package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

func nop(context.Context, plan.Progress) error { return nil }

// journalTellsWhatHappened executes a plan and reads the same back as the executor returned.
func journalTellsWhatHappened(t *testing.T, at Opener, _ Database) {
	s := at("")
	c := newCluster(t, s, "demo")
	tries := 0
	p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: []*plan.Step{
		{ID: "b", Action: plan.Create, Title: "make b", Subject: "cluster", Reason: "missing", Needs: []string{"a"}, Run: nop},
		{ID: "a", Action: plan.Change, Title: "change a", Subject: "cluster", Run: func(context.Context, plan.Progress) error {
			if tries++; tries < 3 {
				return fail.New(fail.NotReady, "attempt %d", tries)
			}
			return nil
		}},
		{ID: "c", Action: plan.Wait, Title: "wait for c", Subject: "cluster", Needs: []string{"b"}, Run: func(context.Context, plan.Progress) error {
			return errors.New("broken")
		}},
		{ID: "d", Action: plan.Create, Title: "make d", Subject: "cluster", Needs: []string{"c"}, Run: nop},
	}}
	res, err := plan.Execute(t.Context(), p, plan.Options{Journal: s.Journal(c.ID), RetryInterval: 1, Meta: map[string]string{"version": "1"}})
	if err == nil {
		t.Fatal("no error")
	}
	if err := s.DeleteCluster(t.Context(), c.ID); err != nil { // the journal stays
		t.Fatal(err)
	}
	got, err := s.Run(t.Context(), res.ID)
	if err != nil {
		t.Fatal(err)
	}
	want := res.RunRecord
	want.Title, want.By = want.Verb, got.Holder // of a run without a title, and without a user
	if want.Holder = got.Holder; !strings.HasSuffix(got.Holder, fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("the holder is %q", got.Holder)
	}
	near := cmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() < 50*time.Millisecond })
	if d := cmp.Diff(&want, got, near, cmp.Comparer(func(a, b []string) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); d != "" {
		t.Error(d)
	}
	if got.Outcome != plan.OutcomeFailed || len(got.Steps[1].Retries) != 2 || got.Steps[3].State != plan.Skipped {
		t.Errorf("%+v", got)
	}
	_, err = s.Run(t.Context(), "20200101-000000-000000")
	testkit.Fails(t, err, fail.NotFound, "naupegos history")
}

func runsNewestFirst(t *testing.T, at Opener, _ Database) {
	s := at("")
	var ids []string
	for i := range 5 {
		cluster := []string{"demo", "other"}[i%2]
		j := s.Journal(cluster + "-12345678")
		id, err := j.Begin(t.Context(), &plan.Plan{Verb: "apply", Cluster: cluster, Steps: []*plan.Step{{ID: "a"}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.End(t.Context(), id, plan.OutcomeSucceeded, nil); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	check := func(cluster string, limit int, want ...string) {
		t.Helper()
		runs, err := s.Runs(t.Context(), cluster, limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range runs {
			got = append(got, r.ID)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	check("", 0, ids[4], ids[3], ids[2], ids[1], ids[0])
	check("demo", 2, ids[4], ids[2])
	check("none", 2)
}

func journalRefusesWhatItDoesNotKnow(t *testing.T, at Opener, _ Database) {
	s := at("")
	j := s.Journal("demo-12345678")
	if err := j.Step(t.Context(), "no-run", "a", plan.Running, time.Now(), ""); err == nil {
		t.Error("a step of an unknown run was recorded")
	}
	testkit.Fails(t, j.End(t.Context(), "no-run", plan.OutcomeFailed, nil), fail.NotFound, "no-run")
}

// journalKeepsWhatMachinesSay: a machine's own words may be no text.
func journalKeepsWhatMachinesSay(t *testing.T, at Opener, _ Database) {
	s := at("")
	j := s.Journal("demo-12345678")
	id := testkit.Value(j.Begin(t.Context(), &plan.Plan{Cluster: "demo", Steps: []*plan.Step{{ID: "a"}}}, nil))(t)
	testkit.Must(t, j.Step(t.Context(), id, "a", plan.Failed, time.Now(), "it said \x00\xff\xfe and ended"))
	if r := testkit.Value(s.Run(t.Context(), id))(t); !strings.HasPrefix(r.Steps[0].Err, "it said ") || !strings.HasSuffix(r.Steps[0].Err, " and ended") {
		t.Errorf("kept was %q", r.Steps[0].Err)
	}
}

// journalKeepsABoundedNumber begins more runs than are kept.
func journalKeepsABoundedNumber(t *testing.T, at Opener, _ Database) {
	s := at("")
	j := s.Journal("demo-12345678")
	var last string
	for range store.KeepRuns + 3 {
		var err error
		if last, err = j.Begin(t.Context(), &plan.Plan{Cluster: "demo", Steps: []*plan.Step{{ID: "a"}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := s.Runs(t.Context(), "demo", store.KeepRuns*2)
	if err != nil || len(runs) != store.KeepRuns || runs[0].ID != last {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

// runOfFarProcess judges, by the lease, a run whose process can't be seen.
func runOfFarProcess(t *testing.T, at Opener, _ Database) {
	far := at("far")
	near := at("")
	c := newCluster(t, near, "demo")
	l, err := far.AcquireLease(t.Context(), c.ID, "apply", store.LeaseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := far.Journal(c.ID).Begin(t.Context(), &plan.Plan{Verb: "apply", Cluster: "demo"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := near.Run(t.Context(), id); err != nil || r.Outcome != plan.OutcomeRunning {
		t.Errorf("%+v, %v", r, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := near.Run(t.Context(), id); err != nil || r.Outcome != plan.OutcomeGone {
		t.Errorf("%+v, %v", r, err)
	}
}
