package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pressly/goose/v3"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schemaVersion is the number of the newest file in migrations.
const schemaVersion = 1

// lockWait bounds how long one process waits for another that makes or migrates the store.
const lockWait = 60 * time.Second

// migrate brings the schema up to date. Where it is, that costs one query.
func (s *Store) migrate(ctx context.Context) error {
	have, err := s.version(ctx)
	if err != nil || have == schemaVersion {
		return err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if have, err = s.version(ctx); err != nil || have == schemaVersion { // somebody else was quicker
		return err
	}
	if _, err := s.db.ExecContext(ctx, "PRAGMA journal_mode=WAL"); err != nil {
		return s.wrap(err, "make the store")
	}
	return s.up(ctx, have)
}

// up runs the migrations that the schema lacks.
func (s *Store) up(ctx context.Context, have int) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return s.wrap(err, "find the store's migrations")
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, s.db, files)
	if err != nil {
		return s.wrap(err, "read the store's migrations")
	}
	if _, err := provider.Up(ctx); err != nil {
		return s.wrap(err, "bring the store's schema from version %d to %d", have, schemaVersion)
	}
	return nil
}

// version returns the schema's version, 0 for an empty file. A version from the future is refused.
func (s *Store) version(ctx context.Context) (int, error) {
	var there int
	err := s.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'goose_db_version'").Scan(&there)
	if err != nil {
		return 0, s.wrap(err, "read the store")
	}
	if there == 0 {
		return 0, nil
	}
	var have sql.NullInt64
	if err := s.db.QueryRowContext(ctx, "SELECT MAX(version_id) FROM goose_db_version").Scan(&have); err != nil {
		return 0, s.wrap(err, "read the store's schema version")
	}
	if have.Int64 > schemaVersion {
		return 0, fail.New(fail.Refused, "the store was written by a newer naupegos (schema %d, this one knows %d)", have.Int64, schemaVersion).
			At(filepath.Join(s.dir, dbFile)).Do("use the newer naupegos, or name another directory by XDG_STATE_HOME")
	}
	return int(have.Int64), nil
}

// lock takes the file lock under which the store is made; the kernel gives it back if this process dies.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(s.dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "lock the store").At(path)
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // closing gives the lock back
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fail.Wrap(fail.Internal, err, "lock the store").At(path), f.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(fail.Wrap(fail.Conflict, ctx.Err(), "wait for another process that makes or updates the store").
				At(path).Do("find it with: fuser %s", path), f.Close())
		}
	}
}
