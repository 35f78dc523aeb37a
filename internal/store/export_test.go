package store

import (
	"context"
	"database/sql"
	"testing"
	"time"
)

// SQL runs a statement as a writer of the database without the identity.
func SQL(t testing.TB, s Store, query string, args ...any) {
	t.Helper()
	if _, err := s.(*database).db.Exec(query, args...); err != nil {
		t.Fatal(err)
	}
}

// OpenAs opens a store like a process of the given machine; empty: of this one.
func OpenAs(ctx context.Context, at Location, machine string) (Store, error) {
	s, err := openWith(ctx, at, (*database).openOrMake)
	if err != nil {
		return nil, err
	}
	if machine != "" {
		s.self.Host, s.self.Boot = machine, "boot of "+machine
	}
	return s, nil
}

// HoldUp stops a lease's heartbeats.
func HoldUp(l Lease) {
	mine := l.(*lease)
	mine.cancel()
	<-mine.done
}

// SetPatience sets how long to wait for a database that is away.
func SetPatience(s Store, d time.Duration) { s.(*database).patience = d }

// IdentityFile is the name of the identity in a store's directory.
const IdentityFile = identityFile

// The variables that tell a process of this test binary its role.
const RoleEnv, DirEnv, URLEnv = roleEnv, dirEnv, urlEnv

// Fenced changes a cluster's provider, and calls meanwhile inside the transaction.
func Fenced(ctx context.Context, s Store, cluster string, meanwhile func()) error {
	return s.(*database).fenced(ctx, cluster, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE clusters SET provider = 'late' WHERE id = $1", cluster)
		if err == nil {
			meanwhile()
		}
		return err
	})
}

// Populated creates a store with rows in each table with MACs; Complete reads all of them.
var Populated, Complete = populated, complete
