package cli

import (
	"context"
	"os"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// storeVariable names the store where --store does not.
const storeVariable = "NAUPEGOS_STORE"

// location says where the user's store is.
func (a *App) location() (store.Location, error) {
	at := store.Location{Dir: a.StateDir, URL: a.StoreURL}
	if at.URL == "" {
		at.URL = os.Getenv(storeVariable)
	} else if store.HasPassword(at.URL) {
		return at, fail.New(fail.Invalid, "--store holds a password: everybody on this host can read the arguments of a command").
			Do("leave it away, and give it by PGPASSWORD or ~/.pgpass, or the whole address by $%s", storeVariable)
	}
	if at.URL != "" && !store.IsURL(at.URL) { // not shown: it may be a mistyped address with a password
		return at, fail.New(fail.Invalid, "--store, or $%s, does not begin with postgres://", storeVariable).
			Do("name a directory by --state-dir, a database by --store postgres://USER@HOST/DATABASE")
	}
	return at, nil
}

// openStore opens the user's store.
func (a *App) openStore(ctx context.Context) (store.Store, error) {
	at, err := a.location()
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, at)
}

// viewStore opens the user's store to look at it: where there is none, it is empty and stays unmade.
func (a *App) viewStore(ctx context.Context) (store.Store, error) {
	at, err := a.location()
	if err != nil {
		return nil, err
	}
	return store.View(ctx, at)
}
