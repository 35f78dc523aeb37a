package store

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	foreign "github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// keepAudit is the age at which entries are pruned.
const keepAudit = 2 * 365 * 24 * time.Hour

// mostField is the maximum length of an entry's field in bytes.
const mostField = 1000

// Auditing is the audit log: a chain of entries, each signed and with the hash of the previous entry.
type Auditing interface {
	// Note adds an entry, and prunes entries that are older than two years.
	Note(ctx context.Context, e AuditEntry) error
	// Audit returns the entries that match a query, newest first by default.
	Audit(ctx context.Context, q AuditQuery) ([]AuditEntry, error)
	// AuditHead returns the signed head of the chain. AuditKey returns the public key of its signatures, and creates the key if necessary.
	AuditHead(ctx context.Context) (AuditHead, error)
	AuditKey(ctx context.Context) (ed25519.PublicKey, error)
	// AuditAfter returns the entries after a sequence number, in chain order.
	AuditAfter(ctx context.Context, seq int64, limit int) ([]AuditEntry, error)
	// AuditLoose returns the number of entries outside of an existing chain.
	AuditLoose(ctx context.Context) (int, error)
	// Forwarded returns the sequence number of the last entry that a sink received, 0 for a new sink. It returns fail.Refused if the store did not write
	// the position, or the entry there is another one. Forward stores the position, Unforward removes it.
	Forwarded(ctx context.Context, sink string) (int64, error)
	Forward(ctx context.Context, sink string, last AuditEntry) error
	Unforward(ctx context.Context, sink string) error
}

// AuditEntry is one operation or attempt.
type AuditEntry struct {
	Seq       int64     `json:"seq"` // position in the chain
	At        time.Time `json:"at"`
	Who       string    `json:"who"`               // a token's name and ID, or "nobody"
	Via       string    `json:"via,omitempty"`     // sign-in method
	Session   string    `json:"session,omitempty"` // token or session ID
	From      string    `json:"from"`              // client address
	Action    string    `json:"action"`
	Cluster   string    `json:"cluster,omitempty"`
	Outcome   string    `json:"outcome"`         // "begun", "done", or the reason for failure
	Count     int       `json:"count,omitempty"` // number of requests that it summarizes; 0: one
	Hash      string    `json:"hash"`            // SHA-256 of the entry and the previous hash
	Signature string    `json:"signature"`       // Ed25519 signature of the hash
}

// AuditHead is the signed head of the chain. It reveals missing entries at both ends.
type AuditHead struct {
	Seq       int64     `json:"seq"` // of the last entry
	Hash      string    `json:"hash"`
	First     int64     `json:"first"`  // the oldest kept entry
	Anchor    string    `json:"anchor"` // hash of the entry before that
	At        time.Time `json:"at"`
	Signature string    `json:"signature"`
}

// AuditQuery selects entries. Empty fields match everything.
type AuditQuery struct {
	Who, Cluster, Outcome string
	Since                 time.Time
	Text                  string // case-insensitive substring of any field
	Limit                 int    // 0: 100
	Offset                int    // number of matches to skip
	Oldest                bool   // oldest first
}

// link chains an entry to the previous one.
func (e *AuditEntry) link(before string, key ed25519.PrivateKey) {
	e.Hash = e.hashAfter(before)
	e.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, e.signed()))
}

// hashAfter returns the entry's hash, given the previous one.
func (e *AuditEntry) hashAfter(before string) string {
	raw, err := json.Marshal([]any{"naupegos audit 1", before, e.Seq, micros(e.At), e.Who, e.Via, e.Session, e.From, e.Action, e.Cluster, e.Outcome, e.Count})
	if err != nil {
		panic(err) // cannot happen with strings and numbers
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func (e *AuditEntry) signed() []byte { return []byte("naupegos audit entry\x00" + e.Hash) }

func (h *AuditHead) signed() []byte {
	raw, err := json.Marshal([]any{"naupegos audit head 1", h.Seq, h.Hash, h.First, h.Anchor, micros(h.At)})
	if err != nil {
		panic(err) // cannot happen with strings and numbers
	}
	return raw
}

func (h *AuditHead) sign(key ed25519.PrivateKey) {
	h.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, h.signed()))
}

