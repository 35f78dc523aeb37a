package web

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/access"
)

// cookieName has a prefix by which browsers take the cookie only over HTTPS, for this host alone and for all of its paths: nobody beside can set
// one for us.
const cookieName = "__Host-naupegos"

// signedIn is how long a session by a token lasts. A token that ends earlier, or is revoked, ends the session with it.
const signedIn = 12 * time.Hour

// loginPage asks for a token.
func (p *Pages) loginPage(w http.ResponseWriter, r *http.Request) {
	v := p.loginView(local(r.URL.Query().Get("to")))
	v.Said = p.out(r.URL.Query().Get("done"))
	p.render(w, r, http.StatusOK, nil, v)
}

// login checks a token and begins a session, which the browser keeps where no script can read it. Whoever takes it from there has no token: the API
// does not accept it.
func (p *Pages) login(w http.ResponseWriter, r *http.Request) {
	token, to := strings.TrimSpace(r.PostFormValue("token")), local(r.PostFormValue("to"))
	secret, lasts, err := p.c.Gate.BeginByToken(r, p.kept(r), token, signedIn)
	if err != nil {
		p.c.Gate.Note(r, access.Operator{Name: "nobody"}, "signed in to the pages", "", err)
		p.notIn(w, r, to, err)
		return
	}
	p.keep(w, secret, int(lasts.Seconds()))
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // local has seen to it
}

// kept is what the browser keeps to be known by; empty: nothing.
func (p *Pages) kept(r *http.Request) string {
	c, err := r.Cookie(p.cookie(""))
	if err != nil {
		return ""
	}
	return c.Value
}

// keep has the browser keep what it is known by, for so many seconds; -1: forget it.
func (p *Pages) keep(w http.ResponseWriter, secret string, seconds int) {
	p.remember(w, "", secret, seconds)
}

// cookie returns the name of a cookie. Pages on loopback have plain HTTP, and cookies don't know ports: the name holds it.
func (p *Pages) cookie(suffix string) string {
	if p.c.Door != nil {
		return "naupegos-" + p.c.Port + suffix
	}
	return cookieName + suffix
}

// remember sets a cookie.
func (p *Pages) remember(w http.ResponseWriter, suffix, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{Name: p.cookie(suffix), Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: p.c.Door == nil, SameSite: http.SameSiteStrictMode}) //nolint:gosec // on loopback alone, naupegos ui serves plain HTTP
}

// logout ends a session, and has the browser forget what it is known by. Who has signed in by the provider is signed out there, too.
func (p *Pages) logout(w http.ResponseWriter, r *http.Request) {
	who, err := p.operator(r)
	if err == nil {
		p.c.Gate.Note(r, *who, "signed out of the pages", "", nil)
	}
	left, err := p.c.Gate.End(r, p.kept(r))
	if err != nil {
		p.render(w, r, status(err), who, &view{name: "failed", Title: "Still signed in", Failed: err.Error()})
		return
	}
	p.keep(w, "", -1)
	w.Header().Set("Clear-Site-Data", `"cache"`)
	if left.Issuer != "" && p.c.Provider != nil {
		p.leave(w, r, left)
		return
	}
	http.Redirect(w, r, "/ui/login", http.StatusSeeOther)
}

// operator returns who asks: fail.Unauthorized if nobody that is known.
func (p *Pages) operator(r *http.Request) (*access.Operator, error) {
	secret := p.kept(r)
	if secret == "" {
		return nil, fail.New(fail.Unauthorized, "nobody has signed in")
	}
	who, err := p.c.Gate.SignIn(r, secret)
	if err != nil {
		return nil, err
	}
	return &who, nil
}

// local returns a path of these pages to go to; anything else, such as another host, leads to the first page.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/ui/") || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") || strings.Contains(to, `\`) {
		return "/ui/"
	}
	return u.RequestURI()
}

// policy is what browsers may do with a page: its own style and script, nothing from elsewhere, in nobody's frame.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// headers sets what all answers have.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// lasting has browsers keep what is named with the version that it is of.
func lasting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=86400")
		next.ServeHTTP(w, r)
	})
}
