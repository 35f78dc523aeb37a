// Package store is where Naupegos remembers: clusters, their secrets (encrypted), leases, and the journal of runs.
//
// It keeps one SQLite file in the user's state directory, and an age identity beside it that opens the secrets.
// It is the only package that speaks SQL, and knows nothing of what the remembered things mean.
package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
)

// The files in the store's directory.
const (
	dbFile       = "naupegos.db"
	identityFile = "identity.age"
	lockFile     = "lock" // held while the store is made or migrated
)

// Store remembers. It may be used by several goroutines, and the same directory by several processes.
type Store struct {
	dir      string
	db       *sql.DB // each commit is on the disk: clusters and secrets
	log      *sql.DB // commits outlive the process, but perhaps not a power cut: journal and leases, written often
	identity *age.X25519Identity
	self     holder

	mu     sync.Mutex
	keys   map[string][]byte // data keys by cluster ID
	fences map[string]int64  // by cluster ID: the generation of the lease that is held, see fenced
}

// DefaultDir returns $XDG_STATE_HOME/naupegos, or ~/.local/state/naupegos.
func DefaultDir() (string, error) {
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "naupegos"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fail.Wrap(fail.Refused, err, "find the directory for the store").Do("set XDG_STATE_HOME to an absolute path")
	}
	return filepath.Join(home, ".local", "state", "naupegos"), nil
}

// Open opens the store in dir, making it on first use; an empty dir means DefaultDir. It refuses a store that a newer
// version wrote, and one whose identity is missing or another while there are secrets.
func Open(ctx context.Context, dir string) (*Store, error) {
	return openWith(ctx, dir, (*Store).openOrMake)
}

func openWith(ctx context.Context, dir string, how func(*Store, context.Context) error) (*Store, error) {
	if dir == "" {
		var err error
		if dir, err = DefaultDir(); err != nil {
			return nil, err
		}
	}
	self, err := whoAmI()
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, self: self, keys: map[string][]byte{}, fences: map[string]int64{}}
	if err := how(s, ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) openOrMake(ctx context.Context) (err error) {
	if err := privateDir(s.dir); err != nil {
		return err
	}
	path := filepath.Join(s.dir, dbFile)
	if err := privateFile(path); err != nil {
		return err
	}
	if s.db, err = openSQLite(path, "FULL"); err != nil {
		return err
	}
	if s.log, err = openSQLite(path, "NORMAL"); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	return s.loadIdentity(ctx)
}

// Close releases the files. Release leases first.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.log, s.db} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Dir returns the directory that the store lies in.
func (s *Store) Dir() string { return s.dir }

// privateDir makes dir for its owner alone.
func privateDir(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		return refused(err, dir, "make the store's directory")
	}
	return nil
}

// privateFile makes path, if it isn't there, readable by its owner alone; SQLite gives its side files the same mode.
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

// inTx runs f in a transaction that takes the write lock at once, and commits if f returns nil.
func inTx(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return tx.Commit()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}
