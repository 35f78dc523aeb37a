// Package issuer verifies ID tokens of an OpenID Connect provider, and derives operators and their roles from the claims.
//
// It has no list of operators: rules assign roles to claims. internal/cli/signin obtains ID tokens.
package issuer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/sync/singleflight"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/scheme"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/problem"
)

// Path is the path where clients of the server learn how to sign in.
const Path = "/api/v1/sign-in"

// Config describes the issuer.
type Config struct {
	URL      string // of the issuer, as in its tokens
	ClientID string // audience of its tokens
	Scopes   []string
	NameBy   string // the claim with an operator's name; if it is missing, the subject is the name
	Rules    []Rule
	Pages    *Pages // nil: operators sign in to the pages only with tokens
	CA       []byte // PEM: the only authorities for the issuer's certificate; empty: this host's
}

// SignIn is the information that a client needs to sign in.
type SignIn struct {
	Issuer   string   `json:"issuer"`
	ClientID string   `json:"clientID"`
	Scopes   []string `json:"scopes"`
	CA       string   `json:"ca,omitempty"`
}

// Issuer verifies the tokens of one issuer.
type Issuer struct {
	c    Config
	http *http.Client

	attempts singleflight.Group // of known

	mu       sync.Mutex
	provider *oidc.Provider
	tried    time.Time // when the last attempt ended
	why      error
	firsts   map[string]time.Time // by subject and nonce: see first

	once   once
	shared Shared // nil: no other server shares the store
}

// retry is the shortest interval between requests to an issuer that does not answer.
const retry = 5 * time.Second

// New returns an issuer without contacting it, so that a server can start without it.
func New(c Config) (*Issuer, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fail.New(fail.Invalid, "%q is not the address of an issuer", c.URL).Do("it is an https:// URL, as the issuer's tokens have it")
	}
	if !private(u) {
		return nil, fail.New(fail.Invalid, "the issuer %s is not asked over HTTPS", c.URL).Do("its keys could be exchanged on the way")
	}
	if c.ClientID == "" || len(c.Rules) == 0 {
		return nil, fail.New(fail.Invalid, "an issuer needs a client ID, and a rule at least: without one its tokens give no role")
	}
	if err := c.Pages.check(); err != nil {
		return nil, err
	}
	hc, err := Client(c.CA)
	if err != nil {
		return nil, err
	}
	hc.Transport = newSeldom(hc.Transport)
	return &Issuer{c: c, http: hc}, nil
}

// Client returns an HTTP client for an issuer.
func Client(ca []byte) (*http.Client, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(ca) {
			return nil, fail.New(fail.Invalid, "the file with the issuer's authority holds no certificate")
		}
	}
	t := scheme.Watch(&http.Transport{TLSClientConfig: conf, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true})
	all := func(*http.Request) int64 { return mostAnswer }
	return &http.Client{Timeout: 20 * time.Second, Transport: onlyPrivate{scheme.Bound(t, all)}}, nil
}

// private reports whether only a URL's host can have made the answers: others on the way cannot change them.
func private(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())
}

// onlyPrivate refuses requests to other URLs, to which the issuer's configuration and redirects could lead.
type onlyPrivate struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o onlyPrivate) RoundTrip(r *http.Request) (*http.Response, error) {
	if !private(r.URL) {
		return nil, fail.New(fail.Refused, "the issuer leads to %s://%s, which is not HTTPS", r.URL.Scheme, r.URL.Host).Do("its answers could be changed on the way")
	}
	return o.next.RoundTrip(r)
}

// known returns the issuer's configuration, which it requests at first use. All callers share one attempt, so that an issuer that hangs delays
// each sign-in by one time limit at most.
func (i *Issuer) known(ctx context.Context) (*oidc.Provider, error) {
	attempt := i.attempts.DoChan("", func() (any, error) {
		if p, why := i.tell(); p != nil || why != nil {
			return p, why
		}
		// The same client fetches new keys, long after this request.
		p, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), i.http), i.c.URL)
		if err != nil {
			err = fail.Wrap(fail.Unreachable, err, "fetch the issuer %s's configuration", i.c.URL)
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.provider, i.why, i.tried = p, err, time.Now()
		return p, err
	})
	select {
	case <-ctx.Done():
		return nil, fail.Wrap(fail.Unreachable, ctx.Err(), "fetch the issuer %s's configuration", i.c.URL)
	case r := <-attempt:
		p, _ := r.Val.(*oidc.Provider)
		return p, r.Err
	}
}

// tell returns the issuer's configuration, or why an attempt has just failed.
func (i *Issuer) tell() (*oidc.Provider, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.why != nil && time.Since(i.tried) < retry {
		return nil, i.why
	}
	return i.provider, nil
}

// Operator returns the operator of an ID token: fail.Unauthorized if the token is invalid, fail.Refused if it gives no role.
func (i *Issuer) Operator(ctx context.Context, raw string) (o access.Operator, err error) {
	p, err := i.known(ctx)
	if err != nil {
		return o, err
	}
	token, err := p.Verifier(&oidc.Config{ClientID: i.c.ClientID}).Verify(ctx, raw)
	if err != nil {
		return o, i.disbelieved(err, "naupegos login gets another one")
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return o, fail.Wrap(fail.Unauthorized, err, "read the ID token")
	}
	if err := i.meant(token, claims, i.c.ClientID, "naupegos login gets another one"); err != nil {
		return o, err
	}
	if o, err = i.of(token.Subject, claims); err != nil {
		return o, err
	}
	var stated bool
	if o.SignedIn, stated = proven(token, claims); !stated {
		o.SignedIn = i.first(token)
	}
	o.Via = access.ViaIDToken
	if id, _ := claims["jti"].(string); id != "" {
		o.Session = plain(id)
	} else {
		o.Session = "issued " + token.IssuedAt.UTC().Format(time.RFC3339)
	}
	return o, nil
}

