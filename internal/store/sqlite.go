package store

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/filelock"
	"github.com/naupegos/naupegos/internal/store/together"
)

// sqliteFile is the dialect of a SQLite file.
type sqliteFile struct {
	dir  string
	wait filelock.Wait
}

// useSQLite opens the file in the store's directory.
func (s *database) useSQLite() (err error) {
	path := filepath.Join(s.dir, DatabaseFile)
	if err := privateFile(path); err != nil {
		return err
	}
	s.d = sqliteFile{s.dir, s.wait}
	if s.db, err = openSQLite(path, "FULL"); err != nil {
		return err
	}
	if s.log, err = openSQLite(path, "NORMAL"); err != nil {
		return err
	}
	if s.reads, err = openSQLite(path, "NORMAL", "query_only(1)"); err != nil {
		return err
	}
	s.reads.SetMaxOpenConns(readers)
	s.reads.SetMaxIdleConns(readers)
	s.turn = make(turn, 1)
	s.together = together.New(s.beginTogether)
	return nil
}

// readers is the maximum number of concurrent readers.
const readers = 4

// turn lets goroutines write one at a time, in order of arrival. Without it, connections of one process would poll for SQLite's lock, and an unlucky
// one could wait for seconds. A nil turn does not limit writers.
type turn chan struct{}

// take waits for the turn, which end returns.
func (t turn) take(ctx context.Context) (end func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// beginTogether implements together.Begin.
func (s *database) beginTogether(ctx context.Context, durable bool) (*sql.Tx, func(), error) {
	end, err := s.turn.take(ctx)
	if err != nil {
		return nil, nil, err
	}
	db := s.log
	if durable {
		db = s.db
	}
	tx, err := s.wait.Begin(ctx, db, nil)
	if err != nil {
		end()
	}
	return tx, end, err
}

// openSQLite opens the file with one connection: writers of one process then queue in Go instead of polling for the lock. If path is inMemory, the
// database exists only in memory, until it is closed. synchronous is SQLite's pragma: FULL waits for the disk at each commit, NORMAL does not.
func openSQLite(path, synchronous string, pragmas ...string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "find the store's full path").At(path)
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": append([]string{"busy_timeout(15000)", "foreign_keys(1)", "synchronous(" + synchronous + ")"}, pragmas...)}
	if path == inMemory {
		abs = path
	}
	dsn := "file:" + (&url.URL{Path: abs}).EscapedPath() + "?" + q.Encode()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "open the store").At(path)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func (sqliteFile) sql() words {
	return words{
		goose: goose.DialectSQLite3, prepare: "PRAGMA journal_mode=WAL",
		has: "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = $1",
	}
}

// now returns this host's time, because no other host writes to the file.
func (sqliteFile) now(context.Context, querier) (time.Time, error) { return time.Now(), nil }

// away returns false: SQLite itself waits for other processes.
func (sqliteFile) away(error) bool { return false }

// lock takes a file lock.
func (d sqliteFile) lock(ctx context.Context) (unlock func(), err error) {
	return d.wait.Take(ctx, filepath.Join(d.dir, lockFile))
}

// code returns an error's SQLite codes, primary and extended; 0, 0 if it has none.
func code(err error) (primary, extended int) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0, 0
	}
	return e.Code() & 0xff, e.Code()
}

func (sqliteFile) isForeignKey(err error) bool {
	_, c := code(err)
	return c == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
}

func (sqliteFile) isUnique(err error) bool {
	_, c := code(err)
	return c == sqlite3.SQLITE_CONSTRAINT_UNIQUE || c == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

func (d sqliteFile) explain(e *fail.Error) error {
	e = e.At("the store").Confide("  the store is %s", filepath.Join(d.dir, DatabaseFile))
	as := func(k fail.Kind, do string) error {
		e.Kind, e.Final = k, k == fail.NotReady // who waits, waits for the administrator
		return e.Do("%s", do)
	}
	switch c, _ := code(e.Err); c {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return as(fail.Conflict, "another naupegos process is writing; wait for it and run the same command again")
	case sqlite3.SQLITE_FULL:
		return as(fail.NotReady, "the disk is full: make room and run the same command again")
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return as(fail.Refused, "run as the user who owns the file, on a disk that can be written")
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return as(fail.Internal, "the file is damaged: put back a copy of it together with "+identityFile)
	case sqlite3.SQLITE_IOERR:
		return as(fail.Internal, "look for a full or failing disk, then run the same command again")
	}
	return e
}
