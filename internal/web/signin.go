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

// Provider leads operators through the pages of an OpenID Connect provider.
type Provider interface {
	// Host is what people call it.
	Host() string
	// Home is where browsers have these pages: https://HOST[:PORT].
	Home() string
	// Ask returns where a browser signs in, and what its answer has to fit.
	Ask(ctx context.Context) (at string, q access.Question, err error)
	// Answer returns who has signed in, by the query that the browser came back with.
	Answer(ctx context.Context, q access.Question, came url.Values) (access.SignedIn, error)
	// Leave returns where a browser whose session was ended signs out at the provider, too; empty: it has no such page.
	Leave(ctx context.Context, left access.Left) (at string, err error)
}

// askedCookie has what a sign-in began with, until the browser is back: another browser can't end it. It comes along when the provider sends the
// browser back, unlike the session's.
const askedCookie = "__Host-naupegos-asked"

// askedFor is how long somebody has for the provider's pages, in seconds.
const askedFor = 600

// began is what askedCookie holds.
type began struct {
	access.Question
	To string
}

// signInRoutes are those of signing in by a provider.
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

// ask sends a browser to the provider. It first goes where the provider sends it back to, for cookies are that host's; home says that it has.
func (p *Pages) ask(w http.ResponseWriter, r *http.Request) {
	to := local(r.URL.Query().Get("to"))
	if len(to) > 1000 { // a cookie has 4 KiB
		to = local("")
	}
	if home := p.c.Provider.Home(); "https://"+r.Host != home && !r.URL.Query().Has("home") {
		http.Redirect(w, r, home+"/ui/login/provider?"+url.Values{"to": {to}, "home": {""}}.Encode(), http.StatusSeeOther) // where the server was said to be
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

// answer takes a browser back from the provider. A sign-in is good for once: whatever came of it, its cookie goes.
func (p *Pages) answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer") // the address has the code
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
		if fail.KindOf(err) != fail.NotReady { // too many attempts are not written down
			p.c.Gate.Note(r, who, "signed in to the pages", "", err)
		}
		p.notIn(w, r, to, err)
		return
	}
	p.keep(w, secret, int(in.Life.Seconds()))
	// A redirect from here is one that another site has begun: the session's cookie would not come along.
	p.render(w, r, http.StatusOK, nil, &view{name: "signed-in", Title: "Signed in", Onward: to, Data: in.Name})
}

// answerTo returns what the browser's sign-in began with, if what it came back with is the answer to that.
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

// What the page to sign in on says of a sign-out, by a word in its address.
const outHere, outThere = "out-here", "out-there"

// out says how a sign-out has ended; empty where there was none.
func (p *Pages) out(done string) string {
	switch {
	case p.c.Provider == nil:
	case done == outHere:
		return "You have signed out here. " + p.c.Provider.Host() + " is not told of it, or does not answer: you may still be signed in there. Sign out there, too, where others use this browser."
	case done == outThere:
		return "You have signed out, here and at " + p.c.Provider.Host() + "."
	}
	return ""
}

// leave has a browser whose session was ended sign out at the provider, too.
func (p *Pages) leave(w http.ResponseWriter, r *http.Request, left access.Left) {
	at, err := p.c.Provider.Leave(r.Context(), left)
	if err != nil {
		p.c.Log.Warn("somebody who has signed out of the pages could not be led to the provider to sign out there", "error", err.Error())
	}
	if at == "" {
		http.Redirect(w, r, "/ui/login?done="+outHere, http.StatusSeeOther)
		return
	}
	w.Header().Set("Referrer-Policy", "no-referrer")
	// A redirect would be one of a form, which the policy keeps on these pages.
	p.render(w, r, http.StatusOK, nil, &view{name: "signed-out", Title: "Signed out", Onward: at, Data: p.c.Provider.Host()})
}

// notIn says why somebody is not signed in, where they may try again.
func (p *Pages) notIn(w http.ResponseWriter, r *http.Request, to string, err error) {
	v := p.loginView(to)
	v.Failed = err.Error()
	p.render(w, r, status(err), nil, v)
}

// loginView is the page to sign in on.
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
