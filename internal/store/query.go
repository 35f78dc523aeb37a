package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// patience is how long to wait for a database that is away. It is shorter than a lease's TTL, so that a restart of the server does not end a run.
const patience = 15 * time.Second

// querier is a database, or a transaction on it.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// run executes a statement whose result does not matter.
func run(ctx context.Context, q querier, query string, args ...any) error {
	_, err := q.ExecContext(ctx, query, args...)
	return err
}

// scanner is one row.
type scanner interface{ Scan(...any) error }

// again repeats try while the database is away, for up to patience per absence, however many callers wait. Repeating try must be harmless.
func (s *database) again(ctx context.Context, try func() error) error {
	err := try()
	for pause := 50 * time.Millisecond; s.absence.note(s.d.Away(err)) < s.patience && s.d.Away(err); pause = min(2*pause, time.Second) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
		err = try()
	}
	return err
}

// absence is a period in which a database is away.
type absence struct {
	mu    sync.Mutex
	since time.Time // zero while it is there
}

// note records whether the database is away now, and returns for how long it has been away.
func (a *absence) note(away bool) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !away:
		a.since = time.Time{}
	case a.since.IsZero():
		a.since = time.Now()
	default:
		return time.Since(a.since)
	}
	return 0
}

// one returns the single row of a query, or sql.ErrNoRows.
func one[T any](ctx context.Context, s *database, q querier, scan func(scanner) (T, error), query string, args ...any) (v T, err error) {
	ask := func() error {
		v, err = scan(q.QueryRowContext(ctx, query, args...))
		return err
	}
	err = s.asked(ctx, q, ask)
	return v, err
}

// list returns all rows of a query.
func list[T any](ctx context.Context, s *database, q querier, scan func(scanner) (T, error), query string, args ...any) (all []T, err error) {
	ask := func() error {
		all, err = collect(ctx, q, scan, query, args)
		return err
	}
	err = s.asked(ctx, q, ask)
	return all, err
}

// asked retries a query only outside transactions, which are retried as a whole.
func (s *database) asked(ctx context.Context, q querier, ask func() error) error {
	if _, inTx := q.(*sql.Tx); inTx {
		return ask()
	}
	return s.again(ctx, ask)
}

func collect[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args []any) (all []T, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// value scans a row of one column.
func value[T any](row scanner) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}

// repeatable says whether a transaction may run twice.
type repeatable bool

const (
	once  repeatable = false // running it twice has another effect: not retried if its commit got no answer
	twice repeatable = true  // running it twice has the same effect
)

// change runs write in a transaction that is isolated from other changes of the same rows, and commits if write returns nil. If the database goes
// away before the commit, nothing is written; if during the commit, the outcome is unknown.
func (s *database) change(ctx context.Context, db *sql.DB, r repeatable, write func(tx *sql.Tx) error) error {
	var unsure error
	err := s.again(ctx, func() error {
		committing, err := s.inTx(ctx, db, write)
		if committing && !bool(r) && s.d.Away(err) {
			unsure, err = err, nil // ends the attempts
		}
		return err
	})
	if unsure != nil {
		return fail.Wrap(fail.Unreachable, unsure, "the database went away before it said whether it has written").At("the store").
			Do("run the same command again: it reads the present state").Confide("  the store is %s", s.where)
	}
	return err
}

// inTx is one attempt of change. committing reports whether an error came from the commit.
func (s *database) inTx(ctx context.Context, db *sql.DB, write func(tx *sql.Tx) error) (committing bool, err error) {
	end, err := s.turn.take(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	tx, err := s.wait.Begin(ctx, db, nil)
	if err != nil {
		return false, err
	}
	if err := write(tx); err != nil {
		_ = tx.Rollback() // if it fails, the connection is gone, and the transaction with it
		return false, err
	}
	return true, tx.Commit()
}

// exec runs one statement that may safely run twice, and returns the number of rows that it changed.
func (s *database) exec(ctx context.Context, db *sql.DB, query string, args ...any) (n int64, err error) {
	err = s.again(ctx, func() error {
		end, err := s.turn.take(ctx)
		if err != nil {
			return err
		}
		defer end()
		res, err := db.ExecContext(ctx, query, args...)
		if err == nil {
			n, err = res.RowsAffected()
		}
		return err
	})
	return n, err
}

// wrap returns an error that says what was attempted on the store, why it failed and what helps. nil stays nil, and an error of this project's own
// type is returned unchanged.
func (s *database) wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	if errors.As(err, new(*fail.Error)) {
		return err
	}
	err = s.d.Explain(fail.Wrap(fail.KindOf(err), err, format, args...))
	if e := (*fail.Error)(nil); s.patience > 0 && errors.As(err, &e) && e.Kind == fail.Unauthorized {
		e.Kind = fail.Refused // the database's rights have changed; a server's clients would think that it is about their tokens
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