// auditKeyName is the server secret with the seed of the audit's signing key.
const auditKeyName = "audit/signing-key"

// auditKey returns the audit's signing key. The first entry creates it. It is never recreated, because older entries would then look forged.
func auditKey(ctx context.Context, s *database) (ed25519.PrivateKey, error) {
	s.mu.Lock()
	key := s.signing
	s.mu.Unlock()
	if key != nil {
		return key, nil
	}
	secrets := s.ServerSecrets()
	seed, err := secrets.Get(ctx, auditKeyName)
	if fail.KindOf(err) == fail.NotFound {
		head, e := s.AuditHead(ctx)
		if e != nil {
			return nil, e
		}
		if head.Seq > 0 {
			return nil, fail.New(fail.Refused, "the audit log has %d entries, but their signing key is missing", head.Seq).At(s.where).Do("restore a backup of the store: naupegos store restore")
		}
		_, made, e := ed25519.GenerateKey(nil)
		if e != nil {
			return nil, fail.Wrap(fail.Internal, e, "create the audit log's key")
		}
		// Sign the empty log before storing the key: if a key exists, an unsigned empty log means that the log was deleted.
		if e := signEmpty(ctx, s, made); e != nil {
			return nil, e
		}
		if seed, err = secrets.PutIfAbsent(ctx, auditKeyName, made.Seed()); err == nil && len(seed) == ed25519.SeedSize && !bytes.Equal(seed, made.Seed()) {
			err = signEmpty(ctx, s, ed25519.NewKeyFromSeed(seed)) // another process was faster
		}
	}
	if err != nil {
		return nil, err
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fail.New(fail.Internal, "the audit log's key is damaged").At(s.where)
	}
	key = ed25519.NewKeyFromSeed(seed)
	s.mu.Lock()
	s.signing = key
	s.mu.Unlock()
	return key, nil
}

// signEmpty signs the head of a log without entries.
func signEmpty(ctx context.Context, s *database, key ed25519.PrivateKey) error {
	empty := AuditHead{First: 1}
	empty.sign(key)
	_, err := s.exec(ctx, s.log, "UPDATE audit_head SET hash = '', first = 1, anchor = '', at = $1, signature = $2 WHERE id = 1 AND seq = 0", micros(empty.At), empty.Signature)
	return s.wrap(err, "begin the audit")
}

// AuditKey implements Auditing.
func (s *database) AuditKey(ctx context.Context) (ed25519.PublicKey, error) {
	key, err := auditKey(ctx, s)
	if err != nil {
		return nil, err
	}
	return key.Public().(ed25519.PublicKey), nil // always that type
}

// Note implements Auditing.
func (s *database) Note(ctx context.Context, e AuditEntry) error {
	key, err := auditKey(ctx, s)
	if err != nil {
		return s.wrap(err, "write the audit")
	}
	for _, text := range []*string{&e.Who, &e.Via, &e.Session, &e.From, &e.Action, &e.Cluster, &e.Outcome} {
		*text = foreign.Clip(*text, mostField)
	}
	e.At = e.At.UTC().Truncate(time.Microsecond)
	err = s.change(ctx, s.db, once, func(tx *sql.Tx) error {
		head, err := one(ctx, s, tx, scanHead, selectHead+s.d.SQL().ForUpdate) // serializes writers
		if err != nil {
			return err
		}
		if err := vouch(ctx, s, tx, &head, key.Public().(ed25519.PublicKey)); err != nil { // always that type
			return err
		}
		last := head.At
		e.Seq = head.Seq + 1
		e.link(head.Hash, key)
		_, err = tx.ExecContext(ctx, "INSERT INTO audit (id, at, who, origin, action, cluster, outcome, seq, via, session, repeated, hash, signature) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
			randomHex(12), micros(e.At), e.Who, e.From, e.Action, e.Cluster, e.Outcome, e.Seq, e.Via, e.Session, e.Count, e.Hash, e.Signature)
		if err != nil {
			return err
		}
		head.Seq, head.Hash, head.At = e.Seq, e.Hash, e.At
		if err := pruneAudit(ctx, s, tx, &head, last); err != nil {
			return err
		}
		head.sign(key)
		_, err = tx.ExecContext(ctx, "UPDATE audit_head SET seq = $1, hash = $2, first = $3, anchor = $4, at = $5, signature = $6 WHERE id = 1",
			head.Seq, head.Hash, head.First, head.Anchor, micros(head.At), head.Signature)
		return err
	})
	return s.wrap(err, "write the audit")
}

