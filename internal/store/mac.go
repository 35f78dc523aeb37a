package store

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
)

// ErrForged is the cause of the error for a row that was not written with the store's identity.
var ErrForged = errors.New("forged, or damaged")

// macTable is a table whose rows carry a MAC in the column mac.
type macTable struct {
	name string
	key  []string // the primary key
	rest []string // the other columns that the MAC covers
}

// The tables with rights and keys. A MAC covers the row's place (table and primary key) and content. Its key is derived from the identity, so rows from
// another place, another store or a former identity do not verify.
var (
	macTokens        = macTable{"tokens", []string{"id"}, []string{"name", "hash", "role", "cluster", "created_at", "expires", "revoked", "reason"}}
	macSessions      = macTable{"sessions", []string{"id"}, []string{"hash", "issuer", "subject", "name", "claims", "hint", "created_at", "expires", "proven"}}
	macClusterKeys   = macTable{"cluster_keys", []string{"cluster_id"}, []string{"wrapped"}}
	macSecrets       = macTable{"secrets", []string{"cluster_id", "name"}, []string{"sealed"}}
	macServerSecrets = macTable{"server_secrets", []string{"name"}, []string{"sealed"}}
	macSinks         = macTable{"audit_sinks", []string{"sink"}, []string{"seq", "hash"}}
	macClusters      = macTable{"clusters", []string{"id"}, []string{"name", "provider", "document", "created_at"}}
	macFacts         = macTable{"facts", []string{"cluster_id", "kind", "subject"}, []string{"value"}}
	macJobs          = macTable{"jobs", []string{"id"}, []string{"cluster", "verb", "title", "request", "who", "state", "agreed", "result", "created_at", "ended"}}
)

// macSet is a set of tables that got MACs in the same release. Each set has two records of it: a fact in the store, whose value is a MAC too and so needs the identity, and a
// line of the identity's file, which a writer of the database cannot change.
type macSet struct {
	fact, mark string
	tables     []macTable
}

// macSets returns the sets, oldest first. Copies of the identity's file carry the lines to other hosts that share the store. After an older database was
// restored by hand, the line has to be removed, and the next open adds MACs to the rows.
func macSets() []macSet {
	return []macSet{
		{"rows-authenticated", "# The store's rows carry MACs: rows without one are refused.", []macTable{macTokens, macSessions, macClusterKeys, macSecrets, macServerSecrets, macSinks}},
		{"records-authenticated", "# Records of clusters and jobs carry MACs, too: those without one are refused.", []macTable{macClusters, macFacts, macJobs}},
	}
}

func macTables() (all []macTable) {
	for _, set := range macSets() {
		all = append(all, set.tables...)
	}
	return all
}

// markOf returns the line that the identity's file has for a table.
func markOf(name string) string {
	for _, set := range macSets() {
		if slices.ContainsFunc(set.tables, func(t macTable) bool { return t.name == name }) {
			return set.mark
		}
	}
	return ""
}

// allMarks returns the lines of an identity's file for all sets.
func allMarks() (text string) {
	for _, set := range macSets() {
		text += set.mark + "\n"
	}
	return text
}

// columns returns the columns that the MAC covers, starting with the primary key.
func (t macTable) columns() []string { return slices.Concat(t.key, t.rest) }

// macKey derives the key of rows' MACs from an identity.
func macKey(id *age.X25519Identity) []byte {
	key, err := hkdf.Key(sha256.New, []byte(id.String()), nil, "naupegos store rows v1", sha256.Size)
	if err != nil { // only for an invalid length
		panic(err)
	}
	return key
}

// setIdentity sets the current identity.
func (s *database) setIdentity(id *age.X25519Identity) { s.identity, s.rowKey = id, macKey(id) }

// mac authenticates the values of t.columns.
func (s *database) mac(t macTable, values ...string) string {
	return rowMAC(s.rowKey, t.name, values...)
}

