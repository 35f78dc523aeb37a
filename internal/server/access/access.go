// Package access finds out which operator asks the server, whether they may, and writes down what they did.
//
// Operators show tokens; of a token the store has its hash. What is asked for is the handlers' business.
package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/store"
)

// prefix begins every token, so that scanners of repositories find one that was committed.
const prefix = "naupegos_"

// roles are those that a token can have, the least first.
var roles = []server.Role{server.Read, server.Operate, server.Admin}

// Roles lists the roles that a token can have, for people.
func Roles() []string {
	var names []string
	for _, r := range roles {
		names = append(names, string(r))
	}
	return names
}

// Operator is who asks.
type Operator struct {
	Name    string // of the token, and its ID: "ann (3f…)"
	ID      string // of the token
	Role    server.Role
	Cluster string // the only cluster that they may see; empty: all
}

// May refuses what the operator has no right to do on a cluster; empty, it is of no cluster in particular. A cluster that they may not see is
// not told from one that does not exist.
func (o Operator) May(need server.Role, cluster string) error {
	if o.Cluster != "" && o.Cluster != cluster {
		if cluster == "" {
			return fail.New(fail.Refused, "this token is good for cluster %s alone", o.Cluster)
		}
		return fail.New(fail.NotFound, "there is no such cluster").At(cluster).Do("this token is good for cluster %s", o.Cluster)
	}
	if slices.Index(roles, o.Role) < slices.Index(roles, need) {
		return fail.New(fail.Refused, "this needs the role %s; the token has %s", need, o.Role).Do("ask for a token: naupegos server token create --role %s", need)
	}
	return nil
}

// Sees reports whether the operator may see a cluster.
func (o Operator) Sees(cluster string) bool { return o.Cluster == "" || o.Cluster == cluster }

// key is the context's.
type key struct{}

// From returns who asks. Without Guard around it is nobody, who may nothing.
func From(ctx context.Context) Operator {
	o, _ := ctx.Value(key{}).(*asked)
	if o == nil {
		return Operator{Name: "nobody"}
	}
	return o.Operator
}

// asked is one request.
type asked struct {
	Operator
	cluster string
	looks   bool // it changes nothing, by whatever method it comes
}

// About notes which cluster a request is about, for the audit.
func About(ctx context.Context, cluster string) {
	if o, _ := ctx.Value(key{}).(*asked); o != nil {
		o.cluster = cluster
	}
}

// Looks notes that a request which is posted only looks: it is in the audit where it is refused, as reading is.
func Looks(ctx context.Context) {
	if o, _ := ctx.Value(key{}).(*asked); o != nil {
		o.looks = true
	}
}

// NewToken makes a token, and returns what the operator is given: nothing else has it.
func NewToken(ctx context.Context, st store.Access, name string, role server.Role, cluster string, life time.Duration) (secret string, t store.Token, err error) {
	if strings.TrimSpace(name) == "" || len(name) > 100 {
		return "", t, fail.New(fail.Invalid, "a token needs a name of at most 100 letters").Do("say whose it is, or what for")
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
	t = store.Token{ID: hex.EncodeToString(id), Name: name, Hash: hash(half), Role: string(role), Cluster: cluster, Created: now}
	if life > 0 {
		t.Expires = now.Add(life)
	}
	return prefix + t.ID + "_" + half, t, st.AddToken(ctx, t)
}

func hash(half string) string {
	sum := sha256.Sum256([]byte(half))
	return hex.EncodeToString(sum[:])
}

// Issuer knows operators by tokens that somebody else made.
type Issuer interface {
	Operator(ctx context.Context, token string) (Operator, error)
	// Again returns who somebody is now who has signed in: fail.Unauthorized where they have to do so again.
	Again(x *store.Session) (Operator, error)
}

// Gate lets operators in.
type Gate struct {
	issuer Issuer // nil: there is none
	st     store.Access
	log    *slog.Logger
	limits *limits
}

// NewGate returns a gate that knows the tokens of a store.
func NewGate(st store.Access, log *slog.Logger) *Gate {
	return &Gate{st: st, log: log, limits: newLimits()}
}

// Believe has the gate let those in, too, whom an issuer knows. It is called before the gate is used.
func (g *Gate) Believe(i Issuer) { g.issuer = i }

// Guard is a server.Guard: it lets those through who show a token with the role, for whichever cluster; the handler asks Operator.May
// about that. What is more than reading is written to the audit, and so is whatever was refused.
func (g *Gate) Guard(need server.Role, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &asked{Operator: Operator{Name: "nobody"}}
		seen := server.Watch(w)
		defer func() { g.note(r, a, seen.Code()) }()
		shown := func(ctx context.Context) (Operator, error) { return g.who(ctx, r.Header.Get("Authorization")) }
		if err := g.enter(r, a, need, shown); err != nil {
			p := problem.Of(err)
			if fail.KindOf(err) == fail.NotReady {
				p.Status = http.StatusTooManyRequests
				seen.Header().Set("Retry-After", "1")
			}
			p.Write(seen)
			return
		}
		next.ServeHTTP(seen, r.WithContext(context.WithValue(r.Context(), key{}, a)))
	})
}

