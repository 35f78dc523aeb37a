// Package rowmac authenticates rows of the store: which tables carry MACs, over which columns, and since which release.
package rowmac

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"

	"filippo.io/age"
)

// Table is a table whose rows carry a MAC in the column mac.
type Table struct {
	Name string
	Key  []string // the primary key
	rest []string // the other columns that the MAC covers
}

// The tables with rights and keys. A MAC covers the row's place (table and primary key) and content. Its key is derived from the identity, so rows from
// another place, another store or a former identity do not verify.
var (
	Tokens        = Table{"tokens", []string{"id"}, []string{"name", "hash", "role", "cluster", "created_at", "expires", "revoked", "reason"}}
	Sessions      = Table{"sessions", []string{"id"}, []string{"hash", "issuer", "subject", "name", "claims", "hint", "created_at", "expires", "proven"}}
	ClusterKeys   = Table{"cluster_keys", []string{"cluster_id"}, []string{"wrapped"}}
	Secrets       = Table{"secrets", []string{"cluster_id", "name"}, []string{"sealed"}}
	ServerSecrets = Table{"server_secrets", []string{"name"}, []string{"sealed"}}
	Sinks         = Table{"audit_sinks", []string{"sink"}, []string{"seq", "hash"}}
	Clusters      = Table{"clusters", []string{"id"}, []string{"name", "provider", "document", "created_at"}}
	Facts         = Table{"facts", []string{"cluster_id", "kind", "subject"}, []string{"value"}}
	Jobs          = Table{"jobs", []string{"id"}, []string{"cluster", "verb", "title", "request", "who", "state", "agreed", "result", "created_at", "ended"}}
	Machines      = Table{"machines", []string{"uuid"}, []string{"name", "state", "approval", "waits", "origin", "unusable", "cluster", "pool", "seat", "record", "facts_sum", "parts_sum"}}
	LockTokens    = Table{"lock_tokens", []string{"id"}, []string{"group_name", "hash", "created_at", "expires"}}
)

// Set is a set of tables that got MACs in the same release. Each set has two records of it: a fact in the store, whose value is a MAC too and so needs the identity, and a
// line of the identity's file, which a writer of the database cannot change.
type Set struct {
	Fact, Mark string
	Tables     []Table
}

// Sets returns the sets, oldest first. Copies of the identity's file carry the lines to other hosts that share the store. After an older database was
// restored by hand, the line has to be removed, and the next open adds MACs to the rows.
func Sets() []Set {
	return []Set{
		{"rows-authenticated", "# The store's rows carry MACs: rows without one are refused.", []Table{Tokens, Sessions, ClusterKeys, Secrets, ServerSecrets, Sinks}},
		{"records-authenticated", "# Records of clusters and jobs carry MACs, too: those without one are refused.", []Table{Clusters, Facts, Jobs}},
		{"machines-authenticated", "# Records of physical machines carry MACs, too: those without one are refused.", []Table{Machines, LockTokens}},
	}
}

// Tables returns the tables of all sets.
func Tables() (all []Table) {
	for _, set := range Sets() {
		all = append(all, set.Tables...)
	}
	return all
}

// MarkOf returns the line that the identity's file has for a table.
func MarkOf(name string) string {
	for _, set := range Sets() {
		if slices.ContainsFunc(set.Tables, func(t Table) bool { return t.Name == name }) {
			return set.Mark
		}
	}
	return ""
}

// Marks returns the lines of an identity's file for all sets.
func Marks() (text string) {
	for _, set := range Sets() {
		text += set.Mark + "\n"
	}
	return text
}

// Columns returns the columns that the MAC covers, starting with the primary key.
func (t Table) Columns() []string { return slices.Concat(t.Key, t.rest) }

// Key derives the key of rows' MACs from an identity.
func Key(id *age.X25519Identity) []byte {
	key, err := hkdf.Key(sha256.New, []byte(id.String()), nil, "naupegos store rows v1", sha256.Size)
	if err != nil { // only for an invalid length
		panic(err)
	}
	return key
}

// Of returns the MAC of a row by the values of its columns. It prefixes each part with its length, which makes the input unambiguous.
func Of(key []byte, table string, values ...string) string {
	h := hmac.New(sha256.New, key)
	for _, part := range append([]string{table}, values...) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		_, _ = h.Write(n[:]) // hashes never fail
		_, _ = h.Write([]byte(part))
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}
