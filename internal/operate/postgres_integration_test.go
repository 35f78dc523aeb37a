//go:build integration

package operate

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/storetest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestPostgresGoneInMidRun: a run survives a short outage of the database; a long outage ends it with one clear error, and no further step begins.
func TestPostgresGoneInMidRun(t *testing.T) {
	server := storetest.StartPostgres(t)
	at := store.Location{Dir: t.TempDir(), URL: storetest.WithPassword(t, server.NewDatabase(t))}
	open := func() *Session {
		st := testkit.Value(store.Open(t.Context(), at))(t)
		rec, err := st.Cluster(t.Context(), "demo")
		if fail.KindOf(err) == fail.NotFound {
			rec, err = st.CreateCluster(t.Context(), store.Cluster{Name: "demo", Provider: "local", Document: []byte("kind: Cluster\n")})
		}
		testkit.Must(t, err)
		return &Session{Store: st, Record: rec, lease: testkit.Value(st.AcquireLease(t.Context(), rec.ID, "apply", store.LeaseOptions{}))(t)}
	}
	for name, back := range map[string]bool{"comes back": true, "stays away": false} {
		s := open()
		var log []string
		p := steps(&log, plan.Create, plan.Change)
		p.Steps[0].Run = func(context.Context, plan.Progress) error {
			server.Stop(t)
			if back {
				time.AfterFunc(time.Second, func() { server.Start(t) })
			}
			return nil
		}
		began := time.Now()
		err := s.CarryOut(t.Context(), p, Terms{Front: &desk{out: t.Output()}, Step: time.Minute})
		if back {
			if err != nil || len(log) != 1 {
				t.Errorf("%s: %v; done %v", name, err, log)
			}
			if r := testkit.Value(s.Store.Runs(t.Context(), "demo", 1))(t)[0]; r.Outcome != plan.OutcomeSucceeded || r.Steps[0].State != plan.Succeeded {
				t.Errorf("%s: the journal has %+v", name, r)
			}
			testkit.Must(t, s.Close())
			continue
		}
		if fail.KindOf(err) != fail.Unreachable || len(log) > 0 || !strings.Contains(err.Error(), "check that the PostgreSQL server runs") {
			t.Errorf("%s: %v; done %v", name, err, log)
		}
		if took := time.Since(began); took > 28*time.Second { // before the lease ends
			t.Errorf("%s: it ended after %s", name, took)
		}
		server.Start(t)
		testkit.Must(t, s.Close())
	}
}
