package storetest

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/health"
	"github.com/naupegos/naupegos/internal/testkit"
)

// healthOfClusters keeps what was last seen of each cluster; one server looks at a time.
func healthOfClusters(t *testing.T, at Opener, _ Database) {
	near, far := at(""), at("far")
	c, ctx := newCluster(t, near, "demo"), t.Context()
	h := near.Health()
	take := func(from health.Store, who string, want bool) {
		t.Helper()
		if got := testkit.Value(from.Take(ctx, c.ID, who, time.Minute))(t); got != want {
			t.Errorf("%s takes the look: %t, want %t", who, got, want)
		}
	}
	if r := testkit.Value(h.Get(ctx, c.ID))(t); r != nil {
		t.Errorf("before a look there is %+v", r)
	}
	take(h, "a", true)
	take(h, "a", false) // it looks already: a cluster that hangs must not take the other places of its watcher
	take(far.Health(), "b", false)
	testkit.Fails(t, far.Health().Put(ctx, "b", health.Record{ClusterID: c.ID, State: "healthy"}, 0), fail.Conflict, "another server")
	testkit.Must(t, h.Put(ctx, "a", health.Record{ClusterID: c.ID, State: "healthy", Summary: []byte(`{"a":1}`), Report: []byte(`{"b":2}`)}, time.Hour))
	take(far.Health(), "b", false) // it is not due
	testkit.Must(t, h.Hurry(ctx, c.ID))
	take(far.Health(), "b", true)
	testkit.Must(t, far.Health().Put(ctx, "b", health.Record{ClusterID: c.ID, State: "unknown", Cause: "no answer"}, 0))
	r := testkit.Value(h.Get(ctx, c.ID))(t)
	if r.State != "unknown" || r.Cause != "no answer" || string(r.Report) != `{"b":2}` || string(r.Summary) != `{"a":1}` || r.Answered.IsZero() || r.Answered.After(r.Looked) {
		t.Errorf("a look without an answer leaves %+v", r)
	}
	if all := testkit.Value(h.All(ctx))(t); len(all) != 1 || all[c.ID].State != "unknown" || all[c.ID].Report != nil {
		t.Errorf("the list is %+v", all)
	}
	take(h, "a", true)
	testkit.Must(t, near.DeleteCluster(ctx, c.ID))
	testkit.Fails(t, h.Put(ctx, "a", health.Record{ClusterID: c.ID, State: "healthy"}, 0), fail.Conflict)
	take(h, "a", false)
	if all := testkit.Value(h.All(ctx))(t); len(all) != 0 {
		t.Errorf("a cluster that is gone has %+v", all)
	}
}
