package signin

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"

	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/issuer"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// notes is a store without tokens that records the audit.
type notes struct {
	store.Access
	mu  sync.Mutex
	all []store.AuditEntry
}

func (n *notes) Token(context.Context, string) (*store.Token, error) {
	return nil, fail.New(fail.NotFound, "there is no such token")
}

func (n *notes) Note(_ context.Context, e store.AuditEntry) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, e)
	return nil
}

// site is a real OpenID provider, and a server that accepts its tokens.
type site struct {
	host   Host
	dir    string
	conf   client.Config
	notes  *notes
	said   *testkit.Buffer
	tokens *httptest.Server
}

func newSite(t *testing.T, rules ...string) *site {
	t.Helper()
	var op http.Handler
	idp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { op.ServeHTTP(w, r) }))
	t.Cleanup(idp.Close)
	storage.RegisterClients(storage.NativeClient("naupegos", "http://127.0.0.1/callback"))
	op = exampleop.SetupServer(idp.URL, storage.NewStorage(storage.NewUserStore(idp.URL)), slog.New(slog.DiscardHandler), false)

	c := issuer.Config{URL: idp.URL, ClientID: "naupegos", NameBy: "email", Scopes: []string{"openid", "email", "offline_access"}}
	for _, text := range rules {
		c.Rules = append(c.Rules, testkit.Value(issuer.ParseRule(text))(t))
	}
	believed := testkit.Value(issuer.New(c))(t)
	s := &site{dir: t.TempDir(), notes: &notes{}, said: &testkit.Buffer{}, tokens: idp}
	gate := access.NewGate(s.notes, slog.New(slog.DiscardHandler))
	gate.Believe(believed)
	mux := http.NewServeMux()
	for _, m := range believed.Part().Mounts {
		mux.Handle(m.Pattern, m.Handler)
	}
	mux.Handle("POST /change", gate.Guard(server.Mount{Need: server.Operate, Scope: server.Own()}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, access.From(r.Context()).Name)
	})))
	front := httptest.NewTLSServer(mux)
	t.Cleanup(front.Close)
	s.conf = client.Config{URL: front.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})}
	s.host = Host{Out: s.said, Err: s.said, Server: func() (client.Config, error) { return s.conf, nil }, Dir: func() (string, error) { return s.dir, nil }}
	return s
}

// login runs naupegos login.
func (s *site) login(ctx context.Context, args ...string) error {
	c := NewLogin(s.host)
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	return c.ExecuteContext(ctx)
}

var printed = regexp.MustCompile(`https?://\S+`)

// address waits until the verb prints where to sign in.
func (s *site) address(t *testing.T) string {
	t.Helper()
	for deadline, tick := time.Now().Add(time.Minute), time.Tick(10*time.Millisecond); time.Now().Before(deadline); <-tick {
		if at := printed.FindString(s.said.String()); at != "" {
			return at
		}
	}
	t.Fatalf("no address was printed: %s", s.said)
	return ""
}

// newBrowser returns a client that keeps cookies and trusts any provider.
func newBrowser(t *testing.T) *http.Client {
	return &http.Client{Jar: testkit.Value(cookiejar.New(nil))(t), Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

// browse signs a user in on the provider's page, as a browser does, and returns the final page.
func browse(t *testing.T, at, name string) string {
	t.Helper()
	browser := newBrowser(t)
	res := testkit.Value(browser.Get(at))(t)
	page := testkit.Value(io.ReadAll(res.Body))(t)
	res.Body.Close()
	id := regexp.MustCompile(`name="id" value="([^"]+)"`).FindSubmatch(page)
	if id == nil {
		t.Fatalf("the provider shows no form: %s %s", res.Status, page)
	}
	form := url.Values{"id": {string(id[1])}, "username": {name}, "password": {"verysecure"}}
	res = testkit.Value(browser.PostForm(res.Request.URL.ResolveReference(&url.URL{Path: "/login/username"}).String(), form))(t)
	defer res.Body.Close()
	return string(testkit.Value(io.ReadAll(res.Body))(t))
}

// signedIn signs a user in.
func (s *site) signedIn(t *testing.T, name string) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.login(t.Context()) }()
	if page := browse(t, s.address(t), name); !strings.Contains(page, "you can close this page") {
		t.Fatalf("the browser shows %q", page)
	}
	testkit.Must(t, <-done)
}

// change sends the server a request that requires the role operate.
func (s *site) change(t *testing.T, token string) (int, string) {
	t.Helper()
	req := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, s.conf.URL+"/change", nil))(t)
	req.Header.Set("Authorization", "Bearer "+token)
	hc := testkit.Value(issuer.Client(s.conf.CA))(t)
	res := testkit.Value(hc.Do(req))(t)
	defer res.Body.Close()
	return res.StatusCode, string(testkit.Value(io.ReadAll(res.Body))(t))
}

