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

// cookieName has a prefix that makes browsers accept the cookie only over HTTPS, for this host alone and all its paths, so that no
// neighbouring host can set it.
const cookieName = "__Host-naupegos"

// signedIn is the lifetime of a session by a token. If the token ends earlier or is revoked, the session ends with it.
const signedIn = 12 * time.Hour

// loginPage shows the page to sign in on.
func (p *Pages) loginPage(w http.ResponseWriter, r *http.Request) {
	v := p.loginView(local(r.URL.Query().Get("to")))
	v.Said = p.out(r.URL.Query().Get("done"))
	p.render(w, r, http.StatusOK, nil, v)
}

// login checks a token and begins a session. The browser keeps the session's secret in a cookie that scripts can't read. A stolen secret is not a
// token: the API does not accept it.
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

// kept returns the session's secret from the browser's cookie, or "".
func (p *Pages) kept(r *http.Request) string {
	c, err := r.Cookie(p.cookie(""))
	if err != nil {
		return ""
	}
	return c.Value
}

// keep sets the session's cookie for so many seconds; -1 deletes it.
func (p *Pages) keep(w http.ResponseWriter, secret string, seconds int) {
	p.remember(w, "", secret, seconds)
}

// cookie returns the name of a cookie. Pages on loopback use plain HTTP, and cookies ignore ports, so the name includes the port.
func (p *Pages) cookie(suffix string) string {
	if p.c.Door != nil {
		return "naupegos-" + p.c.Port + suffix
	}
	return cookieName + suffix
}

// remember sets a cookie; seconds < 0 deletes it.
func (p *Pages) remember(w http.ResponseWriter, suffix, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{Name: p.cookie(suffix), Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: p.c.Door == nil, SameSite: http.SameSiteStrictMode}) //nolint:gosec // on loopback alone, naupegos ui serves plain HTTP
}

// logout ends the session and deletes its cookie. If the operator signed in with the provider, logout continues there.
func (p *Pages) logout(w http.ResponseWriter, r *http.Request) {
	who, err := p.operator(r)
	if err == nil {
		p.c.Gate.Note(r, *who, "signed out of the pages", "", nil)
	}
	left, err := p.c.Gate.End(r, p.kept(r))
	if err != nil {
		p.render(w, r, status(err), who, &view{name: "failed", Title: "Still signed in", Failed: err.Error(), Data: failure{}})
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

// operator returns the operator of a request, or fail.Unauthorized if the request has no session.
func (p *Pages) operator(r *http.Request) (*access.Operator, error) {
	signedIn := p.c.Gate.SignIn
	if r.Header.Get("X-Part") != "" { // the page's script asks by itself
		signedIn = p.c.Gate.Still
	}
	who, err := asker(p, r, signedIn)
	if err == nil {
		err = p.c.Gate.Stay(r, *who)
	}
	return who, err
}

func asker(p *Pages, r *http.Request, signedIn func(*http.Request, string) (access.Operator, error)) (*access.Operator, error) {
	secret := p.kept(r)
	if secret == "" {
		return nil, fail.New(fail.Unauthorized, "not signed in")
	}
	who, err := signedIn(r, secret)
	if err != nil {
		return nil, err
	}
	return &who, nil
}

// unknown notes in the audit a request without a valid session that shows a secret or would change something.
func unknown(p *Pages, r *http.Request, err error) {
	if p.kept(r) != "" || r.Method == http.MethodPost {
		p.c.Gate.Note(r, access.Operator{Name: "nobody"}, r.Method+" "+r.URL.Path, "", err)
	}
}

// crossed refuses a form of another site.
func crossed(p *Pages, w http.ResponseWriter, r *http.Request) {
	by := access.Operator{Name: "nobody"}
	if who, err := asker(p, r, p.c.Gate.Still); err == nil {
		by = *who
	}
	p.c.Gate.Note(r, by, r.Method+" "+r.URL.Path+" from another site", "", fail.New(fail.Refused, "the form is another site's"))
	http.Error(w, "the form was sent by another site", http.StatusForbidden)
}

// local returns a path of these pages to go to. It replaces anything else, such as a link to another host, by the first page.
func local(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/ui/") || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") || strings.Contains(to, `\`) {
		return "/ui/"
	}
	return u.RequestURI()
}

// policy is the Content-Security-Policy: pages use only their own style and script, load nothing from other sites, and appear in no frame.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// headers sets the headers of all responses.
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

// lasting lets browsers cache files, because their addresses contain the version.
func lasting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=86400")
		next.ServeHTTP(w, r)
	})
}
