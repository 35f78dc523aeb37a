package issuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// idp is an issuer with answers that the test sets.
type idp struct {
	t      *testing.T
	oidc   oidctest.Server
	url    string
	key    *ecdsa.PrivateKey
	claims map[string]any // of the next ID token
	token  func() string  // replaces a token with claims
	info   map[string]any // from the userinfo endpoint; nil: no endpoint
	out    string         // address to sign out; empty: none
	status int            // of the token endpoint
	asked  url.Values     // parameters of the last exchange
	user   string         // user of its basic authentication
	down   bool           // serves no keys
	keys   atomic.Int32   // requests for its keys
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	return testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	i := &idp{t: t, key: newKey(t), status: http.StatusOK}
	i.oidc = oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: i.key.Public(), KeyID: "k", Algorithm: "ES256"}}, Algorithms: []string{"ES256"}}
	srv := httptest.NewServer(i)
	t.Cleanup(srv.Close)
	i.url = srv.URL
	i.oidc.SetIssuer(i.url)
	return i
}

func (i *idp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	say := func(v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	if r.URL.Path == "/keys" {
		i.keys.Add(1)
	}
	switch {
	case r.URL.Path == "/keys" && i.down:
		http.Error(w, "no", http.StatusServiceUnavailable)
	case r.URL.Path == "/info":
		say(i.info)
	case r.URL.Path == "/.well-known/openid-configuration" && (i.info != nil || i.out != ""):
		rec := httptest.NewRecorder()
		i.oidc.ServeHTTP(rec, r)
		d := map[string]any{}
		testkit.Must(i.t, json.Unmarshal(rec.Body.Bytes(), &d))
		if i.info != nil {
			d["userinfo_endpoint"], d["token_endpoint_auth_methods_supported"] = i.url+"/info", []string{"client_secret_post"}
		}
		if i.out != "" {
			d["end_session_endpoint"] = i.out
		}
		say(d)
	case r.URL.Path == "/token":
		testkit.Must(i.t, r.ParseForm())
		user, _, _ := r.BasicAuth()
		i.asked, i.user = r.PostForm, user
		if i.status != http.StatusOK {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(i.status)
			_, _ = w.Write([]byte(`{"error":"invalid_grant","error_description":"no such code"}`))
			return
		}
		got := map[string]any{"access_token": "a", "token_type": "Bearer"}
		if i.token != nil {
			got["id_token"] = i.token()
		} else if i.claims != nil {
			got["id_token"] = i.signed(i.key)
		}
		say(got)
	default:
		i.oidc.ServeHTTP(w, r)
	}
}

func (i *idp) signed(key *ecdsa.PrivateKey) string {
	return oidctest.SignIDToken(key, "k", "ES256", string(testkit.Value(json.Marshal(i.claims))(i.t)))
}

// believed returns an Issuer that accepts its tokens.
func (i *idp) believed(secret string) *Issuer {
	i.t.Helper()
	rules := []Rule{{Role: "operate", Claim: "groups", Value: "platform"}, {Role: "read", Claim: "groups", Value: "team"}}
	return testkit.Value(New(Config{URL: i.url, ClientID: "naupegos", Scopes: []string{"openid", "offline_access"}, NameBy: "email", Rules: rules,
		Pages: &Pages{URL: "https://boot.example.org:8443/", ClientID: "pages", Secret: secret, Life: time.Hour}}))(i.t)
}

// good returns valid claims.
func (i *idp) good(q access.Question) map[string]any {
	return map[string]any{"iss": i.url, "aud": "pages", "sub": "id1", "nonce": q.Nonce, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		"groups": []string{"platform"}, "email": "ann@example.org", "phone": "4711"}
}

func TestCode(t *testing.T) {
	i := newIDP(t)
	b := i.believed("")
	at, q, err := b.Ask(t.Context())
	testkit.Must(t, err)
	u := testkit.Value(url.Parse(at))(t).Query()
	if u.Get("state") != q.State || u.Get("nonce") != q.Nonce || u.Get("code_challenge_method") != "S256" || strings.Contains(at, q.Verifier) || u.Get("scope") != "openid" ||
		u.Get("redirect_uri") != "https://boot.example.org:8443/ui/login/callback" || u.Get("client_id") != "pages" || u.Get("response_type") != "code" {
		t.Errorf("asked is %s", at)
	}
	if _, r, _ := b.Ask(t.Context()); r.State == q.State || r.Nonce == q.Nonce || r.Verifier == q.Verifier {
		t.Error("two sign-ins begin with the same")
	}
	i.claims = i.good(q)
	in := testkit.Value(b.Answer(t.Context(), q, url.Values{"code": {"c"}, "iss": {i.url}}))(t)
	if in.Operator.Name != "ann@example.org (id1)" || in.Role != "operate" || in.Subject != "id1" || in.Life != time.Hour || in.Issuer != i.url {
		t.Errorf("signed in is %+v", in)
	}
	if string(in.Claims) != `{"email":"ann@example.org","groups":["platform"]}` {
		t.Errorf("kept is %s", in.Claims)
	}
	if i.asked.Get("code") != "c" || i.asked.Get("code_verifier") != q.Verifier || i.asked.Get("client_id") != "pages" || i.user != "" {
		t.Errorf("the exchange was %v by %q", i.asked, i.user)
	}
	// The current rules apply to a session.
	x := &store.Session{Issuer: in.Issuer, Subject: in.Subject, Claims: in.Claims}
	if at := in.SignedIn; time.Since(at).Abs() > time.Hour {
		t.Errorf("they have proven who they are at %s", at)
	}
	in.Operator.SignedIn = time.Time{} // stored separately in the session
	if o := testkit.Value(b.Again(x))(t); o != in.Operator {
		t.Errorf("later it is %+v", o)
	}
	b.c.Rules = b.c.Rules[1:]
	_, err = b.Again(x)
	testkit.Fails(t, err, fail.Unauthorized, "sign in again")
	b.c.Rules, x.Issuer = i.believed("").c.Rules, "https://former.example.org"
	_, err = b.Again(x)
	testkit.Fails(t, err, fail.Unauthorized, "sign in again")
}

// TestForgedAnswers: an answer that is not the issuer's, not for this question, not for this client or not current is refused.
func TestForgedAnswers(t *testing.T) {
	i := newIDP(t)
	b := i.believed("")
	_, q, err := b.Ask(t.Context())
	testkit.Must(t, err)
	code := url.Values{"code": {"c"}}
	for name, c := range map[string]struct {
		change map[string]any
		token  func() string
		came   url.Values
		status int
		kind   fail.Kind
		want   string
	}{
		"nonce of another sign-in":    {change: map[string]any{"nonce": "another"}, want: "not the one to this question"},
		"no nonce":                    {change: map[string]any{"nonce": nil}, want: "not the one to this question"},
		"for another client":          {change: map[string]any{"aud": "naupegos"}, want: "for another client"},
		"for several, by another":     {change: map[string]any{"aud": []string{"pages", "other"}, "azp": "other"}, want: "for another client"},
		"for several, no azp":         {change: map[string]any{"aud": []string{"pages", "other"}}, want: "for another client"},
		"another issuer's":            {change: map[string]any{"iss": "https://evil.example.org"}, want: "another issuer"},
		"expired":                     {change: map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}, want: "compare this server's clock"},
		"made in the future":          {change: map[string]any{"iat": time.Now().Add(time.Hour).Unix(), "exp": time.Now().Add(2 * time.Hour).Unix()}, want: "the clocks differ"},
		"not valid yet":               {change: map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}, want: "compare this server's clock"},
		"without a subject":           {change: map[string]any{"sub": ""}, want: "no usable subject"},
		"of what is no name":          {change: map[string]any{"sub": "id1\x1b[2J"}, want: "no usable subject"},
		"of no role":                  {change: map[string]any{"groups": []string{"guests"}}, kind: fail.Refused, want: "no rule of this server gives ann@example.org a role"},
		"signed by another key":       {token: func() string { return i.signed(newKey(t)) }, want: "signature is wrong"},
		"not signed":                  {token: func() string { return unsigned(i) }, want: "signature is wrong"},
		"no token":                    {token: func() string { return "" }, want: "no ID token"},
		"not a token":                 {token: func() string { return "a.b.c" }, want: "malformed"},
		"a code that was used":        {status: http.StatusBadRequest, want: "invalid_grant"},
		"an issuer that is ill":       {status: http.StatusBadGateway, kind: fail.Unreachable, want: "for a token"},
		"refused by the issuer":       {came: url.Values{"error": {"access_denied"}, "error_description": {"unknown user <script>"}}, want: "access_denied"},
		"no code":                     {came: url.Values{}, want: "no code"},
		"the answer of another (iss)": {came: url.Values{"code": {"c"}, "iss": {"https://evil.example.org"}}, want: "another issuer's"},
	} {
		i.claims, i.token, i.status = i.good(q), c.token, http.StatusOK
		maps.Copy(i.claims, c.change)
		if c.status != 0 {
			i.status = c.status
		}
		if c.came == nil {
			c.came = code
		}
		if c.kind == 0 {
			c.kind = fail.Unauthorized
		}
		in, err := b.Answer(t.Context(), q, c.came)
		t.Run(name, func(t *testing.T) { testkit.Fails(t, err, c.kind, c.want) })
		if in.Role != "" {
			t.Errorf("%s: the role is %s", name, in.Role)
		}
	}
}