// TestSignIn: a user signs in, gets the role of the matching rule on the server, renews the session, and signs out.
func TestSignIn(t *testing.T) {
	s := newSite(t, "admin=sub:nobody", "operate=sub:id1", "read=sub:id1")
	s.signedIn(t, "test-user@127.0.0.1")
	path := file(s.dir, s.conf.URL)
	if info := testkit.Value(os.Stat(path))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %o", info.Mode().Perm())
	}
	token := testkit.Value(Token(t.Context(), s.dir, s.conf.URL))(t)
	if code, who := s.change(t, token); code != http.StatusOK || !strings.Contains(who, "(id1)") {
		t.Errorf("%d: %s", code, who)
	}
	if len(s.notes.all) != 1 || s.notes.all[0].Outcome != "done" {
		t.Errorf("the audit: %+v", s.notes.all)
	}

	// A session with a token about to end is renewed once.
	old := testkit.Value(read(path))(t)
	soon := *old
	soon.Expires = time.Now().Add(time.Second)
	testkit.Must(t, soon.write(path))
	renewed := testkit.Value(Token(t.Context(), s.dir, s.conf.URL))(t)
	kept := testkit.Value(read(path))(t)
	if renewed == token || kept.IDToken != renewed || kept.Refresh == old.Refresh || time.Until(kept.Expires) < time.Minute {
		t.Errorf("not renewed: %v", kept.Expires)
	}
	if code, _ := s.change(t, renewed); code != http.StatusOK {
		t.Errorf("the renewed token: %d", code)
	}
	// The former refresh token has been used: the session is over.
	testkit.Must(t, soon.write(path))
	_, err := Token(t.Context(), s.dir, s.conf.URL)
	testkit.Fails(t, err, fail.Unauthorized, "naupegos login")

	c := NewLogout(s.host)
	c.SetArgs(nil)
	testkit.Must(t, c.ExecuteContext(t.Context()))
	if token, err := Token(t.Context(), s.dir, s.conf.URL); token != "" || err != nil {
		t.Errorf("after signing out there is %q, %v", token, err)
	}
}

// TestNoRole: an error says that no rule matches a user, and tokens that were tampered with or are for another client are refused.
func TestNoRole(t *testing.T) {
	s := newSite(t, "read=sub:id2")
	s.signedIn(t, "test-user@127.0.0.1")
	token := testkit.Value(Token(t.Context(), s.dir, s.conf.URL))(t)
	if code, text := s.change(t, token); code != http.StatusForbidden || !strings.Contains(text, "no rule of this server") {
		t.Errorf("%d: %s", code, text)
	}
	head, rest, _ := strings.Cut(token, ".")
	claims, _, _ := strings.Cut(rest, ".")
	for _, wrong := range []string{head + "." + claims + ".AAAA", head + "." + claims + ".", "a.b.c", strings.Repeat("a", 17<<10) + ".b.c"} {
		if code, text := s.change(t, wrong); code != http.StatusUnauthorized {
			t.Errorf("%.40s: %d: %s", wrong, code, text)
		}
	}
	c := issuer.Config{URL: s.tokens.URL, ClientID: "another", Rules: []issuer.Rule{{Role: server.Read, Claim: "sub", Value: "id1"}}}
	_, err := testkit.Value(issuer.New(c))(t).Operator(t.Context(), token)
	testkit.Fails(t, err, fail.Unauthorized, "for another client")
}

// TestBrowserGoesAstray: an answer without the state is ignored, and the provider's refusal ends the wait.
func TestBrowserGoesAstray(t *testing.T) {
	s := newSite(t, "read=sub:id1")
	done := make(chan error, 1)
	go func() { done <- s.login(t.Context()) }()
	at := testkit.Value(url.Parse(s.address(t)))(t).Query()
	for _, q := range []url.Values{{"code": {"x"}}, {"code": {"x"}, "state": {"y"}}} {
		res := testkit.Value(http.Get(at.Get("redirect_uri") + "?" + q.Encode()))(t)
		res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("%v: %s", q, res.Status)
		}
	}
	if at.Get("code_challenge_method") != "S256" || at.Get("code_challenge") == "" || at.Get("nonce") == "" {
		t.Errorf("%v is asked for", at)
	}
	res := testkit.Value(http.Get(at.Get("redirect_uri") + "?" + url.Values{"state": {at.Get("state")}, "error": {"access_denied"}}.Encode()))(t)
	res.Body.Close()
	testkit.Fails(t, <-done, fail.Unauthorized, "access_denied")
	testkit.Fails(t, s.login(t.Context(), "--timeout", "50ms"), fail.Unauthorized, "in time")
}
