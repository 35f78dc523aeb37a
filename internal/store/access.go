package store

import (
	"context"
	"crypto/hmac"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// keepAudit is how long the audit remembers.
const keepAudit = 2 * 365 * 24 * time.Hour

// Access is who may use the server, and what they did.
type Access interface {
	// AddToken remembers a token: fail.Conflict if there is one of its ID.
	AddToken(ctx context.Context, t Token) error
	// Token returns the token of an ID, also one that has ended: fail.NotFound if there is none.
	Token(ctx context.Context, id string) (*Token, error)
	// Tokens returns all tokens, the oldest first.
	Tokens(ctx context.Context) ([]Token, error)
	// RevokeToken ends a token at once, and for good: fail.NotFound if there is none of this ID. One that was revoked stays so.
	RevokeToken(ctx context.Context, id string) error
	// AddSession remembers a session, and forgets those that have ended.
	AddSession(ctx context.Context, x Session) error
	// Session returns the session of an ID, also one whose time is over: fail.NotFound if there is none.
	Session(ctx context.Context, id string) (*Session, error)
	// Sessions returns the sessions that last, the oldest first.
	Sessions(ctx context.Context) ([]Session, error)
	// EndSession forgets a session: fail.NotFound if there is none of this ID.
	EndSession(ctx context.Context, id string) error
	// Note adds an entry to the audit, and forgets what is older than two years.
	Note(ctx context.Context, e AuditEntry) error
	// Audit returns the entries that a query finds, the newest first unless it wants the oldest.
	Audit(ctx context.Context, q AuditQuery) ([]AuditEntry, error)
}

// Token is what an operator shows the server. Its secret half is nowhere but with the operator.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"` // whose it is, or what for
	Hash    string    `json:"-"`    // of the secret half
	Role    string    `json:"role"`
	Cluster string    `json:"cluster,omitempty"` // the only one that it is good for; empty: all
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"` // zero: not
}

// Session is somebody who has signed in to the pages by an OpenID Connect provider. No copy of a store has any: people sign in again.
type Session struct {
	ID      string    `json:"id"`
	Hash    string    `json:"-"` // of the secret half, which the browser has
	Issuer  string    `json:"issuer"`
	Subject string    `json:"subject"` // as the issuer calls them
	Name    string    `json:"name"`    // for people
	Claims  []byte    `json:"-"`       // JSON: what rules go by
	Hint    string    `json:"-"`       // by what the issuer ends its own session, sealed by the secret half; empty: nothing
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// AuditEntry is one thing that somebody did, or tried to.
type AuditEntry struct {
	At      time.Time `json:"at"`
	Who     string    `json:"who"`  // a token's name and ID, or "nobody"
	From    string    `json:"from"` // the address
	Action  string    `json:"action"`
	Cluster string    `json:"cluster,omitempty"`
	Outcome string    `json:"outcome"` // "done", or the kind of error
}

// AuditQuery says which entries are looked for; what is empty or zero restricts nothing.
type AuditQuery struct {
	Who, Cluster, Outcome string
	Since                 time.Time
	Text                  string // a part of any of the fields, in capitals or not
	Limit                 int    // 0: 100
	Offset                int    // so many of the first are left out
	Oldest                bool   // the oldest come first
}

// AddToken implements Access.
func (s *database) AddToken(ctx context.Context, t Token) error {
	t.Revoked = time.Time{}
	err := s.changeSigned(ctx, once, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO tokens (id, name, hash, role, cluster, created_at, expires, revoked, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8)",
			t.ID, t.Name, t.Hash, t.Role, t.Cluster, micros(t.Created), micros(t.Expires), s.mac(macTokens, t.macValues()...))
		return err
	})
	if s.d.isUnique(err) {
		return fail.New(fail.Conflict, "there is a token of the ID %s already", t.ID)
	}
	return s.wrap(err, "remember the token %s", t.ID)
}

const selectToken = "SELECT id, name, hash, role, cluster, created_at, expires, revoked, mac FROM tokens" //nolint:gosec // of each token there is the hash