// TestTokenWithoutSubject: an ID token that a command sends needs a subject, as one of a browser does.
func TestTokenWithoutSubject(t *testing.T) {
	i := newIDP(t)
	b := i.believed("")
	b.c.ClientID = b.c.Pages.ClientID
	_, q, err := b.Ask(t.Context())
	testkit.Must(t, err)
	i.claims = i.good(q)
	testkit.Value(b.Operator(t.Context(), i.signed(i.key)))(t)
	for _, sub := range []any{"", nil, "id1\x1b[2J", strings.Repeat("a", 256)} {
		i.claims["sub"] = sub
		_, err := b.Operator(t.Context(), i.signed(i.key))
		testkit.Fails(t, err, fail.Unauthorized, "no usable subject")
	}
}

func unsigned(i *idp) string {
	_, rest, _ := strings.Cut(i.signed(i.key), ".")
	claims, _, _ := strings.Cut(rest, ".")
	return "eyJhbGciOiJub25lIn0." + claims + "."
}

// TestUserinfo: claims that the ID token lacks come from the userinfo endpoint, if it describes the same user; they never replace the token's claims.
func TestUserinfo(t *testing.T) {
	i := newIDP(t)
	i.info = map[string]any{"sub": "id1", "groups": []string{"platform"}, "email": "eve@example.org"}
	secret := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(secret, []byte("first\n"), 0o600))
	b := i.believed(secret)
	_, q, err := b.Ask(t.Context())
	testkit.Must(t, err)
	answer := func(status int) (access.SignedIn, error) {
		i.status, i.claims = status, i.good(q)
		delete(i.claims, "groups")
		return b.Answer(t.Context(), q, url.Values{"code": {"c"}})
	}
	in := testkit.Value(answer(http.StatusOK))(t)
	if in.Role != "operate" || in.Name != "ann@example.org" || i.asked.Get("client_secret") != "first" {
		t.Errorf("signed in is %+v by %v", in, i.asked)
	}
	testkit.Must(t, os.WriteFile(secret, []byte("second\n"), 0o600))
	_, q, err = b.Ask(t.Context()) // each is answered once
	testkit.Must(t, err)
	testkit.Value(answer(http.StatusOK))(t)
	if i.asked.Get("client_secret") != "second" {
		t.Errorf("the secret that was replaced is still shown: %v", i.asked)
	}
	i.info["sub"] = "id2"
	_, err = answer(http.StatusOK)
	testkit.Fails(t, err, fail.Unauthorized, "another user")
	i.info["sub"], i.info["much"] = "id1", strings.Repeat("x", mostAnswer) // go-oidc reads the answer whole
	_, q, err = b.Ask(t.Context())
	testkit.Must(t, err)
	_, err = answer(http.StatusOK)
	testkit.Fails(t, err, fail.Unreachable, "larger than 1024 KiB")
}

