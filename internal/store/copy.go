package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// batch is the number of rows that one statement writes.
const batch = 200

// tables lists every table in an order in which rows can be written, except those of running servers and of sessions, which are not copied.
func tables() []string {
	return []string{"store_facts", "clusters", "facts", "cluster_keys", "secrets", "leases", "runs", "run_steps", "run_events",
		"server_secrets", "tokens", "audit", "audit_head", "audit_sinks", "jobs", "job_lines", "duties",
		"machines", "machine_macs", "machine_claims", "machine_labels", "machine_roles", "machine_boots", "machine_journals", "machine_events", "machine_reports",
		"machine_locks", "slots", "lock_tokens"}
}

// ownFacts are a store's facts about itself, which are not copied.
func ownFacts() []string { return []string{movedFact, copiedFact} }

// reading runs do in a transaction that sees a consistent snapshot of the database.
func (s *database) reading(ctx context.Context, do func(tx *sql.Tx) error) error {
	end, err := s.turn.take(ctx) // with SQLite, every transaction takes the writers' lock
	if err != nil {
		return err
	}
	defer end()
	tx, err := s.wait.Begin(ctx, s.db, s.d.SQL().Reading)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	return do(tx)
}

// fill replaces the contents of one database with those of another. IDs of its former clusters stay taken, and new leases get higher generations than
// former ones, so that their holders can no longer write.
func (s *database) fill(ctx context.Context, to, from *sql.Tx) error {
	used, err := list(ctx, s, to, value[string], "SELECT name FROM store_facts WHERE name LIKE $1", usedPrefix+"%")
	if err != nil {
		return err
	}
	latest, err := one(ctx, s, to, value[int64], "SELECT COALESCE(MAX(generation), 0) FROM leases")
	if err != nil {
		return err
	}
	all := tables()
	for _, name := range slices.Backward(all) {
		if _, err := to.ExecContext(ctx, "DELETE FROM "+name); err != nil { //nolint:gosec // a name of tables
			return err
		}
	}
	if _, err := to.ExecContext(ctx, "DELETE FROM sessions"); err != nil { // sessions that have been ended must not come back; users sign in again
		return err
	}
	for _, name := range all {
		if err := copyTable(ctx, name, to, from); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range used {
		if _, err := to.ExecContext(ctx, "INSERT INTO store_facts (name, value) VALUES ($1, 'before') ON CONFLICT (name) DO NOTHING", name); err != nil {
			return err
		}
	}
	for _, name := range ownFacts() {
		if _, err := to.ExecContext(ctx, "DELETE FROM store_facts WHERE name = $1", name); err != nil {
			return err
		}
	}
	_, err = to.ExecContext(ctx, "UPDATE leases SET held = 0, generation = generation + $1", latest+1)
	return err
}

// copyTable copies all rows of a table.
func copyTable(ctx context.Context, name string, to, from *sql.Tx) (err error) {
	rows, err := from.QueryContext(ctx, "SELECT * FROM "+name) //nolint:gosec // a name of tables
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	var values []any
	for rows.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if values = append(values, row...); len(values) == batch*len(columns) {
			if err := insert(ctx, to, name, columns, values); err != nil {
				return err
			}
			values = values[:0]
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return insert(ctx, to, name, columns, values)
}

// insert writes rows, one after another in values.
func insert(ctx context.Context, to *sql.Tx, table string, columns []string, values []any) error {
	if len(values) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES ", table, strings.Join(columns, ", "))
	for i := range values {
		switch {
		case i == 0:
			b.WriteString("(")
		case i%len(columns) == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d", i+1)
	}
	b.WriteString(")")
	_, err := to.ExecContext(ctx, b.String(), values...)
	return err
}

// still returns fail.Conflict while a process works on a cluster, or a server runs on the store.
func (s *database) still(ctx context.Context, tx *sql.Tx) error {
	if err := s.unserved(ctx, tx); err != nil {
		return err
	}
	return s.unleased(ctx, tx)
}

// vacant refuses to overwrite a store that has clusters or physical machines.
func (s *database) vacant(ctx context.Context, tx *sql.Tx) error {
	all, err := s.clusters(ctx, tx, unverified)
	if err == nil && len(all) == 0 {
		var n int
		if n, err = one(ctx, s, tx, value[int], "SELECT COUNT(*) FROM machines"); n > 0 {
			return fail.New(fail.Refused, "there are %d physical machines in this store", n).At(s.where).
				Do("name another store by --state-dir or --store, or add --replace: what it remembers of them is lost then")
		}
	}
	if err != nil || len(all) == 0 {
		return err
	}
	names := make([]string, 0, len(all))
	for _, c := range all {
		names = append(names, c.Name)
	}
	return fail.New(fail.Refused, "there are clusters in this store: %s", strings.Join(names, ", ")).At(s.where).
		Do("name another store by --state-dir or --store, or add --replace: what it remembers of them is lost then")
}
