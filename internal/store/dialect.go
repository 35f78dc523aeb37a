package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// dialect implements what differs between databases; queries are the same.
type dialect interface {
	// lock is held by one process at a time while it creates or migrates the store. It is released if the process dies.
	lock(ctx context.Context) (unlock func(), err error)
	// now returns the database's time, on which leases are based, so that clocks of several machines are never compared.
	now(ctx context.Context, q querier) (time.Time, error)
	// away reports whether the database could not be reached, or aborted the attempt for reasons of its own, so that a retry may succeed.
	away(err error) bool
	isUnique(err error) bool
	isForeignKey(err error) bool
	// explain adds a kind, location and remedy to e, whose cause is an error of the database.
	explain(e *fail.Error) error
	sql() words
}

// words are the differences between the two SQL dialects.
type words struct {
	goose     goose.Dialect
	has       string         // queries the number of tables with the name $1
	forUpdate string         // suffix of a SELECT that locks its rows until the transaction ends
	forShare  string         // suffix of a SELECT that locks its rows against changes until the transaction ends; shared with other readers
	prepare   string         // run once before the first migration; may be empty
	exclusive string         // blocks other writers until the transaction ends; empty if every transaction does
	reading   *sql.TxOptions // options of a transaction with a consistent snapshot; nil if every transaction has one
	shared    bool           // several users share it, each with a copy of the same identity
}
