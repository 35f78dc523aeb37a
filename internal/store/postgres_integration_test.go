//go:build integration

package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/storetest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// team opens a store on a database that several users share: each has a state directory with a copy of the identity.
func team(t *testing.T, address string) storetest.Opener {
	t.Helper()
	t.Setenv("PGPASSWORD", storetest.Password)
	root := t.TempDir()
	first := filepath.Join(root, "first")
	testkit.Must(t, testkit.Value(store.Open(t.Context(), store.Location{Dir: first, URL: address}))(t).Close())
	identity := testkit.Value(os.ReadFile(filepath.Join(first, store.IdentityFile)))(t)
	return func(machine string) store.Store {
		t.Helper()
		dir := filepath.Join(root, "of "+machine)
		testkit.Must(t, os.MkdirAll(dir, 0o700))
		if file := filepath.Join(dir, store.IdentityFile); !exists(file) {
			testkit.Must(t, os.WriteFile(file, identity, 0o600))
		}
		s := testkit.Value(store.OpenAs(t.Context(), store.Location{Dir: dir, URL: address}, machine))(t)
		t.Cleanup(func() { testkit.Must(t, s.Close()) })
		return s
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// TestPostgres checks the contract with PostgreSQL.
func TestPostgres(t *testing.T) {
	server := storetest.StartPostgres(t)
	storetest.Run(t, storetest.Database{HoldUp: store.HoldUp, SQL: store.SQL, New: func(t *testing.T) storetest.Opener {
		return team(t, server.NewDatabase(t))
	}})
}
