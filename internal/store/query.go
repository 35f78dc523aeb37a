package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// patience is how long a database that went away is waited for: less than a lease lasts, so that a restart of the server does not end
// a run.
const patience = 15 * time.Second

// querier is a database, or a transaction on it.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// scanner is one row.
type scanner interface{ Scan(...any) error }

// again calls try, and again while the database is away, for as long as patience lasts: once for each absence, however many ask. try must do
// no harm twice.
func (s *database) again(ctx context.Context, try func() error) error {
	err := try()
	for pause := 50 * time.Millisecond; s.absence.note(s.d.away(err)) < s.patience && s.d.away(err); pause = min(2*pause, time.Second) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
		err = try()
	}
	return err
}

// absence is the time that a database is away.
type absence struct {
	mu    sync.Mutex
	since time.Time // zero while it is there
}

// note says whether the database is away now, and returns for how long it has been.
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

// one reads the one row that a query finds: sql.ErrNoRows if it finds none.
func one[T any](ctx context.Context, s *database, q querier, scan func(scanner) (T, error), query string, args ...any) (v T, err error) {
	ask := func() error {
		v, err = scan(q.QueryRowContext(ctx, query, args...))
		return err
	}
	err = s.asked(ctx, q, ask)
	return v, err
}

// list reads all rows that a query finds.
func list[T any](ctx context.Context, s *database, q querier, scan func(scanner) (T, error), query string, args ...any) (all []T, err error) {
	ask := func() error {
		all, err = collect(ctx, q, scan, query, args)
		return err
	}
	err = s.asked(ctx, q, ask)
	return all, err
}

// asked asks again only outside of transactions: those begin anew as a whole.
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

// repeatable says what a transaction does that is carried out twice.
type repeatable bool

const (
	once  repeatable = false // something else: where its commit got no answer, it is not tried again
	twice repeatable = true  // the same
)

// change runs write in a transaction that no other change of the same rows comes between, and commits if it returns nil. A database
// that goes away before the commit has nothing written; after that, only it knows.
func (s *database) change(ctx context.Context, db *sql.DB, r repeatable, write func(tx *sql.Tx) error) error {
	var unsure error
	err := s.again(ctx, func() error {
		committing, err := s.inTx(ctx, db, write)
		if committing && !bool(r) && s.d.away(err) {
			unsure, err = err, nil // ends the attempts
		}
		return err
	})
	if unsure != nil {
		return fail.Wrap(fail.Unreachable, unsure, "the database went away before it said whether it has written").At(s.where).
			Do("run the same command again: it looks at what is there")
	}
	return err
}

// inTx is one attempt of change. committing reports whether an error came of the commit.
func (s *database) inTx(ctx context.Context, db *sql.DB, write func(tx *sql.Tx) error) (committing bool, err error) {
	end, err := s.turn.take(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	if err := write(tx); err != nil {
		_ = tx.Rollback() // where that fails, the connection is gone, and the transaction with it
		return false, err
	}
	return true, tx.Commit()
}

// exec runs one statement that is the same carried out twice, and returns how many rows it changed.
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

// wrap says what was attempted on the store, why it failed and what helps. nil stays nil; an error that is already of
// this project's kind passes as it is.
func (s *database) wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	var known *fail.Error
	if errors.As(err, &known) {
		return err
	}
	return s.d.explain(fail.Wrap(fail.KindOf(err), err, format, args...))
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