// vouch checks the head's signature and the hash of the last entry. Signing a new head on top of a changed log would hide the change.
func vouch(ctx context.Context, s *database, tx *sql.Tx, head *AuditHead, key ed25519.PublicKey) error {
	if !signs(key, head.signed(), head.Signature) {
		return broken("the head of the audit log, at entry %d, is not signed with its key; nothing is added to it", head.Seq)
	}
	if head.Seq == 0 {
		return nil
	}
	last, err := one(ctx, s, tx, value[string], "SELECT hash FROM audit WHERE seq = $1", head.Seq)
	if errors.Is(err, sql.ErrNoRows) || err == nil && last != head.Hash {
		return broken("entry %d of the audit log is missing or was changed; nothing is added to the log", head.Seq)
	}
	return err
}

// pruned is the maximum number of old entries that one new entry prunes: while the clock is wrong, few are lost.
const pruned = 2

// pruneAudit deletes entries older than keepAudit, and records the chain's new beginning in its head. last is the time of the entry before the new one.
func pruneAudit(ctx context.Context, s *database, tx *sql.Tx, head *AuditHead, last time.Time) error {
	now, err := s.now(ctx, tx)
	if err != nil {
		return err
	}
	limit := now.Add(-keepAudit)
	for _, at := range []time.Time{head.At, last} { // the earliest of the clocks
		if at := at.Add(-keepAudit); at.Before(limit) {
			limit = at
		}
	}
	old, err := collect(ctx, tx, scanAudit, selectAudit+" WHERE seq >= $1 ORDER BY seq LIMIT $2", []any{head.First, pruned})
	if err != nil || len(old) == 0 || !old[0].At.Before(limit) {
		return err
	}
	for _, e := range old {
		if !e.At.Before(limit) || e.Seq == head.Seq {
			break
		}
		head.First, head.Anchor = e.Seq+1, e.Hash
	}
	return run(ctx, tx, "DELETE FROM audit WHERE seq > 0 AND seq < $1", head.First)
}

const selectHead = "SELECT seq, hash, first, anchor, at, signature FROM audit_head WHERE id = 1"

func scanHead(row scanner) (h AuditHead, err error) {
	var at int64
	err = row.Scan(&h.Seq, &h.Hash, &h.First, &h.Anchor, &at, &h.Signature)
	h.At = fromMicros(at)
	return h, err
}

// AuditHead implements Auditing.
func (s *database) AuditHead(ctx context.Context) (AuditHead, error) {
	h, err := one(ctx, s, s.reads, scanHead, selectHead)
	return h, s.wrap(err, "read the end of the audit")
}

// AuditAfter implements Auditing.
func (s *database) AuditAfter(ctx context.Context, seq int64, limit int) ([]AuditEntry, error) {
	all, err := list(ctx, s, s.reads, scanAudit, selectAudit+" WHERE seq > $1 ORDER BY seq LIMIT $2", max(seq, 0), limit)
	return all, s.wrap(err, "read the audit")
}

// AuditLoose implements Auditing.
func (s *database) AuditLoose(ctx context.Context) (int, error) {
	n, err := one(ctx, s, s.reads, value[int], "SELECT COUNT(*) FROM audit WHERE seq <= 0")
	return n, s.wrap(err, "read the audit")
}

