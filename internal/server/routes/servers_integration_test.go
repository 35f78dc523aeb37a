//go:build integration

package routes_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/routes/client"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/store/storetest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestTwoServersOneKilled: two hundred machines use two servers on one PostgreSQL database, and one server is killed.
func TestTwoServersOneKilled(t *testing.T) { shared(t, 200, 3, 3*time.Second) }

// TestTenThousandMachinesTwoServers does the same with ten thousand machines, each of which reports once a minute, for ten minutes.
func TestTenThousandMachinesTwoServers(t *testing.T) {
	testkit.OnlyFull(t, "TestTwoServersOneKilled does the same with two hundred machines")
	shared(t, 10_000, minutes(t), time.Minute)
}

// shared runs a crowd against two servers on one database. Both assign machines to two clusters at once, repeatedly. In the middle of the middle
// round one server is killed, and its clients turn to the other one. No seat, role or lock may be given twice, and no acknowledged report may be lost.
func shared(t *testing.T, n, rounds int, round time.Duration) {
	pg := storetest.StartPostgres(t)
	at := store.Location{Dir: t.TempDir(), URL: storetest.WithPassword(t, pg.NewDatabase(t))}
	st := testkit.Value(store.Open(t.Context(), at))(t)
	t.Cleanup(func() { testkit.Must(t, st.Close()) })
	a, b := spawn(t, at), spawn(t, at)
	c := newCrowd(t, st, n, a, b)
	c.enrol(t)
	for i := range rounds {
		var wg sync.WaitGroup
		for first := range 4 {
			wg.Go(func() { testkit.Must(t, c.give(first, fmt.Sprint("cluster-", first/2), 2+i)) })
		}
		c.round(t, i+1, round, func() {
			if i == rounds/2 {
				t.Log("one of the two servers is killed")
				testkit.Must(t, a.cmd.Process.Kill())
			}
		})
		wg.Wait()
		t.Logf("the server that stays has at most %s in memory", b.memory(t))
	}
	c.check(t)
	c.checkSeats(t, 1+rounds)
}

// give makes a server assign machines to a cluster: three for its control plane, and some workers.
func (c *crowd) give(first int, cluster string, workers int) error {
	body, err := json.Marshal(client.Scheduling{Wanted: registry.Wanted{Cluster: cluster, ControlPlane: registry.Pool{Replicas: 3}, Workers: []registry.Pool{{Name: "w", Replicas: workers}}}})
	if err != nil {
		return err
	}
	operator := c.client()
	again := func() error { return c.give(first+1, cluster, workers) } // both servers decided at once, and the database refused one
	return c.ask(operator, first, func(d *process) (string, string) { return d.HTTPS + "/api/v1/schedule", string(body) }, again, "Authorization", tokens[server.Operate])
}

// checkSeats checks the assignments: each pool has its last wanted size, no machine is in two pools, and no seat is given twice.
func (c *crowd) checkSeats(t *testing.T, workers int) {
	all, _, err := c.st.Metal().Find(t.Context(), metal.Query{})
	testkit.Must(t, err)
	seats, pools := map[metal.Claim]string{}, map[string]int{}
	for _, m := range all {
		if m.Claim.Cluster == "" {
			if len(m.Roles) > 0 {
				t.Errorf("the machine %s is free, and has the roles %v", m.UUID, m.Roles)
			}
			continue
		}
		if other, taken := seats[m.Claim]; taken {
			t.Errorf("%s and %s both have %+v", other, m.UUID, m.Claim)
		}
		seats[m.Claim] = m.UUID
		pools[m.Claim.Cluster+" "+m.Claim.Pool]++
		if control := m.Claim.Pool == registry.ControlPlanePool; control != slices.Contains(m.Roles, registry.RoleControlPlane) || control == slices.Contains(m.Roles, registry.RoleNode) {
			t.Errorf("the machine %s has %+v and the roles %v", m.UUID, m.Claim, m.Roles)
		}
	}
	for _, cluster := range []string{"cluster-0", "cluster-1"} {
		if pools[cluster+" "+registry.ControlPlanePool] != 3 || pools[cluster+" w"] != workers {
			t.Errorf("%s has %v, and wanted 3 and %d", cluster, pools, workers)
		}
	}
}
