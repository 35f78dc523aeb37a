package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/health"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// Metal implements Store.
func (s *database) Metal() metal.Store { return metal.New(metalDB{s}) }

// Health implements Store.
func (s *database) Health() health.Store { return health.New(metalDB{s}) }

// metalDB is the database as internal/store/metal and health use it.
type metalDB struct{ s *database }

// Read implements metal.DB.
func (d metalDB) Read(ctx context.Context, ask func(q metal.Querier) error) error {
	return d.s.again(ctx, func() error { return ask(d.s.reads) })
}

// Write implements metal.DB.
func (d metalDB) Write(ctx context.Context, quick bool, change func(tx metal.Querier) error) error {
	if d.s.together != nil {
		return d.s.together.Do(ctx, !quick, func(tx *sql.Tx) error { return change(steady{tx}) })
	}
	db := d.s.db
	if quick {
		db = d.s.log
	}
	return d.s.change(ctx, db, twice, func(tx *sql.Tx) error { return change(tx) })
}

// steady is a transaction that several callers share. It ignores their contexts, because SQLite would roll back the whole transaction if one ended
// during a statement.
type steady struct{ tx *sql.Tx }

func (s steady) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return s.tx.ExecContext(context.WithoutCancel(ctx), query, args...)
}

func (s steady) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return s.tx.QueryContext(context.WithoutCancel(ctx), query, args...)
}

func (s steady) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return s.tx.QueryRowContext(context.WithoutCancel(ctx), query, args...)
}

// Now implements metal.DB.
func (d metalDB) Now(ctx context.Context, q metal.Querier) (time.Time, error) { return d.s.now(ctx, q) }

// ForUpdate implements metal.DB.
func (d metalDB) ForUpdate() string { return d.s.d.SQL().ForUpdate }

// Sign implements metal.DB.
func (d metalDB) Sign(table string, values ...string) string {
	return rowmac.Of(d.s.rowKey, table, values...)
}

// Verify implements metal.DB.
func (d metalDB) Verify(ctx context.Context, q metal.Querier, table, mac string, values ...string) error {
	for _, t := range rowmac.Tables() {
		if t.Name == table {
			return verifyIn(ctx, d.s, q, t, mac, values...)
		}
	}
	return fail.New(fail.Internal, "rows of table %s carry no MACs", table)
}

// Current implements metal.DB.
func (d metalDB) Current(ctx context.Context, tx metal.Querier) error { return d.s.current(ctx, tx) }

// IsUnique implements metal.DB.
func (d metalDB) IsUnique(err error) bool { return d.s.d.IsUnique(err) }

// IsForeignKey implements metal.DB.
func (d metalDB) IsForeignKey(err error) bool { return d.s.d.IsForeignKey(err) }

// Wrap implements metal.DB.
func (d metalDB) Wrap(err error, format string, args ...any) error {
	return d.s.wrap(err, format, args...)
}

// undisturbed refuses the lease of a cluster while one of its machines has permission to reboot, because only one disruption at a time is allowed.
// Granting that permission in turn checks the lease.
func undisturbed(ctx context.Context, s *database, tx *sql.Tx, cluster string, now time.Time) error {
	type place struct {
		group, holder, detail string
		acquired              int64
	}
	p, err := one(ctx, s, tx, func(row scanner) (p place, err error) {
		err = row.Scan(&p.group, &p.holder, &p.detail, &p.acquired)
		return p, err
	}, "SELECT group_name, holder, detail, acquired FROM slots WHERE cluster_id = $1 AND (expires = 0 OR expires > $2) ORDER BY acquired LIMIT 1", cluster, micros(now))
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return fail.New(fail.Conflict, "machine %s (%s) may reboot since %s", p.holder, p.detail, fromMicros(p.acquired).Local().Format("2006-01-02 15:04:05")).At(cluster).
		Do("wait until it is back; if it never will be, give its place back: naupegos machine unlock %s %s", p.group, p.holder)
}
