package issuer

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
)

// CallbackPath is the path that the issuer redirects browsers to after a sign-in.
const CallbackPath = "/ui/login/callback"

// LeftPath is the path that the issuer redirects browsers to after a sign-out.
const LeftPath = "/ui/login/out"

// mostHint is the maximum length of an ID token for the issuer's sign-out, because it is part of an address.
const mostHint = 4 << 10

// Limits of a session of the pages, and the tolerated difference between two clocks.
const (
	shortest, longest = time.Minute, 7 * 24 * time.Hour
	skew              = 5 * time.Minute
)

// Pages configures the sign-in to the web pages.
type Pages struct {
	URL      string // address of the server for browsers: https://HOST[:PORT]
	ClientID string // client ID of the pages
	Secret   string // file with the client's secret, read each time; empty: a public client
	Life     time.Duration
}

func (p *Pages) check() error {
	if p == nil {
		return nil
	}
	u, err := url.Parse(p.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return fail.New(fail.Invalid, "%q is not where browsers have the server", p.URL).Do("it is https://HOST or https://HOST:PORT, as operators type it")
	}
	if p.Life < shortest || p.Life > longest {
		return fail.New(fail.Invalid, "a session lasts %s", p.Life).Do("choose from %s to %s", shortest, longest)
	}
	p.URL = "https://" + u.Host
	_, err = p.secret()
	return err
}

// secret reads the client's secret.
func (p *Pages) secret() (string, error) {
	if p.Secret == "" {
		return "", nil
	}
	info, err := os.Stat(p.Secret)
	if err != nil {
		return "", fail.Wrap(fail.Invalid, err, "read the client's secret")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fail.New(fail.Refused, "the client's secret can be read by others (mode %04o)", mode).At(p.Secret).Do("chmod 600 %s", p.Secret)
	}
	data, err := os.ReadFile(p.Secret)
	if err != nil {
		return "", fail.Wrap(fail.Invalid, err, "read the client's secret")
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fail.New(fail.Invalid, "the file with the client's secret is empty").At(p.Secret)
	}
	return text, nil
}

// ForPages reports whether operators sign in to the pages with the issuer.
func (i *Issuer) ForPages() bool { return i != nil && i.c.Pages != nil }

// Home returns the address of the pages for browsers.
func (i *Issuer) Home() string { return i.c.Pages.URL }

// Host returns the issuer's name for people.
func (i *Issuer) Host() string {
	u, _ := url.Parse(i.c.URL) // New has checked it
	return u.Host
}

