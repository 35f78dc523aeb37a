package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/naupegos/naupegos/internal/fail"
)

// PostgreSQL error codes (appendix A of its manual) with a special meaning here.
const (
	pgUnique     = "23505"
	pgForeignKey = "23503"
	pgNoDatabase = "3D000"
	pgNoRight    = "42501"
	pgTooMany    = "53300"
	pgDiskFull   = "53100"
	pgReadOnly   = "25006"
	pgSerialize  = "40001"
	pgDeadlock   = "40P01"
)

// sqlState returns the server's error code; empty if the error does not come from the server.
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// IsUnique implements Dialect.
func (postgres) IsUnique(err error) bool { return sqlState(err) == pgUnique }

// IsForeignKey implements Dialect.
func (postgres) IsForeignKey(err error) bool { return sqlState(err) == pgForeignKey }

// Away implements Dialect: the server can't be reached, is starting or stopping, or ended a session or transaction.
func (d postgres) Away(err error) bool {
	switch c := sqlState(err); {
	case err == nil, errors.Is(err, context.Canceled):
		return false
	case c == pgSerialize, c == pgDeadlock:
		return true
	case c != "":
		return gone(c)
	}
	return disconnected(err)
}

// gone reports whether a code says that the server or session is ending, or not ready yet.
func gone(code string) bool {
	return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") || code == "25P03" || code == pgTooMany
}

// disconnected reports whether err is a network error.
func disconnected(err error) bool {
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &connect) ||
		errors.As(err, &network) || pgconn.SafeToRetry(err)
}

// Explain implements Dialect.
func (d postgres) Explain(e *fail.Error) error {
	e = e.At("the store").Confide("  the store is %s", d.where)
	as := func(k fail.Kind, do string) error {
		e.Kind, e.Final = k, k == fail.NotReady // who waits, waits for the administrator
		return e.Do("%s", do)
	}
	switch c := sqlState(e.Err); {
	case strings.HasPrefix(c, "28"):
		return as(fail.Unauthorized, "give the password by PGPASSWORD, or keep it in ~/.pgpass, mode 600 (HOST:PORT:DATABASE:USER:PASSWORD)")
	case c == pgNoDatabase:
		return as(fail.NotFound, "make it on the server: createdb -O USER DATABASE")
	case c == pgNoRight:
		return as(fail.Unauthorized, "the user must own the database, or at least its schema: ALTER DATABASE … OWNER TO …")
	case c == pgReadOnly:
		return as(fail.Refused, "this is a standby server: name the one that takes writes, as by target_session_attrs=read-write")
	case c == pgDiskFull:
		return as(fail.NotReady, "the server's disk is full: make room there and run the same command again")
	case c == pgSerialize, c == pgDeadlock:
		return as(fail.Conflict, "others write at the same time: run the same command again")
	case c != "" && !gone(c):
		return e
	case d.Away(e.Err):
		var network *net.OpError
		if errors.As(e.Err, &network) { // pgx reports each address and method that it has tried
			e.Err = network
		}
		return as(fail.Unreachable, "check that the PostgreSQL server runs and can be reached from here (pg_isready), then run the same command again: it continues where this one stopped")
	}
	return e
}
