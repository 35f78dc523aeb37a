package store

import (
	"testing"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestTitles: runs, leases and jobs record the action, its subject, the user and the evidence. Records of older versions show their verb as the
// title.
func TestTitles(t *testing.T) {
	ctx := t.Context()
	s := open(t, t.TempDir())
	c := testkit.Value(s.CreateCluster(ctx, Cluster{ID: "demo-0000000a", Name: "demo", Provider: "local"}))(t)
	lease := testkit.Value(s.AcquireLease(ctx, c.ID, "upgrade", LeaseOptions{Title: "upgrade --back", By: "ann (3f)"}))(t)
	if all := testkit.Value(s.Leases(ctx))(t); len(all) != 1 || all[0].Title != "upgrade --back" || all[0].By != "ann (3f)" {
		t.Errorf("the leases are %+v", all)
	}
	testkit.Must(t, lease.Release(ctx))

	j := s.Journal(c.ID)
	id := testkit.Value(j.Begin(ctx, &plan.Plan{Verb: "node remove", Title: "node remove a-1", Subject: "a-1", Cluster: "demo"}, map[string]string{plan.MetaBy: "ann (3f)"}))(t)
	testkit.Must(t, j.End(ctx, id, plan.OutcomeSucceeded, &plan.Evidence{Requests: 7, LongestMS: 3}))
	r := testkit.Value(s.Run(ctx, id))(t)
	if r.Title != "node remove a-1" || r.Subject != "a-1" || r.By != "ann (3f)" || r.Evidence == nil || r.Evidence.Requests != 7 {
		t.Errorf("the run is %+v", r)
	}
	id = testkit.Value(j.Begin(ctx, &plan.Plan{Verb: "apply", Cluster: "demo"}, nil))(t)
	testkit.Must(t, j.End(ctx, id, plan.OutcomeSucceeded, nil))
	if r := testkit.Value(s.Run(ctx, id))(t); r.Title != "apply" || r.By != r.Holder || r.Evidence != nil {
		t.Errorf("a run without a title is %+v", r)
	}
	job := testkit.Value(s.AddJob(ctx, Job{Cluster: "demo", Verb: "apply", Request: []byte("{}"), Who: "ann"}))(t)
	if got := testkit.Value(s.Job(ctx, job.ID))(t); got.Title != "apply" {
		t.Errorf("a job without a title is %+v", got)
	}
}
