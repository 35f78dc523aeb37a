package engine

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
)

// sqliteFile is the dialect of a SQLite file.
type sqliteFile struct {
	file     string
	lockFile string
	wait     filelock.Wait
}

// NewSQLite returns the dialect of a file. lockFile is held while the store is created or migrated.
func NewSQLite(file, lockFile string, wait filelock.Wait) Dialect {
	return sqliteFile{file, lockFile, wait}
}

// InMemory is what SQLite calls a database without a file.
const InMemory = ":memory:"

// OpenSQLite opens the file with one connection: writers of one process then queue in Go instead of polling for the lock. If path is inMemory, the
// database exists only in memory, until it is closed. synchronous is SQLite's pragma: FULL waits for the disk at each commit, NORMAL does not.
func OpenSQLite(path, synchronous string, pragmas ...string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "find the store's full path").At(path)
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": append([]string{"busy_timeout(15000)", "foreign_keys(1)", "synchronous(" + synchronous + ")"}, pragmas...)}
	if path == InMemory {
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

// SQL implements Dialect.
func (sqliteFile) SQL() Words {
	return Words{
		Goose: goose.DialectSQLite3, Prepare: "PRAGMA journal_mode=WAL",
		Has: "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = $1",
	}
}

// Now returns this host's time, because no other host writes to the file.
func (sqliteFile) Now(context.Context, Row) (time.Time, error) { return time.Now(), nil }

// Away returns false: SQLite itself waits for other processes.
func (sqliteFile) Away(error) bool { return false }

// Lock takes a file lock.
func (d sqliteFile) Lock(ctx context.Context) (unlock func(), err error) {
	return d.wait.Take(ctx, d.lockFile)
}

// code returns an error's SQLite codes, primary and extended; 0, 0 if it has none.
func code(err error) (primary, extended int) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0, 0
	}
	return e.Code() & 0xff, e.Code()
}

// IsForeignKey implements Dialect.
func (sqliteFile) IsForeignKey(err error) bool {
	_, c := code(err)
	return c == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
}

// IsUnique implements Dialect.
func (sqliteFile) IsUnique(err error) bool {
	_, c := code(err)
	return c == sqlite3.SQLITE_CONSTRAINT_UNIQUE || c == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

// Explain implements Dialect.
func (d sqliteFile) Explain(e *fail.Error) error {
	e = e.At("the store").Confide("  the store is %s", d.file)
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
		return as(fail.Internal, "the file is damaged: put back a copy of it together with its identity.age")
	case sqlite3.SQLITE_IOERR:
		return as(fail.Internal, "look for a full or failing disk, then run the same command again")
	}
	return e
}
