package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/store"
)

// sessionPrefix begins what a browser keeps of a session, which is good for pages alone: the API takes no sessions.
const sessionPrefix = "session_"

// Question is what a sign-in by an issuer has begun with, and what the answer has to fit.
type Question struct{ State, Nonce, Verifier string }

// SignedIn is what an issuer has said of somebody who has signed in to the pages.
type SignedIn struct {
	Operator              // who they are now
	Issuer, Subject, Name string
	Claims                []byte        // JSON: what rules go by
	Life                  time.Duration // after which they sign in again
}

// Begin begins a session, in the place of the one that the browser has had, and returns what the browser keeps: nothing else has it.
func (g *Gate) Begin(r *http.Request, had string, in SignedIn) (secret string, err error) {
	ctx := r.Context()
	random, id := make([]byte, 32), make([]byte, 8)
	_, _ = rand.Read(random) // never fails: crypto/rand ends the program instead
	_, _ = rand.Read(id)
	half := base64.RawURLEncoding.EncodeToString(random)
	now := time.Now().UTC().Truncate(time.Microsecond)
	x := store.Session{ID: hex.EncodeToString(id), Hash: hash(half), Issuer: in.Issuer, Subject: in.Subject, Name: in.Name, Claims: in.Claims, Created: now, Expires: now.Add(in.Life)}
	if err := g.st.AddSession(ctx, x); err != nil {
		return "", err
	}
	g.Note(r, in.Operator, "signed in to the pages", "", nil)
	return sessionPrefix + x.ID + "_" + half, g.End(r, had)
}

// End ends the session that a browser has. What is no session, or none any more, is none to end.
func (g *Gate) End(r *http.Request, had string) error {
	x, err := g.session(r.Context(), had)
	if err == nil {
		err = g.st.EndSession(r.Context(), x.ID)
	}
	if kind := fail.KindOf(err); kind == fail.Unauthorized || kind == fail.NotFound {
		return nil
	}
	return err
}

// session returns the session that a browser has. The answers to all that are wrong are the same.
func (g *Gate) session(ctx context.Context, secret string) (*store.Session, error) {
	over := fail.New(fail.Unauthorized, "the session is over").Do("sign in again")
	text, ours := strings.CutPrefix(secret, sessionPrefix)
	id, half, _ := strings.Cut(text, "_")
	if !ours || id == "" || len(text) > 200 {
		return nil, over
	}
	x, err := g.st.Session(ctx, id)
	if fail.KindOf(err) == fail.NotFound {
		return nil, over
	}
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(hash(half)), []byte(x.Hash)) != 1 || time.Now().After(x.Expires) {
		return nil, over
	}
	return x, nil
}

// SignIn returns whose token or session it is, for pages whose browsers keep it: fail.Unauthorized if nobody's, fail.NotReady where too many
// wrong ones came from the same address.
func (g *Gate) SignIn(r *http.Request, secret string) (Operator, error) {
	a := &asked{}
	err := g.enter(r, a, server.Read, func(ctx context.Context) (Operator, error) {
		if !strings.HasPrefix(secret, sessionPrefix) {
			return g.who(ctx, "Bearer "+secret)
		}
		x, err := g.session(ctx, secret)
		if err != nil {
			return Operator{}, err
		}
		if g.issuer == nil {
			return Operator{}, fail.New(fail.Unauthorized, "this server knows no issuer any more").Do("sign in with a token")
		}
		return g.issuer.Again(x)
	})
	return a.Operator, err
}

// Attempt lets somebody try to sign in, and counts it where it fails for a reason that is theirs: fail.NotReady where too many failed from the
// same address.
func (g *Gate) Attempt(r *http.Request, try func() error) error {
	from := server.Remote(r)
	if !g.limits.mayTry(from) {
		return tooMany(from)
	}
	err := try()
	if fail.KindOf(err) == fail.Unauthorized {
		g.limits.failed(from)
	}
	return err
}

func tooMany(from string) error {
	return fail.New(fail.NotReady, "too many attempts that failed from %s", from).Do("wait a minute")
}
