package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/show"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// desk is a Front that writes to out and answers every question with the error no.
type desk struct {
	out   io.Writer
	no    error
	asked []string
}

func (d *desk) Show(p *plan.Plan, _ string) error { return show.WriteText(d.out, p, show.Look{}) }
func (d *desk) Agree(question string) error {
	d.asked = append(d.asked, question)
	return d.no
}
func (d *desk) Observer() plan.Observer { return show.NewObserver(d.out, show.ObservePlain) }

// leased returns a session with a lease on a cluster in a new store.
func leased(t *testing.T) *Session {
	t.Helper()
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
	rec := testkit.Value(st.CreateCluster(t.Context(), store.Cluster{Name: "demo", Provider: "local", Document: []byte("kind: Cluster\n")}))(t)
	lease := testkit.Value(st.AcquireLease(t.Context(), rec.ID, "apply", store.LeaseOptions{}))(t)
	s := &Session{Store: st, Record: rec, lease: lease}
	t.Cleanup(func() { testkit.Must(t, s.Close()) })
	return s
}

// TestIDOfAnotherCluster: a request can't open the session of its own cluster with the ID of another one, or with a text that is no ID.
func TestIDOfAnotherCluster(t *testing.T) {
	doc := &v1alpha1.Cluster{}
	doc.Metadata.Name = "mine"
	for _, id := range []string{"prod-7b8aed07", "mine", "mine-", "mine-7B8AED07", "mine-7b8aed071", "mine-x-7b8aed07", "../../../etc/x\n", "mine-7b8aed07\n"} {
		st := testkit.Value(store.Open(t.Context(), store.Location{Dir: t.TempDir()}))(t)
		_, err := OpenDocument(t.Context(), st, doc, Options{NewID: id, Revives: len(id)%2 == 0})
		testkit.Fails(t, err, fail.Invalid, "no ID of the cluster mine", "plan again")
	}
}

// TestIDOfADestroyedCluster: a new or imported cluster can't get the ID of a destroyed one of its name, neither when it is planned nor when it is
// committed. A restored cluster gets its ID back.
func TestIDOfADestroyedCluster(t *testing.T) {
	at := store.Location{Dir: t.TempDir()}
	open := func() store.Store { return testkit.Value(store.Open(t.Context(), at))(t) }
	doc := testkit.Value(validation.ParseFilledIn("x", []byte(`apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: mine}
spec:
  provider: {metal: {}}
  endpoint: {kind: direct}
  controlPlane: {replicas: 1, schedulable: true}
`)))(t)
	st := open()
	defer st.Close()
	former := testkit.Value(st.CreateCluster(t.Context(), store.Cluster{Name: "mine", Provider: "metal"}))(t).ID
	testkit.Must(t, st.DeleteCluster(t.Context(), former))
	begin := func(id string, revives bool, given *backups.Given) (*Session, error) {
		return OpenDocument(t.Context(), open(), doc, Options{NewID: id, Revives: revives, Given: given, ReadOnly: true, Agent: func() (string, error) { return "", nil }})
	}
	for i, given := range []*backups.Given{nil, {}} {
		_, err := begin(former, false, given)
		testkit.Fails(t, err, fail.Conflict, "belonged to a cluster that was destroyed", "plan again")

		next := fmt.Sprintf("mine-0000000%d", i)
		late := testkit.Value(begin(next, false, given))(t)
		testkit.Value(st.CreateCluster(t.Context(), store.Cluster{ID: next, Name: "mine"}))(t)
		testkit.Must(t, st.DeleteCluster(t.Context(), next))
		testkit.Fails(t, late.CloseWith(late.Commit(t.Context(), []byte("kind: Cluster\n"))), fail.Conflict, "belonged to a cluster that was destroyed")
	}
	back := testkit.Value(begin(former, true, &backups.Given{}))(t)
	testkit.Must(t, back.CloseWith(back.Commit(t.Context(), []byte("kind: Cluster\n"))))
	if got := testkit.Value(st.Cluster(t.Context(), "mine"))(t); got.ID != former {
		t.Errorf("it came back as %s", got.ID)
	}
}