// TestIssuerIsAway: an unreachable issuer is reported as such, and not as a refusal.
func TestIssuerIsAway(t *testing.T) {
	i := newIDP(t)
	b := i.believed("")
	_, q, err := b.Ask(t.Context())
	testkit.Must(t, err)
	i.claims, i.down = i.good(q), true
	_, err = b.Answer(t.Context(), q, url.Values{"code": {"c"}})
	testkit.Fails(t, err, fail.Unreachable, "for its keys")
	b.c.URL, b.provider = "http://127.0.0.1:1", nil
	_, _, err = b.Ask(t.Context())
	testkit.Fails(t, err, fail.Unreachable, "configuration")
	_, err = b.Operator(t.Context(), "a.b.c")
	testkit.Fails(t, err, fail.Unreachable, "configuration")
}

// TestLeave: a browser is sent to the issuer's page for signing out, with the ID token of its session, and back; if the issuer has no such page, or
// another issuer's session has ended, there is no address.
func TestLeave(t *testing.T) {
	i := newIDP(t)
	left := access.Left{Issuer: i.url, Token: "a.b.c"}
	if at := testkit.Value(i.believed("").Leave(t.Context(), left))(t); at != "" {
		t.Errorf("an issuer that has no such page leads to %q", at)
	}
	i.out = i.url + "/out?realm=staff"
	b := i.believed("")
	u := testkit.Value(url.Parse(testkit.Value(b.Leave(t.Context(), left))(t)))(t)
	want := url.Values{"realm": {"staff"}, "client_id": {"pages"}, "id_token_hint": {"a.b.c"}, "post_logout_redirect_uri": {"https://boot.example.org:8443/ui/login/out"}}
	if u.Path != "/out" || u.RawQuery != want.Encode() {
		t.Errorf("it leads to %s", u)
	}
	if at := testkit.Value(b.Leave(t.Context(), access.Left{Issuer: i.url}))(t); !strings.Contains(at, "client_id=pages") || strings.Contains(at, "id_token_hint") {
		t.Errorf("without an ID token it leads to %s", at)
	}
	if at := testkit.Value(b.Leave(t.Context(), access.Left{Issuer: "https://idp.example.org", Token: "a.b.c"}))(t); at != "" {
		t.Errorf("a session of another issuer leads to %s", at)
	}
	for _, out := range []string{"javascript:alert(1)", "/out", "://"} {
		i.out = out
		_, err := i.believed("").Leave(t.Context(), left)
		testkit.Fails(t, err, fail.Unreachable, "is not an address")
	}
	// The session keeps the token, unless it is too long for an address.
	_, q, err := b.Ask(t.Context())
	testkit.Must(t, err)
	i.claims = i.good(q)
	if in := testkit.Value(b.Answer(t.Context(), q, url.Values{"code": {"c"}}))(t); strings.Count(in.Token, ".") != 2 {
		t.Errorf("kept is %q", in.Token)
	}
	_, q, err = b.Ask(t.Context())
	testkit.Must(t, err)
	i.claims = i.good(q)
	i.claims["groups"] = []string{"platform", strings.Repeat("x", mostHint)}
	if in := testkit.Value(b.Answer(t.Context(), q, url.Values{"code": {"c"}}))(t); in.Token != "" || in.Subject != "id1" {
		t.Errorf("of a long one %d bytes are kept", len(in.Token))
	}
}