// enter finds out who asks, and whether they may.
func (g *Gate) enter(r *http.Request, a *asked, need server.Role, shown func(context.Context) (Operator, error)) error {
	var who Operator
	err := g.Attempt(r, func() (err error) {
		who, err = shown(r.Context())
		return err
	})
	if err != nil {
		return err
	}
	a.Operator = who
	if !g.limits.mayAsk(who.ID) {
		return fail.New(fail.NotReady, "too many requests with this token").Do("ask less often")
	}
	if slices.Index(roles, a.Role) < slices.Index(roles, need) {
		return a.May(need, a.Cluster)
	}
	return nil
}

// mostToken is how long an issuer's token may be.
const mostToken = 16 << 10

// who returns whose token an Authorization header shows.
func (g *Gate) who(ctx context.Context, header string) (Operator, error) {
	scheme, text, _ := strings.Cut(header, " ")
	if text = strings.TrimSpace(text); g.issuer != nil && strings.EqualFold(scheme, "Bearer") && strings.Count(text, ".") == 2 && len(text) <= mostToken {
		return g.issuer.Operator(ctx, text)
	}
	t, err := g.token(ctx, header)
	if err != nil {
		return Operator{}, err
	}
	return Operator{Name: t.Name + " (" + t.ID + ")", ID: t.ID, Role: server.Role(t.Role), Cluster: t.Cluster}, nil
}

// Note writes to the audit what an operator did by a page, and what came of it.
func (g *Gate) Note(r *http.Request, who Operator, action, cluster string, err error) {
	outcome := "done"
	if err != nil {
		outcome = "refused: " + fail.KindOf(err).String()
	}
	g.write(r, store.AuditEntry{At: time.Now(), Who: who.Name, From: server.Remote(r), Action: action, Cluster: cluster, Outcome: outcome})
}

// token returns the token of an Authorization header. The answers to all that are wrong are the same.
func (g *Gate) token(ctx context.Context, header string) (*store.Token, error) {
	wrong := fail.New(fail.Unauthorized, "this needs a token that is valid").Do("naupegos server token create makes one; show it by $NAUPEGOS_TOKEN")
	scheme, text, _ := strings.Cut(header, " ")
	text, ours := strings.CutPrefix(strings.TrimSpace(text), prefix)
	id, half, _ := strings.Cut(text, "_")
	if !strings.EqualFold(scheme, "Bearer") || !ours || id == "" || len(text) > 200 {
		return nil, wrong
	}
	t, err := g.st.Token(ctx, id)
	if fail.KindOf(err) == fail.NotFound {
		return nil, wrong
	}
	if err != nil {
		return nil, err
	}
	same := subtle.ConstantTimeCompare([]byte(hash(half)), []byte(t.Hash)) == 1
	if !same || !t.Revoked.IsZero() || !t.Expires.IsZero() && time.Now().After(t.Expires) {
		return nil, wrong
	}
	return t, nil
}

// note writes a request to the audit: what changed something, and what was refused.
func (g *Gate) note(r *http.Request, a *asked, code int) {
	read := a.looks || r.Method == http.MethodGet || r.Method == http.MethodHead
	if read && code < http.StatusBadRequest || code == http.StatusTooManyRequests || code == http.StatusNotFound && r.Method != http.MethodPost {
		return
	}
	outcome := "done"
	if code >= http.StatusBadRequest {
		outcome = "refused: " + http.StatusText(code)
	}
	g.write(r, store.AuditEntry{At: time.Now(), Who: a.Name, From: server.Remote(r), Action: r.Method + " " + r.URL.Path, Cluster: a.cluster, Outcome: outcome})
}

func (g *Gate) write(r *http.Request, e store.AuditEntry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 10*time.Second)
	defer cancel()
	if err := g.st.Note(ctx, e); err != nil {
		g.log.Error("the audit could not be written", "error", err.Error(), "who", e.Who, "from", e.From, "action", e.Action, "outcome", e.Outcome)
	}
}