// Token implements Access.
func (s *database) Token(ctx context.Context, id string) (*Token, error) {
	t, err := one(ctx, s, s.reads, scanToken, selectToken+" WHERE id = $1", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fail.New(fail.NotFound, "there is no token %s", id).Do("naupegos server token list shows them")
	}
	if err != nil {
		return nil, s.wrap(err, "read the token %s", id)
	}
	if err := s.verify(ctx, macTokens, t.mac, t.macValues()...); err != nil {
		return nil, err
	}
	return &t.Token, nil
}

// Tokens implements Access.
func (s *database) Tokens(ctx context.Context) ([]Token, error) {
	found, err := list(ctx, s, s.reads, scanToken, selectToken+" ORDER BY created_at, id")
	if err != nil {
		return nil, s.wrap(err, "list the tokens")
	}
	all := make([]Token, 0, len(found))
	for _, t := range found {
		if err := s.verify(ctx, macTokens, t.mac, t.macValues()...); err != nil {
			return nil, err
		}
		all = append(all, t.Token)
	}
	return all, nil
}

// RevokeToken implements Access.
func (s *database) RevokeToken(ctx context.Context, id string) error {
	if _, err := s.Token(ctx, id); err != nil {
		return err
	}
	err := s.changeSigned(ctx, twice, func(tx *sql.Tx) error { return s.revoke(ctx, tx, id, micros(time.Now())) })
	return s.wrap(err, "revoke the token %s", id)
}

// revoke revokes a token unless it is revoked, or gone.
func (s *database) revoke(ctx context.Context, tx *sql.Tx, id string, at int64) error {
	t, err := one(ctx, s, tx, scanToken, selectToken+" WHERE id = $1"+s.d.sql().forUpdate, id)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !t.Revoked.IsZero() {
		return nil
	}
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(t.mac), []byte(s.mac(macTokens, t.macValues()...))) { // a new MAC would make it a good row
		return notAuthentic(macTokens, t.mac, t.macValues())
	}
	t.Revoked = fromMicros(at)
	_, err = tx.ExecContext(ctx, "UPDATE tokens SET revoked = $1, mac = $2 WHERE id = $3", at, s.mac(macTokens, t.macValues()...), id)
	return err
}

// macValues are those of macTokens.
func (t *Token) macValues() []string {
	return []string{t.ID, t.Name, t.Hash, t.Role, t.Cluster, decimal(micros(t.Created)), decimal(micros(t.Expires)), decimal(micros(t.Revoked))}
}

// signedToken is a token with the MAC of its row.
type signedToken struct {
	Token
	mac string
}

func scanToken(row scanner) (t signedToken, err error) {
	var created, expires, revoked int64
	err = row.Scan(&t.ID, &t.Name, &t.Hash, &t.Role, &t.Cluster, &created, &expires, &revoked, &t.mac)
	t.Created, t.Expires, t.Revoked = fromMicros(created), fromMicros(expires), fromMicros(revoked)
	return t, err
}

// AddSession implements Access.
func (s *database) AddSession(ctx context.Context, x Session) error {
	x.Subject, x.Name = printable(x.Subject), printable(x.Name)
	err := s.changeSigned(ctx, once, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE expires < $1", micros(time.Now())); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO sessions (id, hash, issuer, subject, name, claims, hint, created_at, expires, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
			x.ID, x.Hash, x.Issuer, x.Subject, x.Name, string(x.Claims), x.Hint, micros(x.Created), micros(x.Expires), s.mac(macSessions, x.macValues()...))
		return err
	})
	return s.wrap(err, "remember the session %s", x.ID)
}

const selectSession = "SELECT id, hash, issuer, subject, name, claims, hint, created_at, expires, mac FROM sessions"

// Session implements Access.
func (s *database) Session(ctx context.Context, id string) (*Session, error) {
	x, err := one(ctx, s, s.reads, scanSession, selectSession+" WHERE id = $1", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noSession(id)
	}
	if err != nil {
		return nil, s.wrap(err, "read the session %s", id)
	}
	if err := s.verify(ctx, macSessions, x.mac, x.macValues()...); err != nil {
		return nil, err
	}
	return &x.Session, nil
}

