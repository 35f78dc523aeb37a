package store

import (
	"context"
	"crypto/hmac"
	"database/sql"
	"errors"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/rowmac"
)

// Access stores tokens, sessions and their last use.
type Access interface {
	// AddToken stores a token. It returns fail.Conflict if its ID exists already.
	AddToken(ctx context.Context, t Token) error
	// Token returns the token with an ID, even an expired or revoked one, or fail.NotFound.
	Token(ctx context.Context, id string) (*Token, error)
	// Tokens returns all tokens, oldest first.
	Tokens(ctx context.Context) ([]Token, error)
	// RevokeToken revokes a token immediately and permanently, or returns fail.NotFound.
	RevokeToken(ctx context.Context, id string) error
	// AddSession stores a session, and deletes expired ones.
	AddSession(ctx context.Context, x Session) error
	// Session returns the session with an ID, even an expired one, or fail.NotFound.
	Session(ctx context.Context, id string) (*Session, error)
	// Sessions returns the sessions that have not expired, oldest first.
	Sessions(ctx context.Context) ([]Session, error)
	// EndSession deletes a session, or returns fail.NotFound.
	EndSession(ctx context.Context, id string) error
	// UsedToken and UsedSession record the last use. They ignore tokens and sessions that no longer exist.
	UsedToken(ctx context.Context, id string, at time.Time) error
	UsedSession(ctx context.Context, id string, at time.Time) error
	Auditing
}

// Token is an operator's credential for the server. Only the operator has its secret half.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"` // its owner or purpose
	Hash    string    `json:"-"`    // of the secret half
	Role    string    `json:"role"`
	Cluster string    `json:"cluster,omitempty"` // the only cluster that it is valid for; empty: all
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"` // zero: not revoked
	Reason  string    `json:"reason,omitempty"` // for never expiring
	Used    time.Time `json:"used,omitzero"`    // last use, to the minute; zero: never
}

// Session is a user who signed in to the pages through an OpenID Connect provider. Copies of a store contain no sessions: users sign in again.
type Session struct {
	ID      string    `json:"id"`
	Hash    string    `json:"-"` // of the secret half, which the browser holds
	Issuer  string    `json:"issuer"`
	Subject string    `json:"subject"` // the issuer's name for the user
	Name    string    `json:"name"`    // for people
	Claims  []byte    `json:"-"`       // JSON: input of the rules
	Hint    string    `json:"-"`       // lets the issuer end its own session; sealed by the secret half; empty: none
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	Used    time.Time `json:"used,omitzero"`   // last use, to the minute; zero: never used
	Proven  time.Time `json:"proven,omitzero"` // time of authentication at the issuer; zero: unknown
}

// AddToken implements Access.
func (s *database) AddToken(ctx context.Context, t Token) error {
	t.Revoked, t.Reason = time.Time{}, printable(t.Reason)
	err := s.changeSigned(ctx, once, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO tokens (id, name, hash, role, cluster, created_at, expires, revoked, reason, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9)",
			t.ID, t.Name, t.Hash, t.Role, t.Cluster, micros(t.Created), micros(t.Expires), t.Reason, s.mac(rowmac.Tokens, t.macValues()...))
		return err
	})
	if s.d.IsUnique(err) {
		return fail.New(fail.Conflict, "there is a token of the ID %s already", t.ID)
	}
	return s.wrap(err, "remember the token %s", t.ID)
}

const selectToken = "SELECT id, name, hash, role, cluster, created_at, expires, revoked, reason, used, mac FROM tokens" //nolint:gosec // of each token there is the hash

