// Package engine opens the store's database, a SQLite file or PostgreSQL, and implements what differs between the two.
package engine

import (
	"context"
	"database/sql"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// Row is a database or a transaction that a query of one row can be sent to.
type Row interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Dialect implements what differs between databases; queries are the same.
type Dialect interface {
	// Lock is held by one process at a time while it creates or migrates the store. It is released if the process dies.
	Lock(ctx context.Context) (unlock func(), err error)
	// Now returns the database's time, on which leases are based, so that clocks of several machines are never compared.
	Now(ctx context.Context, q Row) (time.Time, error)
	// Away reports whether the database could not be reached, or aborted the attempt for reasons of its own, so that a retry may succeed.
	Away(err error) bool
	// IsUnique and IsForeignKey report which constraint a statement broke.
	IsUnique(err error) bool
	IsForeignKey(err error) bool
	// Explain adds a kind, location and remedy to e, whose cause is an error of the database.
	Explain(e *fail.Error) error
	// SQL returns the words of the dialect.
	SQL() Words
}

// Words are the differences between the two SQL dialects.
type Words struct {
	Goose     goose.Dialect
	Has       string         // queries the number of tables with the name $1
	ForUpdate string         // suffix of a SELECT that locks its rows until the transaction ends
	ForShare  string         // suffix of a SELECT that locks its rows against changes until the transaction ends; shared with other readers
	Prepare   string         // run once before the first migration; may be empty
	Exclusive string         // blocks other writers until the transaction ends; empty if every transaction does
	Reading   *sql.TxOptions // options of a transaction with a consistent snapshot; nil if every transaction has one
	Shared    bool           // several users share it, each with a copy of the same identity
}
