package store

import (
	"context"
	"crypto/hmac"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// ErrForged is the cause of the error for a row that was not written with the store's identity.
var ErrForged = errors.New("forged, or damaged")

// setIdentity sets the current identity.
func (s *database) setIdentity(id *age.X25519Identity) { s.identity, s.rowKey = id, rowmac.Key(id) }

// mac authenticates the values of t.columns.
func (s *database) mac(t rowmac.Table, values ...string) string {
	return rowmac.Of(s.rowKey, t.Name, values...)
}

// verify refuses a row that was not written with the identity.
func (s *database) verify(ctx context.Context, t rowmac.Table, mac string, values ...string) error {
	return verifyIn(ctx, s, s.reads, t, mac, values...)
}

// verifyIn is verify in a transaction. Call it before a row gets a new MAC, which would legitimize a forged one.
func verifyIn(ctx context.Context, s *database, q querier, t rowmac.Table, mac string, values ...string) error {
	if hmac.Equal([]byte(mac), []byte(s.mac(t, values...))) {
		return nil
	}
	if err := s.current(ctx, q); err != nil { // a rotation may have replaced the MAC
		return err
	}
	return notAuthentic(t, mac, values)
}

func notAuthentic(t rowmac.Table, mac string, values []string) error {
	where := make([]string, 0, len(t.Key))
	for i, column := range t.Key {
		where = append(where, column+" = '"+strings.ReplaceAll(printable(values[i]), "'", "''")+"'")
	}
	what, old := "its MAC does not match", ""
	if mac == "" {
		what = "it has no MAC"
		old = "; or, if you restored a database from before the introduction of MACs, remove the line " + strconv.Quote(rowmac.MarkOf(t.Name)) + " from " + identityFile
	}
	return fail.Wrap(fail.Refused, ErrForged, "row %s of table %s was not written with this store's identity: %s", strings.Join(where, " and "), t.Name, what).
		At(t.Name+"/"+printable(strings.Join(values[:len(t.Key)], "/"))).
		Do("find out who writes to the database; then restore a backup (naupegos store restore), or remove the row: DELETE FROM %s WHERE %s%s", t.Name, strings.Join(where, " AND "), old)
}

// current returns ErrRenewed if the store's identity changed since this process opened the store. In a transaction it also blocks a rotation until the
// transaction ends.
func (s *database) current(ctx context.Context, q querier) error {
	query := "SELECT value FROM store_facts WHERE name = $1"
	if _, inTx := q.(*sql.Tx); inTx {
		query += s.d.SQL().ForShare
	}
	known, err := one(ctx, s, q, value[string], query, recipientFact)
	if errors.Is(err, sql.ErrNoRows) || err == nil && known != s.identity.Recipient().String() {
		return renewed(s)
	}
	return s.wrap(err, "read the store")
}

func renewed(s *database) error {
	return fail.Wrap(fail.Conflict, ErrRenewed, "the store's identity was rotated since this process opened the store").At(s.where).
		Do("copy the new identity.age to %s if it is not there, and restart the process", s.dir)
}

// changeSigned is change for rows that carry a MAC.
func (s *database) changeSigned(ctx context.Context, r repeatable, write func(tx *sql.Tx) error) error {
	return s.change(ctx, s.db, r, func(tx *sql.Tx) error {
		if err := s.current(ctx, tx); err != nil {
			return err
		}
		return write(tx)
	})
}

// authenticate adds MACs to the rows of an older store. It does so only once for each set, because the identity's file records it: a writer of the database
// can remove the store's own record, but not that in the file.
func (s *database) authenticate(ctx context.Context) error {
	for _, set := range rowmac.Sets() {
		if slices.Contains(s.marked, set.Mark) {
			continue
		}
		if err := authenticateSet(ctx, s, set); err != nil {
			return err
		}
	}
	return nil
}

func authenticateSet(ctx context.Context, s *database, set rowmac.Set) error {
	unlock, err := s.d.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.change(ctx, s.db, twice, addMACs(ctx, s, set)); err != nil {
		return s.wrap(err, "authenticate the rows of the store")
	}
	return s.mark(filepath.Join(s.dir, identityFile), set.Mark)
}

func addMACs(ctx context.Context, s *database, set rowmac.Set) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		if do := s.d.SQL().Exclusive; do != "" {
			if _, err := tx.ExecContext(ctx, do); err != nil {
				return err
			}
		}
		is, err := one(ctx, s, tx, value[string], "SELECT value FROM store_facts WHERE name = $1", set.Fact)
		if err == nil && hmac.Equal([]byte(is), []byte(authValue(s, set))) {
			return nil // another process with the identity did it
		}
		if err == nil {
			return fail.New(fail.Refused, "the store's record that its rows carry MACs was not written with its identity").At("store_facts/" + set.Fact).
				Do("find out who writes to the database, and restore a backup: naupegos store restore")
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		for _, t := range set.Tables {
			if err := addTableMACs(ctx, s, tx, t); err != nil {
				return err
			}
		}
		return s.putFact(ctx, tx, set.Fact, authValue(s, set))
	}
}

// authValue returns the value of a set's fact.
func authValue(s *database, set rowmac.Set) string {
	return rowmac.Of(s.rowKey, "store_facts", set.Fact, s.identity.Recipient().String())
}

// putAuthFacts stores the facts of all sets.
func putAuthFacts(ctx context.Context, s *database, tx *sql.Tx) error {
	for _, set := range rowmac.Sets() {
		if err := s.putFact(ctx, tx, set.Fact, authValue(s, set)); err != nil {
			return err
		}
	}
	return nil
}

func addTableMACs(ctx context.Context, s *database, tx *sql.Tx, t rowmac.Table) error {
	rows, err := s.macRows(ctx, tx, t)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.mac != "" { // older stores have no MACs: the record was removed
			return notAuthentic(t, r.mac, r.values)
		}
		if err := s.putMAC(ctx, tx, t, r.values); err != nil {
			return err
		}
	}
	return nil
}

// macRow is the part of a row that its MAC covers.
type macRow struct {
	mac    string
	values []string
}

func (s *database) macRows(ctx context.Context, tx *sql.Tx, t rowmac.Table) ([]macRow, error) {
	return list(ctx, s, tx, func(row scanner) (r macRow, err error) {
		r.values = make([]string, len(t.Columns()))
		into := []any{&r.mac}
		for i := range r.values {
			into = append(into, &r.values[i])
		}
		return r, row.Scan(into...)
	}, "SELECT mac, "+strings.Join(t.Columns(), ", ")+" FROM "+t.Name)
}

// putMAC writes the MAC of an existing row.
func (s *database) putMAC(ctx context.Context, tx *sql.Tx, t rowmac.Table, values []string) error {
	where, args := make([]string, 0, len(t.Key)), []any{s.mac(t, values...)}
	for i, column := range t.Key {
		args = append(args, values[i])
		where = append(where, column+" = $"+strconv.Itoa(len(args)))
	}
	_, err := tx.ExecContext(ctx, "UPDATE "+t.Name+" SET mac = $1 WHERE "+strings.Join(where, " AND "), args...) //nolint:gosec // names of rowmac.Tables
	return err
}

// putFact stores a fact about the store itself.
func (s *database) putFact(ctx context.Context, tx *sql.Tx, name, text string) error {
	return run(ctx, tx, "INSERT INTO store_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, text)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
