package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/store"
)

// prefix begins every token, so that secret scanners find committed ones.
const prefix = "naupegos_"

// NewToken creates a token and returns its secret, which is stored nowhere. reason explains an unusual lifetime.
func NewToken(ctx context.Context, st store.Access, name string, role server.Role, cluster string, life time.Duration, reason ...string) (secret string, t store.Token, err error) {
	if strings.TrimSpace(name) == "" || len(name) > 100 {
		return "", t, fail.New(fail.Invalid, "the name of a token has 1 to 100 characters").Do("name its owner or its purpose")
	}
	if !slices.Contains(roles, role) {
		return "", t, fail.New(fail.Invalid, "there is no role %q", role).Do("choose %s", strings.Join(Roles(), ", "))
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails: crypto/rand ends the program instead
	id := make([]byte, 6)
	_, _ = rand.Read(id)
	half := base64.RawURLEncoding.EncodeToString(random)
	now := time.Now().UTC().Truncate(time.Microsecond)
	t = store.Token{ID: hex.EncodeToString(id), Name: name, Hash: hash(half), Role: string(role), Cluster: cluster, Created: now, Reason: strings.Join(reason, " ")}
	if life > 0 {
		t.Expires = now.Add(life)
	}
	return prefix + t.ID + "_" + half, t, st.AddToken(ctx, t)
}

func hash(half string) string {
	sum := sha256.Sum256([]byte(half))
	return hex.EncodeToString(sum[:])
}

// token returns the token of an Authorization header. All invalid tokens get the same error.
func (g *Gate) token(ctx context.Context, header string) (*store.Token, error) {
	wrong := fail.New(fail.Unauthorized, "a valid token is required").Do("naupegos server token create makes one; pass it in $NAUPEGOS_TOKEN")
	scheme, text, _ := strings.Cut(header, " ")
	text, ours := strings.CutPrefix(strings.TrimSpace(text), prefix)
	id, half, _ := strings.Cut(text, "_")
	if !strings.EqualFold(scheme, "Bearer") || !ours || id == "" || len(text) > 200 {
		return nil, wrong
	}
	t, err := g.st.Token(ctx, id)
	if g.forged(err) {
		return nil, wrong
	}
	if fail.KindOf(err) == fail.NotFound {
		return nil, wrong
	}
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(hash(half)), []byte(t.Hash)) != 1 {
		return nil, wrong
	}
	return t, valid(t)
}

// valid refuses a revoked or expired token. Its holder learns the reason, because clocks may differ.
func valid(t *store.Token) error {
	now := time.Now()
	switch {
	case !t.Revoked.IsZero():
		return fail.New(fail.Unauthorized, "this token was revoked").Do("request another one: naupegos server token create")
	case !t.Expires.IsZero() && now.After(t.Expires):
		return fail.New(fail.Unauthorized, "this token expired at %s; the server's clock says %s", t.Expires.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339)).
			Do("request another one: naupegos server token create")
	}
	return nil
}

// ofToken returns the operator of a token.
func ofToken(t *store.Token) Operator {
	return Operator{Name: t.Name + " (" + t.ID + ")", ID: t.ID, Role: server.Role(t.Role), Cluster: t.Cluster, Via: ViaToken, Session: t.ID}
}