// meant refuses an ID token without a subject, for another client, or with a time of issue that this server's clock contradicts.
func (i *Issuer) meant(token *oidc.IDToken, claims map[string]any, client, remedy string) error {
	if azp, _ := claims["azp"].(string); azp != client && (azp != "" || len(token.Audience) > 1) {
		return fail.New(fail.Unauthorized, "the ID token is for another client").Do("%s", remedy)
	}
	if n := len(token.Subject); n == 0 || n > 255 || plain(token.Subject) != token.Subject { // required by OpenID Connect Core
		return fail.New(fail.Unauthorized, "the ID token has no usable subject")
	}
	if ahead := time.Until(token.IssuedAt); ahead > skew {
		return fail.New(fail.Unauthorized, "the ID token was made %s from now: the clocks differ", ahead.Round(time.Second)).
			Do("compare this server's clock with the issuer's. Here it is %s", time.Now().UTC().Format(time.RFC3339))
	}
	return nil
}

// proven returns the time of authentication, which is not after the token's issue. ok is false if the issuer does not state it.
func proven(token *oidc.IDToken, claims map[string]any) (at time.Time, ok bool) {
	seconds, ok := claims["auth_time"].(float64)
	if text, is := claims["auth_time"].(string); is {
		n, err := strconv.ParseInt(text, 10, 64)
		seconds, ok = float64(n), err == nil
	}
	issued := token.IssuedAt.UTC()
	if !ok || seconds <= 0 {
		return issued, false
	}
	if at = time.Unix(int64(min(seconds, 1e11)), 0).UTC(); at.After(issued) {
		at = issued
	}
	return at, true
}

// first returns when a sign-in without auth_time was first seen: renewed tokens keep its nonce, or have none.
func (i *Issuer) first(token *oidc.IDToken) time.Time {
	if token.Nonce == "" {
		return access.Unproven
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	key, at := token.Subject+"\x00"+token.Nonce, token.IssuedAt.UTC()
	if known, ok := i.firsts[key]; ok && known.Before(at) {
		return known
	}
	if i.firsts == nil || len(i.firsts) >= mostFirsts {
		i.firsts = map[string]time.Time{}
	}
	i.firsts[key] = at
	return at
}

// mostFirsts is the number of sign-ins without auth_time that are remembered.
const mostFirsts = 10_000

// of returns the operator for claims, or fail.Refused if they give no role.
func (i *Issuer) of(subject string, claims map[string]any) (o access.Operator, err error) {
	name := i.name(subject, claims)
	for _, r := range i.c.Rules {
		if r.fits(claims) {
			return access.Operator{Name: name + " (" + plain(subject) + ")", ID: "oidc " + subject, Role: r.Role, Cluster: r.Cluster}, nil
		}
	}
	return o, fail.New(fail.Refused, "no rule of this server gives %s a role", name).Do("the server's administrator names one by --oidc-role")
}

// name returns a user's name.
func (i *Issuer) name(subject string, claims map[string]any) string {
	name, _ := claims[i.c.NameBy].(string)
	if name == "" || len(name) > 100 {
		name = subject
	}
	return plain(name)
}

// plain removes characters from a name that a terminal would interpret.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, name)
}

// disbelieved returns the error for an invalid ID token, with a remedy.
func (i *Issuer) disbelieved(err error, remedy string) error {
	if strings.Contains(err.Error(), "fetching keys") {
		return fail.Wrap(fail.Unreachable, err, "ask the issuer %s for its keys", i.c.URL)
	}
	return fail.New(fail.Unauthorized, "the ID token was rejected: %s", reason(err)).Do("%s", remedy)
}

// reason returns the reason for a token's rejection, without quoting it.
func reason(err error) string {
	if e := (*oidc.TokenExpiredError)(nil); errors.As(err, &e) {
		return "it expired at " + e.Expiry.UTC().Format(time.RFC3339) + "; this server's clock says " + time.Now().UTC().Format(time.RFC3339)
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "audience"):
		return "it is for another client"
	case strings.Contains(text, "different provider"):
		return "another issuer made it"
	case strings.Contains(text, "not before"):
		return "it is not valid yet"
	case strings.Contains(text, "signature"):
		return "its signature is wrong"
	}
	return "it is malformed"
}

// Part returns the route that tells clients how to sign in, which is no secret; without an issuer, that they can't.
func (i *Issuer) Part() server.Part {
	return server.Part{Name: "sign-in", Mounts: []server.Mount{{Pattern: "GET " + Path, Need: server.Anybody, Scope: server.Public(), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if i == nil {
			problem.Write(w, fail.New(fail.NotFound, "this server knows no issuer"))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(SignIn{Issuer: i.c.URL, ClientID: i.c.ClientID, Scopes: i.c.Scopes, CA: string(i.c.CA)}) // an error means that the client has left
	})}}}
}
