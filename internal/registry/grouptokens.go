package registry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// lockPrefix begins the tokens of groups, so that secret scanners find a committed one.
const lockPrefix = "naupegoslock_"

// NewToken makes a token with which clients without a machine's key ask for reboot places of one group. With life 0 it never expires. secret
// is returned only here: the store has its hash.
func (g Groups) NewToken(ctx context.Context, group string, life time.Duration) (secret string, t metal.LockToken, err error) {
	if !groupForm.MatchString(group) {
		return "", t, badGroup()
	}
	if life < 0 {
		return "", t, fail.New(fail.Invalid, "a token can't expire before it is made")
	}
	half, id := make([]byte, 32), make([]byte, 6)
	_, _ = rand.Read(half) // never fails: crypto/rand ends the program instead
	_, _ = rand.Read(id)
	text := base64.RawURLEncoding.EncodeToString(half)
	t = metal.LockToken{ID: hex.EncodeToString(id), Group: group, Hash: hashed(text), Created: time.Now().UTC().Truncate(time.Microsecond)}
	if life > 0 {
		t.Expires = t.Created.Add(life)
	}
	return lockPrefix + t.ID + "_" + text, t, g.r.store.AddLockToken(ctx, t)
}

// Token returns the token of a secret, or fail.Unauthorized. The error is the same for all wrong secrets.
func (g Groups) Token(ctx context.Context, secret string) (*metal.LockToken, error) {
	wrong := fail.New(fail.Unauthorized, "this is not a valid token of a group").Do("naupegos machine lock-token create GROUP makes one")
	text, ours := strings.CutPrefix(secret, lockPrefix)
	id, half, _ := strings.Cut(text, "_")
	if !ours || len(text) > 100 {
		return nil, wrong
	}
	t, err := g.r.store.LockToken(ctx, id)
	if fail.KindOf(err) == fail.NotFound {
		return nil, wrong
	}
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(hashed(half)), []byte(t.Hash)) != 1 || !t.Expires.IsZero() && time.Now().After(t.Expires) {
		return nil, wrong
	}
	return t, nil
}

// Tokens returns the tokens of all groups.
func (g Groups) Tokens(ctx context.Context) ([]metal.LockToken, error) {
	return g.r.store.LockTokens(ctx)
}

// DropToken revokes a token.
func (g Groups) DropToken(ctx context.Context, id string) error {
	return g.r.store.DropLockToken(ctx, id)
}

func hashed(half string) string {
	sum := sha256.Sum256([]byte(half))
	return hex.EncodeToString(sum[:])
}
