// Package store is Naupegos' persistent memory: clusters, their secrets (encrypted), leases, and the journal of runs.
//
// It uses a SQLite file in the user's state directory, or a PostgreSQL database that several users share. An age identity in the state directory
// decrypts the secrets. Only it and its subpackages use SQL, and it does not know the meaning of what it stores. Callers use the interfaces
// in contract.go.
package store

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/engine"
	"github.com/naupegos/naupegos/internal/store/filelock"
	"github.com/naupegos/naupegos/internal/store/keyfile"
	"github.com/naupegos/naupegos/internal/store/process"
	"github.com/naupegos/naupegos/internal/store/together"
	"github.com/naupegos/naupegos/internal/userdir"
)

// The files in the store's directory.
const (
	DatabaseFile = "naupegos.db" // of a store in a file, in its directory
	identityFile = "identity.age"
	lockFile     = "lock" // held while the store is created or migrated
)

// database is the Store on a SQL database.
type database struct {
	dir      string
	where    string // for people: dir, or the database without its password
	d        engine.Dialect
	db       *sql.DB // each commit reaches the disk: clusters and secrets
	log      *sql.DB // if it differs from db, commits survive the process but perhaps not a power failure; for the journal and leases
	reads    *sql.DB // for queries outside transactions; if it differs from db, they do not wait for writers
	turn     turn
	together *together.Writer // for changes of machines, if the database allows only one writer at a time; otherwise nil
	identity *age.X25519Identity
	rowKey   []byte // key of the rows' MACs, derived from identity
	former   []byte // former identities, one per line, which decrypt older data
	unlock   *Unlock
	wait     filelock.Wait
	// protection is the encryption of the identity's file.
	protection Protection
	marked     []string // the identity's file says that these sets of tables carry MACs; see rowmac.Set
	self       process.ID
	absence    absence
	patience   time.Duration // how long to wait for a lost database; zero while opening

	mu      sync.Mutex
	keys    map[string][]byte  // data keys by cluster ID
	signing ed25519.PrivateKey // of the audit; nil: not loaded yet
	fences  map[string]int64   // by cluster ID: the generation of the lease that is held, see fenced
}

// Location is the location of a store.
type Location struct {
	Dir string // this user's directory: the identity and, without a URL, the database; empty means userdir.State
	// Unlock opens an identity that is protected by a passphrase or an age plugin. Without it, a store with such an identity can't be opened.
	Unlock *Unlock
	Wait   filelock.Wait // for another process that makes or updates the store
	steps  *steps        // see reached
	URL    string        // of a PostgreSQL database that several machines share (postgres://…); empty: SQLite in Dir
}

// Open opens a store, creating it on first use. It refuses a store that a newer version wrote, and a store with secrets whose identity is missing or
// a different one.
func Open(ctx context.Context, at Location) (Store, error) {
	s, err := openWith(ctx, at, (*database).openOrMake)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openWith(ctx context.Context, at Location, how func(*database, context.Context, string) error) (*database, error) {
	if at.Dir == "" {
		var err error
		if at.Dir, err = userdir.State(); err != nil {
			return nil, err
		}
	}
	self, err := process.Self()
	if err != nil {
		return nil, err
	}
	s := &database{dir: at.Dir, where: at.Dir, self: self, unlock: at.Unlock, wait: at.Wait, keys: map[string][]byte{}, fences: map[string]int64{}}
	if err := how(s, ctx, at.URL); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.patience = patience
	return s, nil
}

func (s *database) openOrMake(ctx context.Context, url string) error {
	if err := emptied(s.dir); url == "" && err != nil {
		return err
	}
	if err := s.openBare(ctx, url); err != nil {
		return err
	}
	if err := used(ctx, s, s.db); err != nil {
		return err
	}
	if err := loadIdentity(ctx, s); err != nil {
		return err
	}
	if err := authenticate(ctx, s); err != nil {
		return err
	}
	return loadFormer(ctx, s)
}

// emptied refuses an empty or missing file beside an identity, before SQLite takes it for a new database and deletes its write-ahead log. A first start that
// was interrupted leaves no such pair: it writes the identity after the tables.
func emptied(dir string) error {
	path := filepath.Join(dir, DatabaseFile)
	db, err := os.Stat(path)
	if _, none := os.Stat(filepath.Join(dir, identityFile)); none != nil || err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && db.Size() > 0 {
		return nil // opening it reports what is wrong
	}
	return fail.New(fail.Refused, "the store is empty or missing although there is an identity").At(path).Do("put a copy back: naupegos store restore; to begin anew, move identity.age away")
}

// openBare opens or creates a store, regardless of its identity and of whether it was moved.
func (s *database) openBare(ctx context.Context, url string) error {
	if err := privateDir(s.dir); err != nil {
		return err
	}
	var err error
	if url == "" {
		err = s.useSQLite()
	} else {
		err = s.usePostgres(url)
	}
	if err != nil {
		return err
	}
	return s.migrate(ctx)
}

// Close implements Store.
func (s *database) Close() error {
	var errs []error
	if s.reads != nil && s.reads != s.db {
		errs = append(errs, s.reads.Close())
	}
	if s.log != nil && s.log != s.db {
		errs = append(errs, s.log.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(errs...)
}

// Dir implements Store.
func (s *database) Dir() string { return s.dir }

// Where implements Store.
func (s *database) Where() string { return s.where }

// privateDir creates dir, accessible only to its owner.
func privateDir(dir string) error {
	err := userdir.Make(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		return refused(err, dir, "make the store's directory")
	}
	return nil
}

// privateFile creates path if it does not exist, readable only by its owner; SQLite gives its side files the same mode.
func privateFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = errors.Join(f.Chmod(0o600), f.Close())
	}
	if err != nil {
		return refused(err, path, "open the store")
	}
	return nil
}

type (
	// Unlock opens the identity's file.
	Unlock = keyfile.Unlock
	// Protection describes how the identity's file is protected.
	Protection = keyfile.Protection
)