func noSession(id string) error {
	return fail.New(fail.NotFound, "there is no session %s", id).Do("naupegos server session list shows them")
}

// Sessions implements Access.
func (s *database) Sessions(ctx context.Context) ([]Session, error) {
	found, err := list(ctx, s, s.reads, scanSession, selectSession+" WHERE expires >= $1 ORDER BY created_at, id", micros(time.Now()))
	if err != nil {
		return nil, s.wrap(err, "list the sessions")
	}
	all := make([]Session, 0, len(found))
	for _, x := range found {
		if err := s.verify(ctx, macSessions, x.mac, x.macValues()...); err != nil {
			return nil, err
		}
		all = append(all, x.Session)
	}
	return all, nil
}

// EndSession implements Access.
func (s *database) EndSession(ctx context.Context, id string) error {
	done, err := s.exec(ctx, s.db, "DELETE FROM sessions WHERE id = $1", id)
	if err == nil && done == 0 {
		return noSession(id)
	}
	return s.wrap(err, "end the session %s", id)
}

// macValues are those of macSessions.
func (x *Session) macValues() []string {
	return []string{x.ID, x.Hash, x.Issuer, x.Subject, x.Name, string(x.Claims), x.Hint, decimal(micros(x.Created)), decimal(micros(x.Expires))}
}

// signedSession is a session with the MAC of its row.
type signedSession struct {
	Session
	mac string
}

func scanSession(row scanner) (x signedSession, err error) {
	var claims string
	var created, expires int64
	err = row.Scan(&x.ID, &x.Hash, &x.Issuer, &x.Subject, &x.Name, &claims, &x.Hint, &created, &expires, &x.mac)
	x.Claims, x.Created, x.Expires = []byte(claims), fromMicros(created), fromMicros(expires)
	return x, err
}

// Note implements Access.
func (s *database) Note(ctx context.Context, e AuditEntry) error {
	err := s.change(ctx, s.db, once, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO audit (id, at, who, origin, action, cluster, outcome) VALUES ($1, $2, $3, $4, $5, $6, $7)",
			randomHex(12), micros(e.At), printable(e.Who), printable(e.From), printable(e.Action), printable(e.Cluster), printable(e.Outcome))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM audit WHERE at < $1", micros(e.At.Add(-keepAudit)))
		return err
	})
	return s.wrap(err, "write the audit")
}

// Audit implements Access.
func (s *database) Audit(ctx context.Context, q AuditQuery) ([]AuditEntry, error) {
	if q.Limit <= 0 {
		q.Limit = 100
	}
	order := "at DESC, id"
	if q.Oldest {
		order = "at, id DESC"
	}
	// As it was written, too: SQLite knows only of ASCII's letters which belong together.
	all, err := list(ctx, s, s.reads, scanAudit, `SELECT at, who, origin, action, cluster, outcome FROM audit
		WHERE ($1 = '' OR who = $1) AND ($2 = '' OR cluster = $2) AND ($3 = '' OR outcome = $3) AND at >= $4
		AND ($5 = '' OR LOWER(`+auditText+`) LIKE $5 ESCAPE '\' OR `+auditText+` LIKE $6 ESCAPE '\') ORDER BY `+order+` LIMIT $7 OFFSET $8`,
		q.Who, q.Cluster, q.Outcome, micros(q.Since), partOf(strings.ToLower(q.Text)), partOf(q.Text), q.Limit, max(q.Offset, 0))
	if all == nil {
		all = []AuditEntry{}
	}
	return all, s.wrap(err, "read the audit")
}

// auditText is what an entry is searched for, a line a field.
const auditText = "(who || '\n' || origin || '\n' || action || '\n' || cluster || '\n' || outcome)"

// partOf is a pattern of LIKE for what has a text somewhere; empty for none.
func partOf(text string) string {
	if text = printable(text); text == "" {
		return ""
	}
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(text) + "%"
}

func scanAudit(row scanner) (e AuditEntry, err error) {
	var at int64
	err = row.Scan(&at, &e.Who, &e.From, &e.Action, &e.Cluster, &e.Outcome)
	e.At = fromMicros(at)
	return e, err
}