// Token implements Access.
func (s *database) Token(ctx context.Context, id string) (*Token, error) {
	t, err := one(ctx, s, s.reads, scanToken, selectToken+" WHERE id = $1", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fail.New(fail.NotFound, "there is no token %s", id).Do("naupegos server token list shows them")
	}
	if err != nil {
		return nil, s.wrap(err, "read the token %s", id)
	}
	if err := s.verify(ctx, rowmac.Tokens, t.mac, t.macValues()...); err != nil {
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
		if err := s.verify(ctx, rowmac.Tokens, t.mac, t.macValues()...); err != nil {
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

// UsedToken implements Access.
func (s *database) UsedToken(ctx context.Context, id string, at time.Time) error {
	_, err := s.exec(ctx, s.log, "UPDATE tokens SET used = $1 WHERE id = $2 AND used < $3", micros(at), id, micros(at))
	return s.wrap(err, "record the use of token %s", id)
}

// revoke revokes a token, unless it is already revoked or gone.
func (s *database) revoke(ctx context.Context, tx *sql.Tx, id string, at int64) error {
	t, err := one(ctx, s, tx, scanToken, selectToken+" WHERE id = $1"+s.d.SQL().ForUpdate, id)
	if errors.Is(err, sql.ErrNoRows) || err == nil && !t.Revoked.IsZero() {
		return nil
	}
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(t.mac), []byte(s.mac(rowmac.Tokens, t.macValues()...))) { // a new MAC would legitimize a forged row
		return notAuthentic(rowmac.Tokens, t.mac, t.macValues())
	}
	t.Revoked = fromMicros(at)
	return run(ctx, tx, "UPDATE tokens SET revoked = $1, mac = $2 WHERE id = $3", at, s.mac(rowmac.Tokens, t.macValues()...), id)
}

// macValues returns the values of macTokens' columns. The last use is not among them, because each request would have to sign the row again.
func (t *Token) macValues() []string {
	return []string{t.ID, t.Name, t.Hash, t.Role, t.Cluster, decimal(micros(t.Created)), decimal(micros(t.Expires)), decimal(micros(t.Revoked)), t.Reason}
}

// signedToken is a token with the MAC of its row.
type signedToken struct {
	Token
	mac string
}

func scanToken(row scanner) (t signedToken, err error) {
	var created, expires, revoked, used int64
	err = row.Scan(&t.ID, &t.Name, &t.Hash, &t.Role, &t.Cluster, &created, &expires, &revoked, &t.Reason, &used, &t.mac)
	t.Created, t.Expires, t.Revoked, t.Used = fromMicros(created), fromMicros(expires), fromMicros(revoked), fromMicros(used)
	return t, err
}

// AddSession implements Access.
func (s *database) AddSession(ctx context.Context, x Session) error {
	x.Subject, x.Name = printable(x.Subject), printable(x.Name)
	err := s.changeSigned(ctx, once, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE expires < $1", micros(time.Now())); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO sessions (id, hash, issuer, subject, name, claims, hint, created_at, expires, proven, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
			x.ID, x.Hash, x.Issuer, x.Subject, x.Name, string(x.Claims), x.Hint, micros(x.Created), micros(x.Expires), micros(x.Proven), s.mac(rowmac.Sessions, x.macValues()...))
		return err
	})
	return s.wrap(err, "remember the session %s", x.ID)
}

const selectSession = "SELECT id, hash, issuer, subject, name, claims, hint, created_at, expires, used, proven, mac FROM sessions"

// Session implements Access.
func (s *database) Session(ctx context.Context, id string) (*Session, error) {
	x, err := one(ctx, s, s.reads, scanSession, selectSession+" WHERE id = $1", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noSession(id)
	}
	if err != nil {
		return nil, s.wrap(err, "read the session %s", id)
	}
	if err := s.verify(ctx, rowmac.Sessions, x.mac, x.macValues()...); err != nil {
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
		if err := s.verify(ctx, rowmac.Sessions, x.mac, x.macValues()...); err != nil {
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

// UsedSession implements Access.
func (s *database) UsedSession(ctx context.Context, id string, at time.Time) error {
	_, err := s.exec(ctx, s.log, "UPDATE sessions SET used = $1 WHERE id = $2 AND used < $3", micros(at), id, micros(at))
	return s.wrap(err, "record the use of session %s", id)
}

// macValues returns the values of macSessions' columns.
func (x *Session) macValues() []string {
	return []string{x.ID, x.Hash, x.Issuer, x.Subject, x.Name, string(x.Claims), x.Hint, decimal(micros(x.Created)), decimal(micros(x.Expires)), decimal(micros(x.Proven))}
}

// signedSession is a session with the MAC of its row.
type signedSession struct {
	Session
	mac string
}

func scanSession(row scanner) (x signedSession, err error) {
	var claims string
	var created, expires, used, proven int64
	err = row.Scan(&x.ID, &x.Hash, &x.Issuer, &x.Subject, &x.Name, &claims, &x.Hint, &created, &expires, &used, &proven, &x.mac)
	x.Claims, x.Created, x.Expires, x.Used, x.Proven = []byte(claims), fromMicros(created), fromMicros(expires), fromMicros(used), fromMicros(proven)
	return x, err
}
