package metal

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Querier is a database, or a transaction on it.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// DB is the database that internal/store has opened.
type DB interface {
	// Read asks, and asks again while the database is away.
	Read(ctx context.Context, ask func(q Querier) error) error
	// Write carries a change out that is the same carried out twice, in a transaction. See How.Quick.
	Write(ctx context.Context, quick bool, change func(tx Querier) error) error
	// Now is the database's clock.
	Now(ctx context.Context, q Querier) (time.Time, error)
	// ForUpdate ends a SELECT whose rows no other process may change until the transaction ends.
	ForUpdate() string
	// Sign returns the MAC of a row of a table, keyed by the store's identity. Verify refuses a row with another one. A transaction that signs rows calls
	// Current first: it fails if the identity changed since this process opened the store, and blocks a rotation until the transaction ends.
	Sign(table string, values ...string) string
	Verify(ctx context.Context, q Querier, table, mac string, values ...string) error
	Current(ctx context.Context, tx Querier) error
	IsUnique(err error) bool
	IsForeignKey(err error) bool
	// Wrap says what was attempted on the store; nil, and errors that say so already, pass as they are.
	Wrap(err error, format string, args ...any) error
}

// machines is the Store on a DB.
type machines struct{ db DB }

// New returns the store of machines in a database.
func New(db DB) Store { return machines{db} }

// rows reads all rows that a query finds.
func rows[T any](ctx context.Context, q Querier, scan func(*sql.Rows) (T, error), query string, args ...any) (all []T, err error) {
	found, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		v, err := scan(found)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, found.Err()
}

// run executes one statement and returns how many rows it changed.
func run(ctx context.Context, q Querier, query string, args ...any) (int64, error) {
	res, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// lock makes other callers that lock the same name wait until the transaction ends.
func (s machines) lock(ctx context.Context, tx Querier, name string) error {
	if _, err := run(ctx, tx, "INSERT INTO machine_locks (name) VALUES ($1) ON CONFLICT (name) DO NOTHING", name); err != nil {
		return err
	}
	var got string
	return tx.QueryRowContext(ctx, "SELECT name FROM machine_locks WHERE name = $1"+s.db.ForUpdate(), name).Scan(&got)
}

func unknown(uuid string) error {
	return fail.New(fail.NotFound, "there is no such machine").At(uuid).Do("naupegos machine list shows the known ones")
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
