package web

import (
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/issuer"
	"github.com/naupegos/naupegos/internal/testkit"
)

// person is a user with a browser, which stops before the redirect back to the pages.
type person struct {
	s    *site
	http *http.Client
}

func (s *site) person() *person {
	c := &http.Client{Transport: s.client.Transport, Jar: testkit.Value(cookiejar.New(nil))(s.t), Timeout: time.Minute}
	c.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == issuer.CallbackPath {
			return http.ErrUseLastResponse
		}
		return nil
	}
	return &person{s, c}
}

// get opens a link, follows redirects, and returns the answer.
func (p *person) get(at string) answer {
	p.s.t.Helper()
	return p.read(testkit.Value(p.http.Get(at))(p.s.t))
}

func (p *person) post(at string, form url.Values) answer {
	p.s.t.Helper()
	return p.read(testkit.Value(p.http.PostForm(at, form))(p.s.t))
}

func (p *person) read(res *http.Response) answer {
	p.s.t.Helper()
	defer res.Body.Close()
	return answer{res.StatusCode, res.Header, string(testkit.Value(io.ReadAll(res.Body))(p.s.t))}
}

var formID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// back signs in at the provider, and returns the address that the provider redirects to.
func (p *person) back(to string) string {
	t := p.s.t
	t.Helper()
	res := testkit.Value(p.http.Get(p.s.url + "/ui/login/provider?to=" + url.QueryEscape(to)))(t)
	at := res.Request.URL
	page := p.read(res)
	id := formID.FindStringSubmatch(page.body)
	if id == nil {
		t.Fatalf("the provider shows no form: %d %s", page.code, page.body)
	}
	a := p.post(at.ResolveReference(&url.URL{Path: "/login/username"}).String(), url.Values{"id": {id[1]}, "username": {"test-user@localhost"}, "password": {"verysecure"}})
	if !strings.HasPrefix(a.Get("Location"), p.s.url+issuer.CallbackPath+"?") {
		t.Fatalf("the provider sends the browser to %q: %d %s", a.Get("Location"), a.code, a.body)
	}
	return a.Get("Location")
}