func TestPagesConfig(t *testing.T) {
	dir := t.TempDir()
	open, empty := filepath.Join(dir, "open"), filepath.Join(dir, "empty")
	testkit.Must(t, os.WriteFile(open, []byte("x"), 0o644))
	testkit.Must(t, os.WriteFile(empty, []byte("\n"), 0o600))
	ok := Pages{URL: "https://x", ClientID: "n", Life: time.Hour}
	for want, change := range map[string]func(*Pages){
		"where browsers have the server": func(p *Pages) { p.URL = "http://x" },
		"x/ui":                           func(p *Pages) { p.URL = "https://x/ui" },
		"a session lasts 1s":             func(p *Pages) { p.Life = time.Second },
		"a session lasts 1000h0m0s":      func(p *Pages) { p.Life = 1000 * time.Hour },
		"can be read by others":          func(p *Pages) { p.Secret = open },
		"is empty":                       func(p *Pages) { p.Secret = empty },
		"read the client's secret":       func(p *Pages) { p.Secret = filepath.Join(dir, "none") },
	} {
		p := ok
		change(&p)
		_, err := New(Config{URL: "https://idp.example.org", ClientID: "n", Rules: []Rule{{Role: "read", Claim: "sub", Value: "x"}}, Pages: &p})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("wanted %q: %v", want, err)
		}
	}
}
