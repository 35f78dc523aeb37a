package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// dialect is what differs between the databases; queries are the same on each.
type dialect interface {
	// lock is held by one process at a time while it makes or migrates the store, and is given back if the process dies.
	lock(ctx context.Context) (unlock func(), err error)
	// now is the database's clock, by which leases last: the clocks of several machines are never compared.
	now(ctx context.Context, q querier) (time.Time, error)
	// away reports whether the database could not be reached, or ended the attempt for reasons of its own: nothing speaks against
	// another one.
	away(err error) bool
	isUnique(err error) bool
	isForeignKey(err error) bool
	// explain adds to e, whose cause is an error of the database, where that is and what helps, and gives it a kind.
	explain(e *fail.Error) error
	sql() words
}

// words are where the two languages differ.
type words struct {
	goose     goose.Dialect
	has       string         // asks for the number of tables of the name $1
	forUpdate string         // ends a SELECT whose rows nobody else may change until the transaction ends
	forShare  string         // suffix of a SELECT that locks its rows against changes until the transaction ends; shared with other readers
	prepare   string         // run once before the first migration; may be empty
	exclusive string         // keeps everybody else from writing until the transaction ends; empty where every transaction does
	reading   *sql.TxOptions // of a transaction that sees the database as it is at one moment; nil where every transaction does
	shared    bool           // several people use it, each with a copy of one identity
}