// has returns the value of the browser's cookie for the pages.
func (p *person) has(name string) string {
	for _, c := range p.http.Jar.Cookies(testkit.Value(url.Parse(p.s.url))(p.s.t)) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// TestSignInWithProvider: an operator signs in with a real provider and gets the role that the rules grant, on each server of the store, until the
// operator signs out or an administrator ends the session.
func TestSignInWithProvider(t *testing.T) {
	s := withProvider(t, "admin=sub:nobody", "operate=sub:id1")
	p := s.person()
	if a := p.get(s.url + "/ui/machines?state=failed"); !strings.Contains(a.body, `href="/ui/login/provider?to=%2Fui%2Fmachines%3Fstate%3Dfailed">Sign in with localhost:`) || !strings.Contains(a.body, `id="token"`) {
		t.Fatalf("the page to sign in on: %d %s", a.code, a.body)
	}
	back := p.back("/ui/machines?state=failed")
	if p.has(cookieName) != "" {
		t.Error("there is a session before the provider has answered")
	}
	a := p.get(back)
	if a.code != http.StatusOK || !strings.Contains(a.body, `http-equiv="refresh" content="0; url=/ui/machines?state=failed"`) || a.Get("Referrer-Policy") != "no-referrer" {
		t.Fatalf("after the provider: %d %v %s", a.code, a.Header, a.body)
	}
	cookies := strings.Join(a.Values("Set-Cookie"), "\n")
	for _, want := range []string{cookieName + "=session_", "HttpOnly", "Secure", "SameSite=Strict", "Path=/", "Max-Age=28800", askedCookie + "=; Path=/; Max-Age=0"} {
		if !strings.Contains(cookies, want) {
			t.Errorf("the cookies lack %s: %s", want, cookies)
		}
	}
	session := p.has(cookieName)
	if a := p.get(s.url + "/ui/machines"); a.code != http.StatusOK || !strings.Contains(a.body, "test-user@zitadel.ch (id1) (operate)") {
		t.Errorf("the page of a signed-in operator: %d %s", a.code, a.body)
	}
	if a := p.get(s.url + "/ui/audit"); a.code != http.StatusForbidden {
		t.Errorf("who may operate sees the audit: %d", a.code)
	}
	// The session's secret works only for the pages.
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/api/v1/jobs", nil)
	r.Header.Set("Authorization", "Bearer "+session)
	s.gate.Guard(server.Mount{Need: server.Read, Scope: server.Own()}, http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("the API takes a session: %d", w.Code)
	}
	// Another server on the store accepts the session, but only if it has the issuer.
	other := access.NewGate(s.store, slog.New(slog.DiscardHandler))
	if _, err := other.SignIn(r, session); err == nil {
		t.Error("a server without an issuer takes a session")
	}
	other.Believe(s.pages.c.Provider.(*issuer.Issuer))
	if who := testkit.Value(other.SignIn(r, session))(t); who.Role != server.Operate {
		t.Errorf("to another server it is %+v", who)
	}

	// A guessed second half of the secret does not work, and does not end the session.
	if a := s.ask("GET", "/ui/machines", session[:len(session)-4]+"AAAA", nil); a.code != http.StatusSeeOther || !strings.Contains(a.Get("Set-Cookie"), cookieName+"=; ") {
		t.Errorf("half of a session: %d %v", a.code, a.Header)
	}
	if a := s.ask("POST", "/ui/logout", session, url.Values{}, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"); a.code != http.StatusForbidden {
		t.Errorf("another site's form signs out: %d", a.code)
	}
	if a := p.get(s.url + "/ui/machines"); !strings.Contains(a.body, "(operate)") {
		t.Error("another site's form has ended the session")
	}
	if a := p.post(s.url+"/ui/logout", url.Values{}); !strings.Contains(p.leaves(a), "signed out, here and at localhost:") {
		t.Errorf("after signing out: %d %s", a.code, a.body)
	}
	if who := s.idp.left(); who != "id1 of pages" {
		t.Errorf("at the provider has signed out: %q", who)
	}
	if a := s.ask("GET", "/ui/machines", session, nil); a.code != http.StatusSeeOther || p.has(cookieName) != "" {
		t.Errorf("after signing out the session is good still: %d", a.code)
	}
	p.get(p.back("/ui/"))
	all := testkit.Value(s.store.Sessions(t.Context()))(t)
	if len(all) != 1 || all[0].Name != "test-user@zitadel.ch" || all[0].Subject != "id1" {
		t.Fatalf("the sessions are %+v", all)
	}
	testkit.Must(t, s.store.EndSession(t.Context(), all[0].ID))
	if a := p.get(s.url + "/ui/machines"); !strings.Contains(a.body, `id="token"`) {
		t.Errorf("a session that was ended shows pages: %d", a.code)
	}
	audit := s.audit()
	for _, want := range []string{"test-user@zitadel.ch (id1) signed in to the pages  done", "test-user@zitadel.ch (id1) signed out of the pages  done"} {
		if !strings.Contains(audit, want) {
			t.Errorf("the audit lacks %q:\n%s", want, audit)
		}
	}
}

// onward matches the address that a page redirects to.
var onward = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]+)"`)

// leaves follows the redirect of the page after a sign-out, and returns the final page.
func (p *person) leaves(a answer) string {
	p.s.t.Helper()
	to := onward.FindStringSubmatch(a.body)
	if a.code != http.StatusOK || to == nil {
		p.s.t.Fatalf("who has signed out is not led to the provider: %d %s", a.code, a.body)
	}
	if p.has(cookieName) != "" {
		p.s.t.Error("who has not signed out at the provider yet is signed in here still")
	}
	return p.get(html.UnescapeString(to[1])).body
}

