package web

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/access"
)

// Provider signs operators in through the pages of an OpenID Connect provider.
type Provider interface {
	// Host returns the provider's name for people.
	Host() string
	// Home returns the address of these pages for browsers: https://HOST[:PORT].
	Home() string
	// Ask returns where a browser signs in, and the question that the provider's answer must match.
	Ask(ctx context.Context) (at string, q access.Question, err error)
	// Answer returns who has signed in, from the query with which the browser came back.
	Answer(ctx context.Context, q access.Question, came url.Values) (access.SignedIn, error)
	// Leave returns where a browser with an ended session signs out at the provider; empty: the provider has no such page.
	Leave(ctx context.Context, left access.Left) (at string, err error)
}

// askedCookie holds the question of a sign-in until the browser is back, so that no other browser can complete the sign-in. Unlike the session's
// cookie, it is also sent when the provider redirects the browser back.
const askedCookie = "__Host-naupegos-asked"

// askedFor is the time limit, in seconds, for signing in at the provider.
const askedFor = 600

// began is the content of askedCookie.
type began struct {
	access.Question
	To string
}

// signInRoutes returns the routes for signing in with a provider.
func (p *Pages) signInRoutes() []Route {
	if p.c.Provider == nil {
		return nil
	}
	return []Route{
		{Pattern: "GET /ui/login/provider", Handler: headers(http.HandlerFunc(p.ask))},
		{Pattern: "GET /ui/login/callback", Handler: headers(http.HandlerFunc(p.answer))},
		{Pattern: "GET /ui/login/out", Handler: headers(http.RedirectHandler("/ui/login?done="+outThere, http.StatusSeeOther))},
	}
}

// ask redirects a browser to the provider. It first redirects to the host that the provider redirects back to, because the cookie belongs to
// that host; ?home marks that this happened.
func (p *Pages) ask(w http.ResponseWriter, r *http.Request) {
	to := local(r.URL.Query().Get("to"))
	if len(to) > 1000 { // a cookie has at most 4 KiB
		to = local("")
	}
	if home := p.c.Provider.Home(); "https://"+r.Host != home && !r.URL.Query().Has("home") {
		http.Redirect(w, r, home+"/ui/login/provider?"+url.Values{"to": {to}, "home": {""}}.Encode(), http.StatusSeeOther) // the configured address
		return
	}
	at, q, err := p.c.Provider.Ask(r.Context())
	if err != nil {
		p.notIn(w, r, to, err)
		return
	}
	data, err := json.Marshal(began{q, to})
	if err != nil {
		p.notIn(w, r, to, fail.Wrap(fail.Internal, err, "begin to sign in"))
		return
	}
	http.SetCookie(w, &http.Cookie{Name: askedCookie, Value: base64.RawURLEncoding.EncodeToString(data), Path: "/", MaxAge: askedFor, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
	http.Redirect(w, r, at, http.StatusSeeOther)
}

// answer handles a browser that the provider redirected back. A sign-in works once: answer deletes the cookie in any case.
func (p *Pages) answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer") // the address contains the code
	http.SetCookie(w, &http.Cookie{Name: askedCookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode})
	var b began
	var in access.SignedIn
	err := p.c.Gate.Attempt(r, func() (err error) {
		if b, err = answerTo(r); err != nil {
			return err
		}
		in, err = p.c.Provider.Answer(r.Context(), b.Question, r.URL.Query())
		return err
	})
	var secret string
	if err == nil {
		secret, err = p.c.Gate.Begin(r, p.kept(r), in)
	}
	to := local(b.To)
	if err != nil {
		who := in.Operator
		if who.Name = in.Name; who.Name == "" {
			who.Name = "nobody"
		}
		if fail.KindOf(err) != fail.NotReady { // attempts beyond the limit are not recorded
			p.c.Gate.Note(r, who, "signed in to the pages", "", err)
		}
		p.notIn(w, r, to, err)
		return
	}
	p.keep(w, secret, int(in.Life.Seconds()))
	// A redirect would count as begun by the other site, and the browser would not send the session's cookie.
	p.render(w, r, http.StatusOK, nil, &view{name: "signed-in", Title: "Signed in", Onward: to, Data: in.Name})
}

// answerTo returns the content of the sign-in's cookie, if the request answers its question.
func answerTo(r *http.Request) (b began, err error) {
	wrong := fail.New(fail.Unauthorized, "this browser has not begun to sign in here, or too long ago, or once more since").Do("sign in again")
	c, err := r.Cookie(askedCookie)
	if err != nil {
		return b, wrong
	}
	data, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || json.Unmarshal(data, &b) != nil || b.State == "" || b.Nonce == "" || b.Verifier == "" {
		return began{}, wrong
	}
	if subtle.ConstantTimeCompare([]byte(b.State), []byte(r.URL.Query().Get("state"))) != 1 {
		return began{}, wrong
	}
	return b, nil
}

// The words in the address of the page to sign in on, after a sign-out.
const outHere, outThere = "out-here", "out-there"

// out returns the message after a sign-out; "" if there was none.
func (p *Pages) out(done string) string {
	switch {
	case p.c.Provider == nil:
	case done == outHere:
		return "You have signed out here. " + p.c.Provider.Host() + " was not informed, or did not answer: you may still be signed in there. Sign out there, too, where others use this browser."
	case done == outThere:
		return "You have signed out, here and at " + p.c.Provider.Host() + "."
	}
	return ""
}

// leave redirects a browser with an ended session to sign out at the provider, too.
func (p *Pages) leave(w http.ResponseWriter, r *http.Request, left access.Left) {
	at, err := p.c.Provider.Leave(r.Context(), left)
	if err != nil {
		p.c.Log.Warn("an operator who signed out of the pages could not be redirected to the provider to sign out there", "error", err.Error())
	}
	if at == "" {
		http.Redirect(w, r, "/ui/login?done="+outHere, http.StatusSeeOther)
		return
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	// The policy keeps redirects that answer a form on these pages: the page redirects instead.
	p.render(w, r, http.StatusOK, nil, &view{name: "signed-out", Title: "Signed out", Onward: at, Data: p.c.Provider.Host()})
}

// notIn shows why the sign-in failed, on the page to try again.
func (p *Pages) notIn(w http.ResponseWriter, r *http.Request, to string, err error) {
	v := p.loginView(to)
	v.Failed = err.Error()
	p.render(w, r, status(err), nil, v)
}

// loginView returns the page to sign in on.
func (p *Pages) loginView(to string) *view {
	type door struct{ To, Provider, Way string }
	if p.c.Door != nil {
		return &view{name: "ended", Title: "Signed out"}
	}
	d := door{To: to}
	if p.c.Provider != nil {
		d.Provider, d.Way = p.c.Provider.Host(), "/ui/login/provider?to="+template.URLQueryEscaper(to)
	}
	return &view{name: "login", Title: "Sign in", Data: d}
}
