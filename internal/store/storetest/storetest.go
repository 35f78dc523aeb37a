// Package storetest holds what every Store promises, as tests: run on each database that a store can be on. It knows the contract
// only, nothing of a database.
package storetest

import (
	"testing"

	"github.com/naupegos/naupegos/internal/store"
)

// Opener opens one store from a machine of some name; empty: from this host.
type Opener func(machine string) store.Store

// Database makes stores of one kind.
type Database struct {
	// New makes a new, empty store. All its openers have the same identity.
	New func(t *testing.T) Opener
	// HoldUp ends a lease's heartbeats, as where its process is suspended.
	HoldUp func(store.Lease)
	// SQL runs a statement on a store's database, as a writer without the identity.
	SQL func(t testing.TB, s store.Store, query string, args ...any)
}

// Run runs the contract's tests.
func Run(t *testing.T, d Database) {
	for name, test := range map[string]func(*testing.T, Opener, Database){
		"clusters": clusters, "facts": facts, "next ID": nextID, "secrets": secrets, "identity": identity, "secret made once": putIfAbsentHasOneWinner,
		"journal": journalTellsWhatHappened, "journal, newest first": runsNewestFirst, "journal, unknown cluster": journalRefusesWhatItDoesNotKnow,
		"journal, what machines say": journalKeepsWhatMachinesSay, "journal, bounded": journalKeepsABoundedNumber,
		"run of a far process": runOfFarProcess, "lease": leaseIsExclusiveAndRenewed, "lease of another host": leaseOfAnotherHostEndsByExpiry,
		"race for the lease": manyRaceForTheLease, "fence": nothingIsWrittenAfterTakeover, "fence, while writing": takeoverUnderWay,
		"forged rows": forgedRows, "forged jobs": forgedJobEnds, "rows from before MACs": unmarkedStore, "server secrets": serverSecrets, "tokens": tokens, "sessions": sessions, "audit": audit, "jobs": jobs, "ended jobs": endedJobs, "race for jobs": manyRaceForJobs,
		"machines": machines, "machines, found": machinesAreFound, "reports": reports, "race for seats": seatsAreGivenOnce, "places": placesAreBounded,
		"machines, many at once": manyChangeAtOnce, "machines that wait": waitingMachinesShare, "machines that wait, bounded": waitingMachinesMakeRoom, "lock tokens": lockTokensAreKept,
		"one lease": oneLeaseForEveryDisruption, "servers": servers, "health": healthOfClusters, "duties": duties, "race for duties": manyRaceForADuty,
	} {
		t.Run(name, func(t *testing.T) { test(t, d.New(t), d) })
	}
}

func newCluster(t *testing.T, s store.Store, name string) *store.Cluster {
	t.Helper()
	c, err := s.CreateCluster(t.Context(), store.Cluster{Name: name, Provider: "local", Document: []byte("kind: Cluster\n"), Facts: store.Facts{{Kind: "vip"}: "10.0.0.10"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