// TestSignOutHereAlone: if the provider has no page to sign out, or does not answer, the page says that the user may still be signed in there;
// nothing of this applies to a sign-in with a token.
func TestSignOutHereAlone(t *testing.T) {
	s := withProvider(t, "operate=sub:id1")
	s.idp.mute.Store(true)
	p := s.person()
	p.get(p.back("/ui/"))
	if p.has(cookieName) == "" {
		t.Fatal("not signed in")
	}
	a := p.post(s.url+"/ui/logout", url.Values{})
	if a.code != http.StatusOK || !strings.Contains(a.body, "You have signed out here. localhost:") || !strings.Contains(a.body, "you may still be signed in there") || onward.MatchString(a.body) {
		t.Errorf("the page: %d %s", a.code, a.body)
	}
	if who := s.idp.left(); who != "" || p.has(cookieName) != "" {
		t.Errorf("at the provider has signed out %q, and the session is %q", who, p.has(cookieName))
	}
	if a := s.ask("POST", "/ui/logout", s.admin, url.Values{}); a.code != http.StatusSeeOther || a.Get("Location") != "/ui/login" {
		t.Errorf("who had a token: %d %s", a.code, a.Get("Location"))
	}
	if a := s.ask("GET", "/ui/login?done=evil", "", nil); strings.Contains(a.body, "evil") || strings.Contains(a.body, `role="status"`) {
		t.Errorf("a word that is none of ours: %s", a.body)
	}
}

// TestForeignAnswers: a browser accepts only the answer to its own sign-in, and only once.
func TestForeignAnswers(t *testing.T) {
	s := withProvider(t, "operate=sub:id1")
	attacker, victim := s.person(), s.person()
	refused := func(what string, p *person, at string) {
		t.Helper()
		a := p.get(at)
		if a.code != http.StatusUnauthorized || p.has(cookieName) != "" || !strings.Contains(a.body, `role="alert"`) || !strings.Contains(a.body, "/ui/login/provider?to=") {
			t.Errorf("%s: %d, the session %q: %s", what, a.code, p.has(cookieName), a.body)
		}
	}
	theirs := attacker.back("/ui/")
	refused("the answer to another person's sign-in", victim, theirs)
	own := victim.back("/ui/")
	refused("another's answer, in the middle of one's own sign-in", victim, theirs)
	refused("one's own, after that", victim, own)
	own = victim.back("/ui/")
	wrong := testkit.Value(url.Parse(own))(t)
	q := wrong.Query()
	q.Set("state", "guessed")
	wrong.RawQuery = q.Encode()
	refused("a state that is wrong", victim, wrong.String())

	// A code works once, even with a copy of the cookie.
	own = victim.back("/ui/")
	asked := victim.has(askedCookie)
	if a := victim.get(own); a.code != http.StatusOK || victim.has(cookieName) == "" {
		t.Fatalf("one's own answer: %d %s", a.code, a.body)
	}
	first := victim.has(cookieName)
	req := testkit.Value(http.NewRequest("GET", own, nil))(t)
	req.AddCookie(&http.Cookie{Name: askedCookie, Value: asked})
	if a := attacker.read(testkit.Value(s.client.Do(req))(t)); a.code != http.StatusUnauthorized || strings.Contains(strings.Join(a.Values("Set-Cookie"), "\n"), cookieName+"=session") {
		t.Errorf("a code that was used: %d %v", a.code, a.Header)
	}
	// Each sign-in begins a new session and ends the browser's previous one.
	victim.get(victim.back("/ui/"))
	if victim.has(cookieName) == first {
		t.Error("signing in goes on with the session from before")
	}
	if a := s.ask("GET", "/ui/machines", first, nil); a.code != http.StatusSeeOther {
		t.Errorf("the session from before is good still: %d", a.code)
	}
	if n := len(testkit.Value(s.store.Sessions(t.Context()))(t)); n != 1 {
		t.Errorf("there are %d sessions", n)
	}
	// A session that an attacker planted in the browser is not continued either.
	planted := s.person()
	planted.get(planted.back("/ui/"))
	knows := planted.has(cookieName)
	at := testkit.Value(url.Parse(s.url))(t)
	other := s.person()
	other.http.Jar.SetCookies(at, []*http.Cookie{{Name: cookieName, Value: knows, Path: "/", Secure: true}})
	other.get(other.back("/ui/"))
	if other.has(cookieName) == knows {
		t.Error("a planted session is gone on with")
	}
}