// Forwarded implements Auditing.
func (s *database) Forwarded(ctx context.Context, sink string) (int64, error) {
	type position struct {
		seq       int64
		hash, mac string
	}
	at, err := one(ctx, s, s.reads, func(row scanner) (p position, err error) { return p, row.Scan(&p.seq, &p.hash, &p.mac) }, "SELECT seq, hash, mac FROM audit_sinks WHERE sink = $1", sink)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, s.wrap(err, "read a sink's position in the audit")
	}
	if err := s.verify(ctx, rowmac.Sinks, at.mac, sink, decimal(at.seq), at.hash); err != nil {
		return 0, err
	}
	head, err := s.AuditHead(ctx)
	if err != nil {
		return 0, err
	}
	entry, err := s.AuditAfter(ctx, at.seq-1, 1)
	if err != nil {
		return 0, err
	}
	if at.seq >= head.First && (len(entry) == 0 || entry[0].Seq != at.seq || entry[0].Hash != at.hash) {
		return 0, broken("entry %d of the audit log, which was forwarded, is missing or was changed", at.seq)
	}
	return at.seq, nil
}

// Forward implements Auditing.
func (s *database) Forward(ctx context.Context, sink string, last AuditEntry) error {
	err := s.changeSigned(ctx, twice, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO audit_sinks (sink, seq, hash, mac) VALUES ($1, $2, $3, $4) ON CONFLICT (sink) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, mac = excluded.mac",
			sink, last.Seq, last.Hash, s.mac(rowmac.Sinks, sink, decimal(last.Seq), last.Hash))
		return err
	})
	return s.wrap(err, "store a sink's position in the audit")
}

// Unforward implements Auditing.
func (s *database) Unforward(ctx context.Context, sink string) error {
	_, err := s.exec(ctx, s.log, "DELETE FROM audit_sinks WHERE sink = $1", sink)
	return s.wrap(err, "remove a sink's position in the audit")
}

// Audit implements Auditing.
func (s *database) Audit(ctx context.Context, q AuditQuery) ([]AuditEntry, error) {
	if q.Limit <= 0 {
		q.Limit = 100
	}
	order := "at DESC, seq DESC, id"
	if q.Oldest {
		order = "at, seq, id DESC"
	}
	// The query also matches the original text, because SQLite's LOWER converts only ASCII letters.
	all, err := list(ctx, s, s.reads, scanAudit, selectAudit+`
		WHERE ($1 = '' OR who = $1) AND ($2 = '' OR cluster = $2) AND ($3 = '' OR outcome = $3) AND at >= $4
		AND ($5 = '' OR LOWER(`+auditText+`) LIKE $5 ESCAPE '\' OR `+auditText+` LIKE $6 ESCAPE '\') ORDER BY `+order+` LIMIT $7 OFFSET $8`,
		q.Who, q.Cluster, q.Outcome, micros(q.Since), partOf(strings.ToLower(q.Text)), partOf(q.Text), q.Limit, max(q.Offset, 0))
	if all == nil {
		all = []AuditEntry{}
	}
	return all, s.wrap(err, "read the audit")
}

// auditText is the searchable text of an entry, one line per field.
const auditText = "(who || '\n' || origin || '\n' || action || '\n' || cluster || '\n' || outcome || '\n' || via || '\n' || session)"

// partOf returns the LIKE pattern for a substring, or "" for an empty one.
func partOf(text string) string {
	if text = printable(text); text == "" {
		return ""
	}
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(text) + "%"
}

const selectAudit = "SELECT seq, at, who, via, session, origin, action, cluster, outcome, repeated, hash, signature FROM audit"

func scanAudit(row scanner) (e AuditEntry, err error) {
	var at int64
	err = row.Scan(&e.Seq, &at, &e.Who, &e.Via, &e.Session, &e.From, &e.Action, &e.Cluster, &e.Outcome, &e.Count, &e.Hash, &e.Signature)
	e.At = fromMicros(at)
	return e, err
}
