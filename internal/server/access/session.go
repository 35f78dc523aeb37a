package access

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
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

// sessionPrefix begins the secret of a browser's session, which works only for the pages: the API accepts no sessions.
const sessionPrefix = "session_"

// Question is the question of a sign-in with an issuer, which the issuer's answer must match.
type Question struct{ State, Nonce, Verifier string }

// SignedIn describes a user who has signed in to the pages.
type SignedIn struct {
	Operator                            // the current operator
	Issuer, Subject, Name string        // for a token, Issuer is empty and Subject is the token's ID
	Claims                []byte        // JSON: the claims that rules use
	Token                 string        // the ID token with which the issuer can end its own session; empty: none
	Life                  time.Duration // then a new sign-in is needed
}

// Left is an ended session.
type Left struct {
	Issuer string // empty: there was no session with an issuer
	Token  string // as in SignedIn
}

// Begin begins a session, which replaces the browser's previous one, and returns its secret. Only the browser keeps that.
func (g *Gate) Begin(r *http.Request, had string, in SignedIn) (secret string, err error) {
	ctx := r.Context()
	random, id := make([]byte, 32), make([]byte, 8)
	_, _ = rand.Read(random) // never fails: crypto/rand ends the program instead
	_, _ = rand.Read(id)
	half := base64.RawURLEncoding.EncodeToString(random)
	now := time.Now().UTC().Truncate(time.Microsecond)
	x := store.Session{ID: hex.EncodeToString(id), Hash: hash(half), Issuer: in.Issuer, Subject: in.Subject, Name: in.Name, Claims: in.Claims, Hint: seal(half, in.Token), Proven: in.SignedIn, Created: now, Expires: now.Add(in.Life)}
	if err := g.st.AddSession(ctx, x); err != nil {
		return "", err
	}
	who := in.Operator
	who.Session = x.ID
	switch {
	case in.Issuer == "":
		who.Via = ViaTokenPages
	case who.Via == "":
		who.Via = ViaIDTokenPages
	}
	g.Note(r, who, "signed in to the pages", "", nil)
	_, err = g.End(r, had)
	return sessionPrefix + x.ID + "_" + half, err
}

// End ends a browser's session, and returns it. An invalid or ended session is no error.
func (g *Gate) End(r *http.Request, had string) (left Left, err error) {
	x, err := g.session(r.Context(), had)
	if err == nil {
		err = g.st.EndSession(r.Context(), x.ID)
	}
	switch kind := fail.KindOf(err); {
	case err == nil:
		_, half, _ := halves(had)
		return Left{x.Issuer, unseal(half, x.Hint)}, nil
	case kind == fail.Unauthorized, kind == fail.NotFound:
		return left, nil
	}
	return left, err
}