// TestWhereSignInLeads: a sign-in leads only to these pages.
func TestWhereSignInLeads(t *testing.T) {
	s := withProvider(t, "operate=sub:id1")
	for _, to := range []string{"https://evil.example", "//evil.example", `/\evil.example`, "/ui/" + strings.Repeat("x", 2000), `/ui/machines"><script>`} {
		p := s.person()
		a := p.get(p.back(to))
		if a.code != http.StatusOK || !strings.Contains(a.body, `content="0; url=/ui/`) || strings.Contains(a.body, "evil") || strings.Contains(a.body, "><script>") {
			t.Errorf("%q: %d %s", to, a.code, a.body)
		}
	}
	// The address in the cookie is trusted no more than the one in the link.
	if a := s.ask("GET", issuer.CallbackPath+"?state=x&code=y", "", nil, "Cookie", askedCookie+"=eyJTdGF0ZSI6IngiLCJOb25jZSI6IngiLCJWZXJpZmllciI6IngiLCJUbyI6Imh0dHBzOi8vZXZpbC5leGFtcGxlIn0"); a.code != http.StatusUnauthorized || strings.Contains(a.body, "evil") {
		t.Errorf("a cookie of one's own: %d %s", a.code, a.body)
	}
	// A sign-in that begins at another name of the server is redirected to the name that the provider knows.
	req := testkit.Value(http.NewRequest("GET", s.url+"/ui/login/provider?to=/ui/waves", nil))(t)
	req.Host = "10.0.0.1:8443"
	res := testkit.Value(s.client.Do(req))(t)
	res.Body.Close()
	if at := res.Header.Get("Location"); at != s.url+"/ui/login/provider?home=&to=%2Fui%2Fwaves" {
		t.Errorf("it leads to %q", at)
	}
}

// TestNobodysRole: errors say that no rule grants a user a role, and that the provider is away; repeated failures are slowed down.
func TestNobodysRole(t *testing.T) {
	s := withProvider(t, "operate=sub:id2")
	p := s.person()
	if a := p.get(p.back("/ui/")); a.code != http.StatusForbidden || !strings.Contains(a.body, "no rule of this server gives test-user@zitadel.ch a role") || p.has(cookieName) != "" {
		t.Errorf("who has no role: %d %s", a.code, a.body)
	}
	if audit := s.audit(); !strings.Contains(audit, "test-user@zitadel.ch signed in to the pages  refused") {
		t.Errorf("the audit: %s", audit)
	}
	codes := map[int]int{}
	for range 20 {
		codes[s.ask("GET", issuer.CallbackPath+"?state=x&code=y", "", nil).code]++
	}
	if codes[http.StatusUnauthorized] < 5 || codes[http.StatusServiceUnavailable] < 5 {
		t.Errorf("answered are %v", codes)
	}
	away := newSiteWith(t, func(home string) *issuer.Issuer {
		return testkit.Value(issuer.New(issuer.Config{URL: "http://127.0.0.1:1", ClientID: "x", Rules: []issuer.Rule{{Role: "read", Claim: "sub", Value: "x"}},
			Pages: &issuer.Pages{URL: home, ClientID: "x", Life: time.Hour}}))(t)
	})
	a := away.ask("GET", "/ui/login/provider?to=/ui/waves", "", nil)
	if a.code != http.StatusBadGateway || !strings.Contains(a.body, "fetch the issuer http://127.0.0.1:1") || !strings.Contains(a.body, `name="to" value="/ui/waves"`) || a.Get("Set-Cookie") != "" {
		t.Errorf("a provider that is away: %d %s", a.code, a.body)
	}
}
