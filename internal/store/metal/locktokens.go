package metal

import (
	"context"
	"database/sql"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// LockToken is a token for the reboot locks of one group.
type LockToken struct {
	ID      string    `json:"id"`
	Group   string    `json:"group"`
	Hash    string    `json:"-"` // SHA-256 of the secret half
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
}

// mostLockTokens limits the number of tokens, and thereby of groups.
const mostLockTokens = 1000

// AddLockToken implements Store.
func (s machines) AddLockToken(ctx context.Context, t LockToken) error {
	err := s.db.Write(ctx, false, func(tx Querier) error {
		if err := s.db.Current(ctx, tx); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM lock_tokens").Scan(&n); err != nil {
			return err
		}
		if n >= mostLockTokens {
			return fail.New(fail.Refused, "the limit of %d group tokens is reached", n).Do("revoke some: naupegos machine lock-token revoke ID")
		}
		_, err := run(ctx, tx, "INSERT INTO lock_tokens (id, group_name, hash, created_at, expires, mac) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING",
			t.ID, t.Group, t.Hash, micros(t.Created), micros(t.Expires), s.db.Sign(TableLockTokens, tokenValues(&t)...))
		return err
	})
	return s.db.Wrap(err, "create a token of group %s", t.Group)
}

// LockToken implements Store.
func (s machines) LockToken(ctx context.Context, id string) (*LockToken, error) {
	all, err := s.lockTokens(ctx, " WHERE id = $1", id)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fail.New(fail.NotFound, "there is no group token with this ID").At(id)
	}
	return &all[0], nil
}

// LockTokens implements Store.
func (s machines) LockTokens(ctx context.Context) ([]LockToken, error) {
	return s.lockTokens(ctx, " ORDER BY group_name, created_at, id")
}

func (s machines) lockTokens(ctx context.Context, tail string, args ...any) (all []LockToken, err error) {
	err = s.db.Read(ctx, func(q Querier) (err error) {
		var macs []string
		all, err = rows(ctx, q, func(r *sql.Rows) (t LockToken, err error) {
			var created, expires int64
			var mac string
			err = r.Scan(&t.ID, &t.Group, &t.Hash, &created, &expires, &mac)
			t.Created, t.Expires, macs = fromMicros(created), fromMicros(expires), append(macs, mac)
			return t, err
		}, "SELECT id, group_name, hash, created_at, expires, mac FROM lock_tokens"+tail, args...)
		for i := 0; i < len(all) && err == nil; i++ {
			err = s.db.Verify(ctx, q, TableLockTokens, macs[i], tokenValues(&all[i])...)
		}
		return err
	})
	return all, s.db.Wrap(err, "read the group tokens")
}

// DropLockToken implements Store.
func (s machines) DropLockToken(ctx context.Context, id string) error {
	var gone bool
	err := s.db.Write(ctx, false, func(tx Querier) error {
		n, err := run(ctx, tx, "DELETE FROM lock_tokens WHERE id = $1", id)
		gone = gone || n > 0 // if the transaction is repeated, the first attempt counts
		return err
	})
	if err == nil && !gone {
		return fail.New(fail.NotFound, "there is no group token with this ID").At(id)
	}
	return s.db.Wrap(err, "revoke the token %s", id)
}