// rowMAC prefixes each part with its length, which makes the input unambiguous.
func rowMAC(key []byte, table string, values ...string) string {
	h := hmac.New(sha256.New, key)
	for _, part := range append([]string{table}, values...) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		_, _ = h.Write(n[:]) // hashes never fail
		_, _ = h.Write([]byte(part))
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// verify refuses a row that was not written with the identity.
func (s *database) verify(ctx context.Context, t macTable, mac string, values ...string) error {
	return verifyIn(ctx, s, s.reads, t, mac, values...)
}

// verifyIn is verify in a transaction. Call it before a row gets a new MAC, which would legitimize a forged one.
func verifyIn(ctx context.Context, s *database, q querier, t macTable, mac string, values ...string) error {
	if hmac.Equal([]byte(mac), []byte(s.mac(t, values...))) {
		return nil
	}
	if err := s.current(ctx, q); err != nil { // a rotation may have replaced the MAC
		return err
	}
	return notAuthentic(t, mac, values)
}

func notAuthentic(t macTable, mac string, values []string) error {
	where := make([]string, 0, len(t.key))
	for i, column := range t.key {
		where = append(where, column+" = '"+strings.ReplaceAll(printable(values[i]), "'", "''")+"'")
	}
	what, old := "its MAC does not match", ""
	if mac == "" {
		what = "it has no MAC"
		old = "; or, if you restored a database from before the introduction of MACs, remove the line " + strconv.Quote(markOf(t.name)) + " from " + identityFile
	}
	return fail.Wrap(fail.Refused, ErrForged, "row %s of table %s was not written with this store's identity: %s", strings.Join(where, " and "), t.name, what).
		At(t.name+"/"+printable(strings.Join(values[:len(t.key)], "/"))).
		Do("find out who writes to the database; then restore a backup (naupegos store restore), or remove the row: DELETE FROM %s WHERE %s%s", t.name, strings.Join(where, " AND "), old)
}

// current returns ErrRenewed if the store's identity changed since this process opened the store. In a transaction it also blocks a rotation until the
// transaction ends.
func (s *database) current(ctx context.Context, q querier) error {
	query := "SELECT value FROM store_facts WHERE name = $1"
	if _, inTx := q.(*sql.Tx); inTx {
		query += s.d.sql().forShare
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
	for _, set := range macSets() {
		if slices.Contains(s.marked, set.mark) {
			continue
		}
		if err := authenticateSet(ctx, s, set); err != nil {
			return err
		}
	}
	return nil
}

func authenticateSet(ctx context.Context, s *database, set macSet) error {
	unlock, err := s.d.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.change(ctx, s.db, twice, addMACs(ctx, s, set)); err != nil {
		return s.wrap(err, "authenticate the rows of the store")
	}
	return s.mark(filepath.Join(s.dir, identityFile), set.mark)
}

func addMACs(ctx context.Context, s *database, set macSet) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		if do := s.d.sql().exclusive; do != "" {
			if _, err := tx.ExecContext(ctx, do); err != nil {
				return err
			}
		}
		is, err := one(ctx, s, tx, value[string], "SELECT value FROM store_facts WHERE name = $1", set.fact)
		if err == nil && hmac.Equal([]byte(is), []byte(authValue(s, set))) {
			return nil // another process with the identity did it
		}
		if err == nil {
			return fail.New(fail.Refused, "the store's record that its rows carry MACs was not written with its identity").At("store_facts/" + set.fact).
				Do("find out who writes to the database, and restore a backup: naupegos store restore")
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		for _, t := range set.tables {
			if err := addTableMACs(ctx, s, tx, t); err != nil {
				return err
			}
		}
		return s.putFact(ctx, tx, set.fact, authValue(s, set))
	}
}

// authValue returns the value of a set's fact.
func authValue(s *database, set macSet) string {
	return rowMAC(s.rowKey, "store_facts", set.fact, s.identity.Recipient().String())
}

// putAuthFacts stores the facts of all sets.
func putAuthFacts(ctx context.Context, s *database, tx *sql.Tx) error {
	for _, set := range macSets() {
		if err := s.putFact(ctx, tx, set.fact, authValue(s, set)); err != nil {
			return err
		}
	}
	return nil
}

func addTableMACs(ctx context.Context, s *database, tx *sql.Tx, t macTable) error {
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

func (s *database) macRows(ctx context.Context, tx *sql.Tx, t macTable) ([]macRow, error) {
	return list(ctx, s, tx, func(row scanner) (r macRow, err error) {
		r.values = make([]string, len(t.columns()))
		into := []any{&r.mac}
		for i := range r.values {
			into = append(into, &r.values[i])
		}
		return r, row.Scan(into...)
	}, "SELECT mac, "+strings.Join(t.columns(), ", ")+" FROM "+t.name)
}

// putMAC writes the MAC of an existing row.
func (s *database) putMAC(ctx context.Context, tx *sql.Tx, t macTable, values []string) error {
	where, args := make([]string, 0, len(t.key)), []any{s.mac(t, values...)}
	for i, column := range t.key {
		args = append(args, values[i])
		where = append(where, column+" = $"+strconv.Itoa(len(args)))
	}
	_, err := tx.ExecContext(ctx, "UPDATE "+t.name+" SET mac = $1 WHERE "+strings.Join(where, " AND "), args...) //nolint:gosec // names of macTables
	return err
}

// putFact stores a fact about the store itself.
func (s *database) putFact(ctx context.Context, tx *sql.Tx, name, text string) error {
	return run(ctx, tx, "INSERT INTO store_facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, text)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
