package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/access"
)

// Door signs in the user of this host with a link that works once. See internal/server/link.
type Door interface {
	// Browser returns a value that binds a browser which opened the link to its sign-in, and Bound reports whether this door returned a value.
	Browser() string
	Bound(browser string) bool
	// Enter exchanges the key of the link for a sign-in.
	Enter(key string, now time.Time) (access.SignedIn, error)
}

// openRoutes are the routes of the sign-in by a link.
func openRoutes(p *Pages) []Route {
	if p.c.Door == nil {
		return nil
	}
	return []Route{
		{Pattern: "GET /ui/open", Handler: headers(http.HandlerFunc(p.openPage))},
		{Pattern: "POST /ui/open", Handler: headers(p.guard.Handler(http.HandlerFunc(p.open)))},
	}
}

// openPage binds the browser to the sign-in. The key stays in the address; a script sends it, or the user pastes it.
func (p *Pages) openPage(w http.ResponseWriter, r *http.Request) {
	p.remember(w, "-opening", p.c.Door.Browser(), 600)
	p.render(w, r, http.StatusOK, nil, &view{name: "open", Title: "Sign in"})
}

// open signs in the browser that opened the link.
func (p *Pages) open(w http.ResponseWriter, r *http.Request) {
	var in access.SignedIn
	var secret string
	err := p.c.Gate.Attempt(r, func() (err error) {
		bound, err := r.Cookie(p.cookie("-opening"))
		if err != nil || !p.c.Door.Bound(bound.Value) {
			return fail.New(fail.Unauthorized, "this browser did not open the link").Do("open the link in the browser that is to be signed in, with cookies allowed")
		}
		in, err = p.c.Door.Enter(strings.TrimSpace(r.PostFormValue("key")), time.Now())
		return err
	})
	if err == nil {
		secret, err = p.c.Gate.Begin(r, p.kept(r), in)
	}
	p.remember(w, "-opening", "", -1)
	if err != nil {
		p.c.Gate.Note(r, access.Operator{Name: "nobody"}, "signed in to the pages", "", err)
		p.render(w, r, status(err), nil, &view{name: "open", Title: "Not signed in", Failed: err.Error()})
		return
	}
	p.keep(w, secret, int(in.Life.Seconds()))
	http.Redirect(w, r, "/ui/", http.StatusSeeOther)
}