// sealing returns a cipher with a key from the half of a session's secret that only the browser has: the store alone does not reveal the ID token.
func sealing(half string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(half), nil, "naupegos session hint", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal encrypts an ID token; "" stays "".
func seal(half, token string) string {
	a, err := sealing(half)
	if err != nil || token == "" { // never an error: the key's length is right
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(a.Seal(nil, nil, []byte(token), nil)) //nolint:gosec // it makes a nonce of its own
}

// unseal decrypts an ID token. If that fails it returns "", and the session ends without the token.
func unseal(half, sealed string) string {
	data, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || len(data) == 0 {
		return ""
	}
	a, err := sealing(half)
	if err != nil {
		return ""
	}
	token, err := a.Open(nil, nil, data, nil)
	if err != nil {
		return ""
	}
	return string(token)
}

// session returns a browser's session. All invalid sessions get the same error.
func (g *Gate) session(ctx context.Context, secret string) (*store.Session, error) {
	over := fail.New(fail.Unauthorized, "the session has ended").Do("sign in again")
	id, half, ours := halves(secret)
	if !ours {
		return nil, over
	}
	x, err := g.st.Session(ctx, id)
	if g.forged(err) {
		return nil, over
	}
	if fail.KindOf(err) == fail.NotFound {
		return nil, over
	}
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(hash(half)), []byte(x.Hash)) != 1 || time.Now().After(x.Expires) {
		return nil, over
	}
	last := x.Created
	if x.Used.After(last) {
		last = x.Used
	}
	if idle := time.Since(last); idle > g.bounds.Idle {
		return nil, fail.New(fail.Unauthorized, "the session has ended: it was idle for %s", idle.Round(time.Minute)).Do("sign in again")
	}
	return x, nil
}

// halves splits a session's secret into its ID and the secret half.
func halves(secret string) (id, half string, ours bool) {
	text, ours := strings.CutPrefix(secret, sessionPrefix)
	id, half, _ = strings.Cut(text, "_")
	return id, half, ours && id != "" && len(text) <= 200
}

// SignIn returns the operator of a browser's session: fail.Unauthorized if the session is invalid, fail.NotReady after too many invalid ones from the same
// address.
func (g *Gate) SignIn(r *http.Request, secret string) (Operator, error) {
	return g.signIn(r, secret, true)
}

// Stay counts a request of the pages until it ends, and refuses it if its operator has too many, as the guard does. From then on, its body counts for the
// operator, and not as one of strangers.
func (g *Gate) Stay(r *http.Request, who Operator) error {
	in, err := g.admit(r, who)
	if err == nil {
		server.Known(r)
		context.AfterFunc(r.Context(), in.leave) // the server ends the context with the request
	}
	return err
}

// Still is SignIn for requests that a page makes by itself: they do not keep a session from being idle.
func (g *Gate) Still(r *http.Request, secret string) (Operator, error) {
	return g.signIn(r, secret, false)
}

func (g *Gate) signIn(r *http.Request, secret string, uses bool) (Operator, error) {
	a := &asked{}
	err := g.enter(r, a, func(ctx context.Context) (Operator, error) {
		x, err := g.session(ctx, secret)
		if err != nil {
			return Operator{}, err
		}
		if !uses {
			return g.again(ctx, x)
		}
		g.used.note("session "+x.ID, func(at time.Time) error { return g.st.UsedSession(ctx, x.ID, at) }, g.log)
		return g.again(ctx, x)
	})
	return a.Operator, err
}

// again returns the current operator of a session.
func (g *Gate) again(ctx context.Context, x *store.Session) (o Operator, err error) {
	switch {
	case x.Issuer == "": // signed in with a token
		t, err := g.st.Token(ctx, x.Subject)
		if err == nil {
			err = valid(t)
		}
		if g.forged(err) || fail.KindOf(err) == fail.NotFound {
			err = fail.New(fail.Unauthorized, "the session has ended").Do("sign in again")
		}
		if err != nil {
			return o, err
		}
		o = ofToken(t)
		o.Via, o.SignedIn = ViaTokenPages, x.Created // its user can enter the token again
	case g.issuer == nil:
		return o, fail.New(fail.Unauthorized, "this server no longer has an issuer").Do("sign in with a token")
	default:
		if o, err = g.issuer.Again(x); err != nil {
			return o, err
		}
		if o.Via == "" {
			o.Via = ViaIDTokenPages
		}
		if o.SignedIn = x.Proven; o.SignedIn.IsZero() {
			o.SignedIn = x.Created
		}
	}
	o.Session = x.ID
	return o, nil
}

// BeginByToken begins a session for a token. The browser gets a session key and not the token; the API rejects that key.
func (g *Gate) BeginByToken(r *http.Request, had, token string, life time.Duration) (secret string, lasts time.Duration, err error) {
	a := &asked{}
	err = g.enter(r, a, func(ctx context.Context) (Operator, error) { return g.who(ctx, "Bearer "+token) })
	if err != nil {
		return "", 0, err
	}
	if a.Via != ViaToken {
		return "", 0, fail.New(fail.Unauthorized, "a valid token is required").Do("naupegos server token create makes one")
	}
	t, err := g.st.Token(r.Context(), a.ID)
	if err != nil {
		return "", 0, err
	}
	if left := time.Until(t.Expires); !t.Expires.IsZero() && left < life {
		life = left
	}
	secret, err = g.Begin(r, had, SignedIn{Operator: a.Operator, Subject: t.ID, Name: t.Name, Life: life})
	return secret, life, err
}

// Attempt runs a sign-in with a provider, and counts failures that are the client's fault: fail.NotReady after too many from the same address. Wrong
// tokens have their own counter.
func (g *Gate) Attempt(r *http.Request, try func() error) error {
	from := server.Remote(r)
	if !g.limits.mayTry("sign-in ", from) {
		return tooMany(from)
	}
	err := try()
	if fail.KindOf(err) == fail.Unauthorized {
		g.limits.failed("sign-in ", from)
	}
	return err
}

func tooMany(from string) error {
	return often{fail.New(fail.NotReady, "too many failed sign-ins from %s", from).Do("wait a minute")}
}
