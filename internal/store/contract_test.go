package store_test

import (
	"testing"

	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/storetest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestSQLite checks the contract with SQLite; several machines are simulated.
func TestSQLite(t *testing.T) {
	storetest.Run(t, storetest.Database{HoldUp: store.HoldUp, SQL: store.SQL, New: func(t *testing.T) storetest.Opener {
		at := store.Location{Dir: t.TempDir()}
		return func(machine string) store.Store {
			s := testkit.Value(store.OpenAs(t.Context(), at, machine))(t)
			t.Cleanup(func() { testkit.Must(t, s.Close()) })
			return s
		}
	}})
}