// client returns the pages' OAuth 2.0 configuration.
func (i *Issuer) client(p *oidc.Provider) (c oauth2.Config, err error) {
	c = oauth2.Config{ClientID: i.c.Pages.ClientID, Endpoint: p.Endpoint(), RedirectURL: i.c.Pages.URL + CallbackPath}
	for _, s := range i.c.Scopes {
		if s != oidc.ScopeOfflineAccess { // a session needs no later access
			c.Scopes = append(c.Scopes, s)
		}
	}
	if c.ClientSecret, err = i.c.Pages.secret(); err != nil {
		return c, err
	}
	var takes struct {
		Auth []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := p.Claims(&takes); err != nil {
		return c, fail.Wrap(fail.Unreachable, err, "read the issuer %s's configuration", i.c.URL)
	}
	c.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if c.ClientSecret == "" || len(takes.Auth) > 0 && !slices.Contains(takes.Auth, "client_secret_basic") {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return c, nil
}

// maxAge, in seconds, has the issuer state when the user signed in there, and ask again for what it knows the user by if that is longer ago.
const maxAge = "900"

// Ask returns where a browser signs in, and the question that the answer must match.
func (i *Issuer) Ask(ctx context.Context) (at string, q access.Question, err error) {
	p, err := i.known(ctx)
	if err != nil {
		return "", q, err
	}
	c, err := i.client(p)
	if err != nil {
		return "", q, err
	}
	q = access.Question{State: oauth2.GenerateVerifier(), Nonce: newNonce(time.Now()), Verifier: oauth2.GenerateVerifier()}
	return c.AuthCodeURL(q.State, oidc.Nonce(q.Nonce), oauth2.S256ChallengeOption(q.Verifier), oauth2.SetAuthURLParam("max_age", maxAge)), q, nil
}

// Answer returns who has signed in, from the query with which the browser came back. Each question signs in once.
func (i *Issuer) Answer(ctx context.Context, q access.Question, came url.Values) (in access.SignedIn, err error) {
	switch {
	case came.Get("error") != "":
		return in, fail.New(fail.Unauthorized, "%s refused the sign-in: %.100q %.300q", i.Host(), came.Get("error"), came.Get("error_description"))
	case came.Has("iss") && came.Get("iss") != i.c.URL:
		return in, fail.New(fail.Unauthorized, "the answer is another issuer's").Do("sign in again")
	case came.Get("code") == "":
		return in, fail.New(fail.Unauthorized, "the answer of %s has no code", i.Host()).Do("sign in again")
	}
	p, err := i.known(ctx)
	if err != nil {
		return in, err
	}
	c, err := i.client(p)
	if err != nil {
		return in, err
	}
	got, err := c.Exchange(oidc.ClientContext(ctx, i.http), came.Get("code"), oauth2.VerifierOption(q.Verifier))
	if answered := (*oauth2.RetrieveError)(nil); errors.As(err, &answered) && answered.Response.StatusCode < 500 {
		return in, fail.New(fail.Unauthorized, "%s gives no token: status %d, %.100q %.300q", i.Host(), answered.Response.StatusCode, answered.ErrorCode, answered.ErrorDescription).Do("sign in again")
	}
	if err != nil {
		return in, fail.Wrap(fail.Unreachable, err, "ask the issuer %s for a token", i.c.URL)
	}
	raw, _ := got.Extra("id_token").(string)
	if raw == "" {
		return in, fail.New(fail.Unauthorized, "%s gives no ID token", i.Host()).Do("the server's --oidc-scope has to have openid")
	}
	in, claims, err := i.signedIn(ctx, p, q, raw)
	if err != nil {
		return in, err
	}
	if err := i.ask(ctx, p, got, in.Subject, claims); err != nil {
		return in, err
	}
	in.Name = i.name(in.Subject, claims)
	at := in.SignedIn
	if in.Operator, err = i.of(in.Subject, claims); err != nil {
		return in, err
	}
	in.SignedIn = at
	if len(raw) <= mostHint {
		in.Token = raw
	}
	if in.Claims, err = json.Marshal(i.needed(claims)); err != nil {
		return in, fail.Wrap(fail.Internal, err, "keep the claims")
	}
	now := time.Now()
	if err = i.once.take(q.Nonce, now); err == nil { // a code works once at most issuers, a browser's question for ever
		err = i.takeShared(ctx, q.Nonce, now)
	}
	if err != nil {
		return access.SignedIn{Name: in.Name}, err
	}
	return in, nil
}

// Leave returns where a browser with an ended session signs out at the issuer, too (OpenID Connect RP-Initiated Logout); empty: the issuer has no such
// page.
func (i *Issuer) Leave(ctx context.Context, left access.Left) (at string, err error) {
	if left.Issuer != i.c.URL {
		return "", nil
	}
	p, err := i.known(ctx)
	if err != nil {
		return "", err
	}
	var has struct {
		At string `json:"end_session_endpoint"`
	}
	if err := p.Claims(&has); err != nil {
		return "", fail.Wrap(fail.Unreachable, err, "read the issuer %s's configuration", i.c.URL)
	}
	if has.At == "" {
		return "", nil
	}
	u, err := url.Parse(has.At)
	if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || strings.HasPrefix(i.c.URL, "https:")) {
		return "", fail.New(fail.Unreachable, "%.200q, the sign-out address of issuer %s, is not an address", has.At, i.c.URL)
	}
	q := u.Query()
	q.Set("client_id", i.c.Pages.ClientID)
	q.Set("post_logout_redirect_uri", i.c.Pages.URL+LeftPath)
	if left.Token != "" {
		q.Set("id_token_hint", left.Token)
	}
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// ask adds claims that rules need and that the ID token lacks: many issuers return them only at their userinfo endpoint.
func (i *Issuer) ask(ctx context.Context, p *oidc.Provider, got *oauth2.Token, subject string, claims map[string]any) error {
	lacks := func(name string) bool { return name != "" && claims[name] == nil }
	if p.UserInfoEndpoint() == "" || !lacks(i.c.NameBy) && !slices.ContainsFunc(i.c.Rules, func(r Rule) bool { return slices.ContainsFunc(r.wants(), func(w Want) bool { return lacks(w.Claim) }) }) {
		return nil
	}
	info, err := p.UserInfo(oidc.ClientContext(ctx, i.http), oauth2.StaticTokenSource(got))
	if err != nil {
		return fail.Wrap(fail.Unreachable, err, "ask the issuer %s for the user's claims", i.c.URL)
	}
	if info.Subject != subject {
		return fail.New(fail.Unauthorized, "%s describes another user than the one who signed in", i.Host())
	}
	more := map[string]any{}
	if err := info.Claims(&more); err != nil {
		return fail.Wrap(fail.Unauthorized, err, "read the user's claims from %s", i.Host())
	}
	for name, value := range more {
		if claims[name] == nil {
			claims[name] = value
		}
	}
	return nil
}

// signedIn returns who has signed in, from an ID token that the issuer has just issued.
func (i *Issuer) signedIn(ctx context.Context, p *oidc.Provider, q access.Question, raw string) (in access.SignedIn, claims map[string]any, err error) {
	token, err := p.Verifier(&oidc.Config{ClientID: i.c.Pages.ClientID}).Verify(ctx, raw)
	if err != nil {
		remedy := "sign in again"
		if text := reason(err); strings.HasPrefix(text, "it expired") || strings.Contains(text, "not valid yet") {
			remedy = "it has just been made: compare this server's clock with the issuer's. Here it is " + time.Now().UTC().Format(time.RFC3339)
		}
		return in, nil, i.disbelieved(err, remedy)
	}
	if token.Nonce != q.Nonce {
		return in, nil, fail.New(fail.Unauthorized, "the ID token is not the one to this question").Do("sign in again")
	}
	if err := token.Claims(&claims); err != nil {
		return in, nil, fail.Wrap(fail.Unauthorized, err, "read the ID token")
	}
	if err := i.meant(token, claims, i.c.Pages.ClientID, "sign in again"); err != nil {
		return in, nil, err
	}
	in = access.SignedIn{Issuer: i.c.URL, Subject: token.Subject, Name: i.name(token.Subject, claims), Life: i.c.Pages.Life}
	in.SignedIn, _ = proven(token, claims) // without auth_time: the browser has just come from the issuer
	return in, claims, nil
}

// needed returns only the claims that rules use, and the name.
func (i *Issuer) needed(claims map[string]any) map[string]any {
	claims = maps.Clone(claims)
	maps.DeleteFunc(claims, func(name string, _ any) bool {
		return name != i.c.NameBy && !slices.ContainsFunc(i.c.Rules, func(r Rule) bool { return slices.ContainsFunc(r.wants(), func(w Want) bool { return w.Claim == name }) })
	})
	return claims
}

// Again implements access.Issuer. It applies the current rules: if none matches, a new sign-in is needed, which reports that.
func (i *Issuer) Again(x *store.Session) (access.Operator, error) {
	var claims map[string]any
	over := fail.New(fail.Unauthorized, "the session is of another time").Do("sign in again")
	if i.c.Pages == nil || x.Issuer != i.c.URL || json.Unmarshal(x.Claims, &claims) != nil {
		return access.Operator{}, over
	}
	o, err := i.of(x.Subject, claims)
	if err != nil {
		return o, over
	}
	return o, nil
}
