package access

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/peer"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/store"
)

// Issuer authenticates operators by tokens of an identity provider.
type Issuer interface {
	Operator(ctx context.Context, token string) (Operator, error)
	// Again returns the current operator of a session, or fail.Unauthorized if a new sign-in is needed.
	Again(x *store.Session) (Operator, error)
}

// Bounds limits the lifetime of sign-ins. Zero values select the defaults.
type Bounds struct {
	Fresh time.Duration // maximum age of a sign-in for Sensitive; default 15 minutes
	Idle  time.Duration // idle time after which a session ends; default one hour
	Watch time.Duration // interval between checks of a stream's reader; default 2 seconds
}

// Gate authenticates operators and guards routes.
type Gate struct {
	issuer Issuer // optional
	st     store.Access
	log    *slog.Logger
	limits *limits
	bounds Bounds
	quiet  *peer.Repeats[store.AuditEntry] // refusals by operator or address
	used   *uses
	broken atomic.Bool // the last write to the audit failed
}

// NewGate returns a gate that accepts the tokens of a store.
func NewGate(st store.Access, log *slog.Logger) *Gate {
	g := &Gate{st: st, log: log, limits: newLimits(), quiet: peer.NewRepeats[store.AuditEntry](mostSources, time.Now), used: &uses{}}
	g.Bound(Bounds{})
	return g
}

// Bound sets the lifetime of sign-ins. Call it before the gate is used.
func (g *Gate) Bound(b Bounds) {
	g.bounds = Bounds{Fresh: cmp.Or(b.Fresh, 15*time.Minute), Idle: cmp.Or(b.Idle, time.Hour), Watch: cmp.Or(b.Watch, 2*time.Second)}
}

// Believe makes the gate accept tokens of an issuer too. Call it before the gate is used.
func (g *Gate) Believe(i Issuer) { g.issuer = i }

// Guard is a server.Guard: it admits requests with a token that has the mount's role in its scope. It records changes, refusals and failures in the
// audit.
func (g *Gate) Guard(m server.Mount, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := g.asks(r, Operator{Name: "nobody"})
		seen, returned := server.Watch(w), false
		defer func() { g.note(r, a, seen.Code(), returned) }()
		shown := func(ctx context.Context) (Operator, error) { return g.who(ctx, r.Header.Get("Authorization")) }
		err := g.enter(r, a, shown)
		if err == nil {
			a.cluster, err = a.Admit(r, m.Need, m.Scope)
		}
		if err == nil {
			var in *guest
			if in, err = g.admit(r, a.Operator); err == nil {
				defer in.leave()
			}
		}
		if err == nil && changes(r) {
			err = g.ready(r, a, m.Need)
		}
		if err != nil {
			refuse(seen, err)
			returned = true
			return
		}
		ctx := context.WithValue(r.Context(), key{}, a)
		if m.Stream {
			var stop func()
			ctx, stop = g.while(ctx, r, m, shown)
			defer stop()
		}
		next.ServeHTTP(seen, r.WithContext(ctx))
		returned = true
	})
}

// asks returns the state of an operator's request.
func (g *Gate) asks(r *http.Request, who Operator) *asked {
	a := &asked{Operator: who}
	a.fresh = func() error { return g.Fresh(a.Operator) }
	noted := false
	a.begun = func() error {
		if noted {
			return nil
		}
		err := g.begin(r, a.entry(r, "begun"))
		noted = err == nil
		return err
	}
	return a
}

func refuse(w http.ResponseWriter, err error) {
	p := problem.Of(err)
	if tooOften(err) {
		p.Status = http.StatusTooManyRequests
		w.Header().Set("Retry-After", "1")
	}
	p.Write(w)
}

// while returns a context that ends when the request's token or session is revoked, expires, or loses its role.
func (g *Gate) while(ctx context.Context, r *http.Request, m server.Mount, shown func(context.Context) (Operator, error)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		tick := time.NewTicker(g.bounds.Watch)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			who, err := shown(ctx)
			if err == nil {
				_, err = who.Admit(r, m.Need, m.Scope)
			}
			if kind := fail.KindOf(err); err != nil && (kind == fail.Unauthorized || kind == fail.Refused || kind == fail.NotFound) {
				g.log.Info("closed a stream: its reader is no longer authorized", "path", r.URL.Path, "why", err.Error())
				cancel()
				return
			}
		}
	}()
	return ctx, cancel
}

// enter authenticates a request and applies the rate limits. Only wrong tokens count against an address, so they never delay a valid one.
func (g *Gate) enter(r *http.Request, a *asked, shown func(context.Context) (Operator, error)) error {
	who, err := shown(r.Context())
	if fail.KindOf(err) == fail.Unauthorized {
		from := server.Remote(r)
		if !g.limits.mayTry("", from) {
			return tooMany(from)
		}
		g.limits.failed("", from)
	}
	if err != nil {
		return err
	}
	a.Operator = who
	if !g.limits.mayAsk(who, changes(r)) {
		return often{fail.New(fail.NotReady, "too many requests with this token").Do("ask less often")}
	}
	return nil
}

// often marks the error of a request over the rate limit.
type often struct{ error }

// Unwrap returns the error.
func (e often) Unwrap() error { return e.error }

// tooOften reports whether an error is one of a request over the rate limit.
func tooOften(err error) bool {
	_, is := err.(often) //nolint:errorlint // it is never wrapped
	return is
}

// mostToken is the maximum length of an issuer's token.
const mostToken = 16 << 10

// who returns the operator of the token in an Authorization header.
func (g *Gate) who(ctx context.Context, header string) (Operator, error) {
	scheme, text, _ := strings.Cut(header, " ")
	if text = strings.TrimSpace(text); g.issuer != nil && strings.EqualFold(scheme, "Bearer") && strings.Count(text, ".") == 2 && len(text) <= mostToken {
		return g.issuer.Operator(ctx, text)
	}
	t, err := g.token(ctx, header)
	if err != nil {
		return Operator{}, err
	}
	g.used.note("token "+t.ID, func(at time.Time) error { return g.st.UsedToken(ctx, t.ID, at) }, g.log)
	return ofToken(t), nil
}

// mostAhead is how far a provider's clock may be ahead of this server's.
const mostAhead = 5 * time.Minute

// Unproven is Operator.SignedIn of a token that does not tell when its user signed in, because it was renewed.
var Unproven = time.Unix(1, 0).UTC()

// Fresh refuses a sign-in that is too old for sensitive operations. Tokens at the API pass: they are for programs, have their own role and expiry,
// and cannot sign in again.
func (g *Gate) Fresh(o Operator) error {
	age := time.Since(o.SignedIn)
	switch {
	case o.SignedIn.IsZero(), age <= g.bounds.Fresh && age > -mostAhead:
		return nil
	case o.SignedIn.Equal(Unproven):
		return fail.New(fail.Refused, "this operation needs a sign-in within the last %s; your token does not say when you signed in", g.bounds.Fresh).
			Do("sign in again: naupegos login --fresh, or have the provider state auth_time")
	}
	return fail.New(fail.Refused, "this operation needs a sign-in within the last %s; yours was at %s", g.bounds.Fresh, o.SignedIn.UTC().Format(time.RFC3339)).
		Do("sign in again: naupegos login --fresh, or sign out of the pages and in again")
}
