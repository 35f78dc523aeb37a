package work

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// attended returns a site with a document that requests renewals of certificates and checks for drift.
func attended(t *testing.T) (*site, *store.Cluster) {
	t.Helper()
	s := newSite(t)
	c := testkit.Value(s.store.Cluster(t.Context(), "demo"))(t)
	c.Document = []byte(document + "  unattended: {renew: 1h, drift: 1h}\n")
	testkit.Must(t, s.store.SaveCluster(t.Context(), c))
	return s, c
}

// attend runs servers until check succeeds.
func (s *site) attend(t *testing.T, servers int, check func() error) (told []store.Duty) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range servers {
		b := s.newBoard()
		b.c.Tick = 10 * time.Millisecond
		b.c.Attended = func(d store.Duty) { mu.Lock(); defer mu.Unlock(); told = append(told, d) }
		for _, run := range []func(context.Context) error{b.Attend, b.Run} {
			wg.Go(func() {
				if err := run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
	}
	testkit.Until(t, 2*time.Minute, 20*time.Millisecond, check)
	stop()
	wg.Wait()
	return told
}

// duty returns a duty once it has ended.
func (s *site) duty(ctx context.Context, kind string) (*store.Duty, error) {
	all, err := s.store.Duties(ctx, "demo")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(d store.Duty) bool { return d.Kind == kind && d.Outcome != "" && d.Holder == "" })
	if i < 0 {
		return nil, fail.New(fail.NotReady, "%+v", all)
	}
	return &all[i], nil
}

// TestUnattended: one of three servers performs a due task, with one job, which the audit records; a failure is reported, and tried again after a pause; a
// task that the document no longer requests is dropped.
func TestUnattended(t *testing.T) {
	s, c := attended(t)
	long := time.Now().Add(-300 * 24 * time.Hour)
	k := pki.Open(s.store.Secrets(c.ID), pki.Options{Now: func() time.Time { return long }})
	testkit.Value(k.Leaf(t.Context(), pki.LeafSpec{Name: "demo-cp-1/apiserver", Authority: pki.KubernetesCA, CommonName: "kube-apiserver", Server: true}))(t)
	var renew, drift *store.Duty
	told := s.attend(t, 3, func() (err error) {
		if renew, err = s.duty(t.Context(), operate.Renew); err == nil {
			drift, err = s.duty(t.Context(), Drift)
		}
		return err
	})
	// The cluster has no machines: apply would do more than renew, so renew refuses.
	if renew.Outcome != store.DutyFailed || renew.Failures != 1 || renew.Message == "" || !renew.Succeeded.IsZero() {
		t.Errorf("renew: %+v", renew)
	}
	if in := renew.Due.Sub(renew.Ended); in < 50*time.Second || in > 70*time.Second {
		t.Errorf("a failed task is retried after %s", in)
	}
	jobs := testkit.Value(s.store.Jobs(t.Context(), "demo", 0))(t)
	if len(jobs) != 1 || jobs[0].ID != renew.Job || jobs[0].Verb != operate.Renew || jobs[0].Who != Unattended || jobs[0].State != store.JobEnded {
		t.Errorf("the jobs are %+v", jobs)
	}
	log := testkit.Value(s.store.Audit(t.Context(), store.AuditQuery{Who: Unattended, Cluster: "demo"}))(t)
	if !slices.ContainsFunc(log, func(e store.AuditEntry) bool {
		return e.Action == "unattended renew" && strings.HasPrefix(e.Outcome, "failed: ")
	}) {
		t.Errorf("the audit has %+v", log)
	}
	if drift.Outcome != store.DutyDone || !strings.Contains(drift.Message, "apply would do ") || drift.Job != "" || drift.Due.Sub(drift.Ended) != time.Hour {
		t.Errorf("drift: %+v", drift)
	}
	for _, kind := range []string{operate.Renew, Drift} {
		n := 0
		for _, d := range told {
			if d.Kind == kind {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s was done %d times: %+v", kind, n, told)
		}
	}

	c = testkit.Value(s.store.Cluster(t.Context(), "demo"))(t)
	c.Document = []byte(document)
	testkit.Must(t, s.store.SaveCluster(t.Context(), c))
	s.attend(t, 1, func() error {
		if all, err := s.store.Duties(t.Context(), ""); err != nil || len(all) > 0 {
			return fail.New(fail.NotReady, "%+v, %v", all, err)
		}
		return nil
	})
}

// TestNothingDue: if there is nothing to do, no job is added, and the next look comes after the interval.
func TestNothingDue(t *testing.T) {
	s, _ := attended(t)
	var renew *store.Duty
	s.attend(t, 1, func() (err error) {
		renew, err = s.duty(t.Context(), operate.Renew)
		return err
	})
	if in := renew.Due.Sub(renew.Ended); renew.Outcome != store.DutyNothing || renew.Job != "" || renew.Succeeded.IsZero() || in < 59*time.Minute {
		t.Errorf("renew: %+v", renew)
	}
	if jobs := testkit.Value(s.store.Jobs(t.Context(), "", 0))(t); len(jobs) != 0 {
		t.Errorf("the jobs are %+v", jobs)
	}
}

// TestPutOff: unattended tasks wait for an operator's job on the cluster, and this is no failure.
func TestPutOff(t *testing.T) {
	s, c := attended(t)
	long := time.Now().Add(-300 * 24 * time.Hour)
	k := pki.Open(s.store.Secrets(c.ID), pki.Options{Now: func() time.Time { return long }})
	testkit.Value(k.Leaf(t.Context(), pki.LeafSpec{Name: "demo-cp-1/apiserver", Authority: pki.KubernetesCA, CommonName: "kube-apiserver", Server: true}))(t)
	b := s.newBoard()
	testkit.Value(s.store.AddJob(t.Context(), store.Job{Cluster: "demo", Verb: operate.Apply, Request: []byte("{}"), Who: "ann"}))(t)
	d := testkit.Value(s.store.TakeDuty(t.Context(), "demo", operate.Renew, time.Hour))(t)
	b.discharge(t.Context(), d, time.Hour)
	d = testkit.Value(s.duty(t.Context(), operate.Renew))(t)
	if in := d.Due.Sub(d.Ended); d.Outcome != store.DutyPutOff || d.Failures != 0 || !strings.Contains(d.Message, "apply by ann") || in > 2*time.Minute {
		t.Errorf("%+v", d)
	}
	if log := testkit.Value(s.store.Audit(t.Context(), store.AuditQuery{}))(t); len(log) != 0 {
		t.Errorf("the audit has %+v", log)
	}
}

// TestRehearse: the newest backup is rehearsed unless it is proven, also during other work on the cluster; a missing backup and a failed rehearsal are
// failures, which are reported as usual.
func TestRehearse(t *testing.T) {
	s, c := attended(t)
	b := s.newBoard()
	testkit.Value(s.store.AddJob(t.Context(), store.Job{Cluster: "demo", Verb: operate.Apply, Request: []byte("{}"), Who: "ann"}))(t)
	lease := testkit.Value(s.store.AcquireLease(t.Context(), c.ID, operate.Apply, store.LeaseOptions{}))(t)
	defer func() { testkit.Must(t, lease.Release(context.WithoutCancel(t.Context()))) }()
	rehearse := func() *store.Duty {
		d := testkit.Value(s.store.TakeDuty(t.Context(), "demo", operate.Rehearse, time.Hour))(t)
		b.discharge(t.Context(), d, time.Hour)
		d = testkit.Value(s.duty(t.Context(), operate.Rehearse))(t)
		again := *d
		testkit.Must(t, s.store.EndDuty(t.Context(), &again, -time.Hour)) // due again
		return d
	}
	if d := rehearse(); d.Outcome != store.DutyFailed || d.Failures != 1 || !strings.Contains(d.Message, "there is no backup of cluster demo") {
		t.Errorf("without a backup: %+v", d)
	}
	const id = "20261123T211500Z-3f9a"
	dir := filepath.Join(s.at.Dir, "backups", "demo", id)
	testkit.Must(t, os.MkdirAll(dir, 0o700))
	write := func(name, text string) { testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	write("manifest.json", `{"format": 1, "id": "`+id+`", "cluster": "demo", "clusterID": "`+c.ID+`", "createdAt": "2026-11-23T21:15:00Z", "kubernetes": "v1.2.3", "bytes": 1, "sha256": "beef"}`)
	if d := rehearse(); d.Outcome != store.DutyFailed || d.Failures != 2 || !strings.Contains(d.Message, "v1.2.3, which this naupegos does not know") {
		t.Errorf("with one that can't be proven: %+v", d)
	}
	runs := testkit.Value(s.store.Runs(t.Context(), "demo", 0))(t)
	if len(runs) != 1 || runs[0].Verb != operate.Rehearse || runs[0].Meta["by"] != Unattended || runs[0].Outcome != plan.OutcomeFailed {
		t.Errorf("the journal has %+v", runs)
	}
	log := testkit.Value(s.store.Audit(t.Context(), store.AuditQuery{Who: Unattended, Cluster: "demo"}))(t)
	if len(log) != 2 || log[0].Action != "unattended backup rehearse" || !strings.HasPrefix(log[0].Outcome, "failed: ") {
		t.Errorf("the audit has %+v", log)
	}
	write("proof.json", `{"id": "`+id+`", "sha256": "beef", "at": "2026-11-24T03:00:00Z", "by": "dev"}`)
	if d := rehearse(); d.Outcome != store.DutyNothing || d.Failures != 0 || d.Succeeded.IsZero() {
		t.Errorf("with one that is proven: %+v", d)
	}
	if runs := testkit.Value(s.store.Runs(t.Context(), "demo", 0))(t); len(runs) != 1 {
		t.Errorf("a proven backup was rehearsed again: %+v", runs)
	}
}

// TestOneRehearsal: during a rehearsal this server begins no other one, but other duties.
func TestOneRehearsal(t *testing.T) {
	s := newSite(t)
	c := testkit.Value(s.store.Cluster(t.Context(), "demo"))(t)
	c.Document = []byte(document + "  unattended: {renew: 1h, rehearse: 1h}\n")
	testkit.Must(t, s.store.SaveCluster(t.Context(), c))
	b := s.newBoard()
	attend := func() {
		testkit.Must(t, b.attend(t.Context()))
		b.attending.Wait()
	}
	other := duty{"harbour", operate.Rehearse}
	b.doing[other] = true
	attend()
	testkit.Value(s.duty(t.Context(), operate.Renew))(t)
	if all := testkit.Value(s.store.Duties(t.Context(), "demo"))(t); len(all) != 1 {
		t.Errorf("beside another rehearsal: %+v", all)
	}
	b.leave(other)
	attend()
	testkit.Value(s.duty(t.Context(), operate.Rehearse))(t)
	if len(b.doing) != 0 {
		t.Errorf("after it there is no room for %v", b.doing)
	}
}

// TestRoom: the number of duties at once is limited, and each is performed once; lasting duties do not count.
func TestRoom(t *testing.T) {
	b := New(Config{})
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		if !b.enter(duty{name, operate.Autoscale}) {
			t.Errorf("the autoscaler of cluster %s finds no room", name)
		}
	}
	if b.enter(duty{"a", operate.Autoscale}) {
		t.Error("an autoscaler is answered twice")
	}
	for i := range mostDone {
		if !b.enter(duty{string(rune('a' + i)), Drift}) {
			t.Errorf("there is room for %d duties", i)
		}
	}
	if b.enter(duty{"f", Drift}) {
		t.Error("there is room for too many")
	}
	if !b.enter(duty{"g", operate.Autoscale}) {
		t.Error("where all places are taken, an autoscaler is not answered")
	}
	b.leave(duty{"a", Drift})
	if b.enter(duty{"b", Drift}) {
		t.Error("a duty is done twice")
	}
	if !b.enter(duty{"f", Drift}) {
		t.Error("a place that was left stays taken")
	}
}

// TestPanic: a panic in a look is a failure with a pause, and does not end the server.
func TestPanic(t *testing.T) {
	s, _ := attended(t)
	b := s.newBoard()
	b.c.Options = func(operate.Asked, Need) operate.Options { panic("a defect") }
	for failures := 1; failures <= 2; failures++ {
		d := testkit.Value(s.store.TakeDuty(t.Context(), "demo", operate.Renew, time.Hour))(t)
		b.discharge(t.Context(), d, time.Hour)
		d = testkit.Value(s.duty(t.Context(), operate.Renew))(t)
		if d.Outcome != store.DutyFailed || d.Failures != failures || !strings.Contains(d.Message, "defect") || d.Due.Sub(d.Ended) != kinds[operate.Renew].pause(time.Hour, failures) {
			t.Errorf("%+v", d)
		}
		testkit.Must(t, s.store.EndDuty(t.Context(), d, -time.Hour)) // due again
	}
}

// TestUnreadable: the duties of a cluster with an unreadable document keep their records; the duties of a removed cluster do not.
func TestUnreadable(t *testing.T) {
	s, _ := attended(t)
	c := testkit.Value(s.store.Cluster(t.Context(), "demo"))(t)
	c.Document = []byte("kind: Cluster\nspec: {newer: true}\n")
	testkit.Must(t, s.store.SaveCluster(t.Context(), c))
	for _, name := range []string{"demo", "gone"} {
		testkit.Value(s.store.TakeDuty(t.Context(), name, Drift, time.Hour))(t)
	}
	testkit.Must(t, s.board.attend(t.Context()))
	if all := testkit.Value(s.store.Duties(t.Context(), ""))(t); len(all) != 1 || all[0].Cluster != "demo" {
		t.Errorf("%+v", all)
	}
}

// TestPause: the pause grows up to its limit.
func TestPause(t *testing.T) {
	for _, c := range []struct {
		kind     string
		every    time.Duration
		failures int
		want     time.Duration
	}{
		{Drift, time.Minute, 1, time.Minute}, {Drift, time.Minute, 2, 2 * time.Minute}, {Drift, time.Minute, 4, 8 * time.Minute}, {Drift, time.Minute, 7, time.Hour},
		{Drift, time.Minute, 100, time.Hour}, {operate.Renew, 24 * time.Hour, 100, 1024 * time.Minute},
		{operate.Autoscale, time.Millisecond, 1, 5 * time.Second}, {operate.Autoscale, time.Millisecond, 3, 20 * time.Second}, {operate.Autoscale, time.Millisecond, 100, 5 * time.Minute},
	} {
		if got := kinds[c.kind].pause(c.every, c.failures); got != c.want {
			t.Errorf("%s every %s waits %s after %d failures", c.kind, c.every, got, c.failures)
		}
	}
}

// TestKinds: every task that a document can request is a kind of duty.
func TestKinds(t *testing.T) {
	doc := &v1alpha1.Cluster{}
	if all := duties(doc); len(all) != 0 {
		t.Errorf("a document that names none has %v", all)
	}
	every := v1alpha1.Duration{Duration: 10 * time.Second}
	doc.Spec.Unattended = v1alpha1.Unattended{Drift: every, Renew: every, Repair: every, Rehearse: every, Autoscale: true}
	if all := duties(doc); len(all) != len(kinds) || all[operate.Repair] != 10*time.Second || all[operate.Autoscale] > time.Second {
		t.Errorf("a document that names all has %v", all)
	}
}
