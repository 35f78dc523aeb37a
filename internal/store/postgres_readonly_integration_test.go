//go:build integration

package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/health"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/store/storetest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestPostgresReadOnly: on a standby server, or as a user who may only read, every change is refused, so that a server answers 403 and clients keep their
// tokens; reading goes on.
func TestPostgresReadOnly(t *testing.T) {
	const end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'team';"
	for name, do := range map[string]string{
		"a standby":                    "ALTER DATABASE store1 SET default_transaction_read_only = on; " + end,
		"a user who only reads":        "REASSIGN OWNED BY team TO postgres; REVOKE ALL ON ALL TABLES IN SCHEMA public FROM team; GRANT SELECT ON ALL TABLES IN SCHEMA public TO team; GRANT USAGE ON SCHEMA public TO team; " + end,
		"a user with another password": "ALTER ROLE team PASSWORD 'changed'; " + end,
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			server := storetest.StartPostgres(t)
			s := team(t, server.NewDatabase(t))("near")
			c := cluster(t, s, "demo")
			testkit.Must(t, s.AddToken(ctx, store.Token{ID: "t1", Created: time.Now()}))
			testkit.Must(t, s.AddSession(ctx, store.Session{ID: "s1", Claims: []byte("{}"), Created: time.Now(), Expires: time.Now().Add(time.Hour)}))
			j := testkit.Value(s.AddJob(ctx, store.Job{Cluster: "demo", Verb: "apply"}))(t)
			server.SQL(t, "store1", do)
			for what, change := range map[string]func() error{
				"a token":      func() error { return s.AddToken(ctx, store.Token{ID: "t2", Created: time.Now()}) },
				"a revocation": func() error { return s.RevokeToken(ctx, "t1") },
				"a session": func() error {
					return s.AddSession(ctx, store.Session{ID: "s2", Claims: []byte("{}"), Expires: time.Now()})
				},
				"a sign-out":      func() error { return s.EndSession(ctx, "s1") },
				"the audit":       func() error { return s.Note(ctx, store.AuditEntry{At: time.Now(), Who: "ann"}) },
				"a job":           func() error { _, err := s.AddJob(ctx, store.Job{Cluster: "other", Verb: "apply"}); return err },
				"taking a job":    func() error { _, err := s.ClaimJob(ctx, time.Minute); return err },
				"stopping a job":  func() error { return s.StopJob(ctx, j.ID, store.StopHard) },
				"a cluster":       func() error { _, err := s.CreateCluster(ctx, store.Cluster{Name: "other"}); return err },
				"a document":      func() error { return s.SaveCluster(ctx, &store.Cluster{ID: c.ID, Name: "demo"}) },
				"a fact":          func() error { return s.SetFact(ctx, c.ID, store.Fact{Kind: "x"}, "y") },
				"forgetting":      func() error { return s.DeleteCluster(ctx, c.ID) },
				"a secret":        func() error { return s.Secrets(c.ID).Put(ctx, "a", []byte("x")) },
				"a server secret": func() error { return s.ServerSecrets().Put(ctx, "a", []byte("x")) },
				"a lease":         func() error { _, err := s.AcquireLease(ctx, c.ID, "apply", store.LeaseOptions{}); return err },
				"a run": func() error {
					_, err := s.Journal(c.ID).Begin(ctx, &plan.Plan{Verb: "apply", Cluster: "demo"}, nil)
					return err
				},
				"a beat":   func() error { return s.BeatServer(ctx, store.ServerInfo{ID: "a"}, time.Minute) },
				"a duty":   func() error { _, err := s.TakeDuty(ctx, "demo", "x", time.Minute); return err },
				"a look":   func() error { _, err := s.Health().Take(ctx, c.ID, "a", time.Minute); return err },
				"a record": func() error { return s.Health().Put(ctx, "a", health.Record{ClusterID: c.ID}, time.Hour) },
				"a machine": func() error {
					_, err := s.Metal().Change(ctx, "u", metal.How{Make: true}, func(*metal.Draft) error { return nil })
					return err
				},
			} {
				if strings.Contains(name, "password") && what != "a job" { // each is tried for a while
					continue
				}
				if err := change(); fail.KindOf(err) != fail.Refused {
					t.Errorf("%s: %s: %v", what, fail.KindOf(err), err)
				}
			}
			if strings.Contains(name, "password") {
				return
			}
			testkit.Value(s.Token(ctx, "t1"))(t)
			testkit.Value(s.Cluster(ctx, "demo"))(t)
			testkit.Value(s.Job(ctx, j.ID))(t)
		})
	}
}
