package store

import (
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/naupegos/naupegos/internal/fail"
)

// openSQLite opens the file with one connection: writers of one process then queue in Go instead of polling for the lock.
// inMemory in the place of the path keeps everything in memory, for as long as it is open. synchronous is SQLite's pragma: FULL waits for the disk at each commit, NORMAL does not.
func openSQLite(path, synchronous string) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "find the store's full path").At(path)
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(15000)", "foreign_keys(1)", "synchronous(" + synchronous + ")"}}
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

// code returns SQLite's code of an error, primary and extended; 0, 0 if it has none.
func code(err error) (primary, extended int) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0, 0
	}
	return e.Code() & 0xff, e.Code()
}

func isForeignKey(err error) bool {
	_, c := code(err)
	return c == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
}

func isUnique(err error) bool {
	_, c := code(err)
	return c == sqlite3.SQLITE_CONSTRAINT_UNIQUE || c == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

// wrap says what was attempted on the store, why it failed and what helps. nil stays nil; an error that is already of
// this project's kind passes as it is.
func (s *Store) wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	var known *fail.Error
	if errors.As(err, &known) {
		return err
	}
	path := filepath.Join(s.dir, dbFile)
	at := func(k fail.Kind) *fail.Error { return fail.Wrap(k, err, format, args...).At(path) }
	switch c, _ := code(err); c {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return at(fail.Conflict).Do("another naupegos process is writing; wait for it and run the same command again")
	case sqlite3.SQLITE_FULL:
		return at(fail.Refused).Do("the disk is full: make room and run the same command again")
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return at(fail.Refused).Do("run as the user who owns the file, on a disk that can be written")
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return at(fail.Internal).Do("the file is damaged: put back a copy of it together with %s", identityFile)
	case sqlite3.SQLITE_IOERR:
		return at(fail.Internal).Do("look for a full or failing disk, then run the same command again")
	default:
		return at(fail.KindOf(err))
	}
}