// steps returns a plan of sequential steps.
func steps(log *[]string, actions ...plan.Action) *plan.Plan {
	p := &plan.Plan{Verb: "apply", Cluster: "demo"}
	for i, a := range actions {
		s := &plan.Step{ID: string(a) + "/" + string(rune('a'+i)), Action: a, Title: string(a), Subject: "demo"}
		s.Run = func(context.Context, plan.Progress) error { *log = append(*log, s.ID); return nil }
		if i > 0 {
			s.Needs = []string{p.Steps[i-1].ID}
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

// TestAgreement: nothing is committed or done before the user has seen the plan and agreed, unless Plain or Reviewed; the journal has every run.
func TestAgreement(t *testing.T) {
	s := leased(t)
	var log []string
	commit := func(context.Context) error { log = append(log, "commit"); return nil }
	d := &desk{out: t.Output(), no: fail.New(fail.Interrupted, "not confirmed")}
	err := s.CarryOut(t.Context(), steps(&log, plan.Create), Terms{Front: d, Question: "Really?", Commit: commit})
	if fail.KindOf(err) != fail.Interrupted || len(log) > 0 || !slices.Equal(d.asked, []string{"Really?"}) {
		t.Fatalf("declined: %v; asked %v, done %v", err, d.asked, log)
	}
	d.no = nil
	testkit.Must(t, s.CarryOut(t.Context(), steps(&log, plan.Create, plan.Change), Terms{Front: d, Commit: commit, Meta: map[string]string{"version": "v0"}}))
	if want := []string{"commit", "create/a", "change/b"}; !slices.Equal(log, want) {
		t.Errorf("done %v, want %v", log, want)
	}
	asked := len(d.asked)
	testkit.Must(t, s.CarryOut(t.Context(), steps(&log, plan.Change), Terms{Front: d, Plain: true}))
	testkit.Must(t, s.CarryOut(t.Context(), steps(&log, plan.Change), Terms{Front: d, Reviewed: true}))
	if len(d.asked) != asked {
		t.Errorf("asked again: %v", d.asked)
	}
	runs := testkit.Value(s.Store.Runs(t.Context(), "demo", 0))(t)
	if len(runs) != 3 || runs[2].Meta["version"] != "v0" || len(runs[2].Steps) != 2 || runs[2].Outcome != plan.OutcomeSucceeded {
		t.Errorf("the journal has %+v", runs)
	}
}

// overtaken takes the lease by another handle of the store, and releases it.
func overtaken(ctx context.Context, s *Session) error {
	other, err := store.Open(ctx, store.Location{Dir: s.Store.Dir()})
	if err != nil {
		return err
	}
	l, err := other.AcquireLease(ctx, s.Record.ID, "apply", store.LeaseOptions{})
	if err != nil {
		return errors.Join(err, other.Close())
	}
	return errors.Join(l.Release(ctx), other.Close())
}

// TestNothingIsTakenAwayWithoutTheLease: after a loss of the lease that no heartbeat has noticed yet, a Create step runs and a Destroy step does not.
func TestNothingIsTakenAwayWithoutTheLease(t *testing.T) {
	for _, action := range []plan.Action{plan.Create, plan.Destroy} {
		s := leased(t)
		var log []string
		p := steps(&log, plan.Wait, action)
		p.Steps[0].Run = func(ctx context.Context, _ plan.Progress) error {
			return errors.Join(s.lease.Release(ctx), overtaken(ctx, s))
		}
		err := s.CarryOut(t.Context(), p, Terms{Front: &desk{out: t.Output()}, Step: time.Minute})
		if action == plan.Create {
			testkit.Must(t, err) // the next heartbeat ends it
		} else if fail.KindOf(err) != fail.Conflict || len(log) > 0 {
			t.Errorf("%v; done: %v", err, log)
		}
	}
}
