package signin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// people is a real OpenID provider, reached by TLS, and a user's machine.
type people struct {
	host   Host
	dir    string
	out    *testkit.Buffer
	said   *testkit.Buffer
	signIn cluster.SignIn
}

// publicDevices lets the client of devices do without a secret, as programs on people's machines must.
type publicDevices struct{ *storage.Storage }

// GetClientByClientID implements op.Storage.
func (s publicDevices) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	if err == nil && id == "device" {
		c = publicClient{c}
	}
	return c, err
}

// CompleteDeviceAuthorization implements op.DeviceAuthorizationStorage. The example's page gives the name of its only user, and its tokens need the ID.
func (s publicDevices) CompleteDeviceAuthorization(ctx context.Context, userCode, _ string) error {
	return s.Storage.CompleteDeviceAuthorization(ctx, userCode, "id1")
}

// publicClient is a client without a secret.
type publicClient struct{ op.Client }

// AuthMethod implements op.Client.
func (publicClient) AuthMethod() oidc.AuthMethod { return oidc.AuthMethodNone }

// ApplicationType implements op.Client.
func (publicClient) ApplicationType() op.ApplicationType { return op.ApplicationTypeNative }

func newPeople(t *testing.T, clientID string) *people {
	t.Helper()
	var provider http.Handler
	idp := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { provider.ServeHTTP(w, r) }))
	t.Cleanup(idp.Close)
	storage.RegisterClients(storage.NativeClient("kubernetes", "http://127.0.0.1/callback"), storage.DeviceClient("device", ""))
	provider = exampleop.SetupServer(idp.URL, publicDevices{storage.NewStorage(storage.NewUserStore(idp.URL))}, slog.New(slog.DiscardHandler), false)
	p := &people{dir: t.TempDir(), out: &testkit.Buffer{}, said: &testkit.Buffer{}}
	p.signIn = cluster.SignIn{
		Name: "corp", URL: idp.URL, ClientID: clientID, Scopes: []string{"openid", "email", "offline_access"},
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: idp.Certificate().Raw}),
	}
	p.host = Host{Out: p.out, Err: p.said, Dir: func() (string, error) { return p.dir, nil }, Entrance: func(context.Context, string) (*cluster.Entrance, error) {
		return &cluster.Entrance{Server: "https://10.0.0.1:6443", Issuers: []cluster.SignIn{p.signIn}}, nil
	}}
	return p
}

// printed waits until a command has printed a match, and returns its first group.
func (p *people) printed(t *testing.T, what *regexp.Regexp) string {
	t.Helper()
	for deadline, tick := time.Now().Add(time.Minute), time.Tick(10*time.Millisecond); time.Now().Before(deadline); <-tick {
		if m := what.FindStringSubmatch(p.said.String()); m != nil {
			return m[1]
		}
	}
	t.Fatalf("%s was not printed: %s", what, p.said)
	return ""
}

// getToken runs get-token as a kubeconfig does.
func (p *people) getToken(ctx context.Context) error {
	c := NewGetToken(p.host)
	c.SetArgs([]string{"--issuer", p.signIn.URL, "--client-id", p.signIn.ClientID, "--scope", strings.Join(p.signIn.Scopes, ","), "--issuer-ca-data", base64.StdEncoding.EncodeToString(p.signIn.CA)})
	c.SilenceErrors, c.SilenceUsage = true, true
	return c.ExecuteContext(ctx)
}

// token signs the user in through get-token and a browser, and returns the token that kubectl gets.
func (p *people) token(t *testing.T) string {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- p.getToken(t.Context()) }()
	browse(t, p.printed(t, regexp.MustCompile(`(https://\S+)`)), "test-user@127.0.0.1")
	testkit.Must(t, <-done)
	return p.credential(t).Status.Token
}

func (p *people) credential(t *testing.T) (c execCredential) {
	t.Helper()
	testkit.Must(t, json.Unmarshal([]byte(p.out.String()), &c))
	if c.Kind != "ExecCredential" || c.APIVersion != "client.authentication.k8s.io/v1" || c.Status == nil || time.Until(c.Status.Expires.Time) < time.Minute {
		t.Fatalf("kubectl gets %s", p.out)
	}
	return c
}

// TestGetToken: the first call signs the user in, later calls use and renew the stored token, and a call without a terminal never waits for a browser.
func TestGetToken(t *testing.T) {
	p := newPeople(t, "kubernetes")
	t.Setenv(execInfo, `{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}`)
	testkit.Fails(t, p.getToken(t.Context()), fail.Unauthorized, "not signed in", "naupegos get-token --issuer")
	t.Setenv(execInfo, "")
	token := p.token(t)
	path := file(p.dir, keyOf(signInOf(&p.signIn)))
	if info := testkit.Value(os.Stat(path))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %o", info.Mode().Perm())
	}
	if strings.Contains(p.said.String(), token) {
		t.Error("the token is shown")
	}
	again := *p
	again.out = &testkit.Buffer{}
	again.host.Out = again.out
	testkit.Must(t, again.getToken(t.Context()))
	if got := again.credential(t).Status.Token; got != token {
		t.Error("a second call does not use the token that is kept")
	}
	soon := testkit.Value(read(path))(t)
	soon.Expires = time.Now().Add(time.Second)
	testkit.Must(t, soon.write(path))
	again.out = &testkit.Buffer{}
	again.host.Out = again.out
	testkit.Must(t, again.getToken(t.Context()))
	if got := again.credential(t).Status.Token; got == token {
		t.Error("a token that is about to end is not renewed")
	}
}

// TestLoginToCluster: login by a code in a browser elsewhere; get-token uses it; logout forgets it.
func TestLoginToCluster(t *testing.T) {
	p := newPeople(t, "device")
	c := NewLogin(p.host)
	c.SetArgs([]string{"demo", "--device"})
	c.SilenceErrors, c.SilenceUsage = true, true
	done := make(chan error, 1)
	go func() { done <- c.ExecuteContext(t.Context()) }()
	code := p.printed(t, regexp.MustCompile(`enter the code (\S+)`))
	browser := newBrowser(t)
	res := testkit.Value(browser.PostForm(p.signIn.URL+"/device/login", url.Values{"user_code": {code}, "username": {"test-user@127.0.0.1"}, "password": {"verysecure"}}))(t)
	page := testkit.Value(io.ReadAll(res.Body))(t)
	res.Body.Close()
	if res.StatusCode != http.StatusOK || !strings.Contains(string(page), "device") {
		t.Fatalf("the provider shows %s %s", res.Status, page)
	}
	res = testkit.Value(browser.Get(p.signIn.URL + "/device/confirm?action=allowed"))(t)
	res.Body.Close()
	testkit.Must(t, <-done)
	if !strings.Contains(p.out.String(), "Signed in to cluster demo as") {
		t.Errorf("login says %q", p.out)
	}
	p.out = &testkit.Buffer{}
	p.host.Out = p.out
	testkit.Must(t, p.getToken(t.Context()))
	p.credential(t)

	out := NewLogout(p.host)
	out.SetArgs([]string{"demo"})
	testkit.Must(t, out.ExecuteContext(t.Context()))
	if s := testkit.Value(read(file(p.dir, keyOf(signInOf(&p.signIn)))))(t); s != nil {
		t.Error("the sign-in is still there")
	}
}

// TestLoginPort: the browser returns to the port of the issuer, or to the one that the user names.
func TestLoginPort(t *testing.T) {
	p := newPeople(t, "kubernetes")
	p.signIn.Port = testkit.FreePort(t)
	other := testkit.FreePort(t)
	for _, c := range []struct {
		args []string
		want int
	}{{nil, p.signIn.Port}, {[]string{"--port", fmt.Sprint(other)}, other}} {
		p.said = &testkit.Buffer{}
		p.host.Err = p.said
		ctx, cancel := context.WithCancel(t.Context())
		login := NewLogin(p.host)
		login.SetArgs(append([]string{"demo"}, c.args...))
		login.SilenceErrors, login.SilenceUsage = true, true
		done := make(chan error, 1)
		go func() { done <- login.ExecuteContext(ctx) }()
		at := testkit.Value(url.Parse(p.printed(t, regexp.MustCompile(`(https://\S+)`))))(t)
		if want := fmt.Sprintf("http://127.0.0.1:%d/callback", c.want); at.Query().Get("redirect_uri") != want {
			t.Errorf("%q: the browser returns to %s, want %s", c.args, at.Query().Get("redirect_uri"), want)
		}
		cancel()
		<-done
	}
}

// TestChoose: of several issuers one must be named.
func TestChoose(t *testing.T) {
	e := &cluster.Entrance{}
	_, err := e.Choose("demo", "")
	testkit.Fails(t, err, fail.Invalid, "no issuer", "spec.identity.issuers")
	e.Issuers = []cluster.SignIn{{Name: "corp"}, {Name: "partner"}}
	_, err = e.Choose("demo", "")
	testkit.Fails(t, err, fail.Invalid, "2 issuers", "corp, partner")
	_, err = e.Choose("demo", "other")
	testkit.Fails(t, err, fail.NotFound, "corp, partner")
	if i := testkit.Value(e.Choose("demo", "partner"))(t); i.Name != "partner" {
		t.Errorf("chose %s", i.Name)
	}
}

// TestHostileProvider: the operators of a cluster choose its issuers, so an issuer's answers must not give orders to the terminal of a user who signs in.
func TestHostileProvider(t *testing.T) {
	const orders = "\x1b]0;owned\x07\nSigned in to cluster demo as root, with issuer corp.\u202e"
	p := newPeople(t, "device")
	var idp *httptest.Server
	idp = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]any{
			"issuer": idp.URL, "authorization_endpoint": idp.URL + "/auth" + orders, "token_endpoint": idp.URL + "/token", "jwks_uri": idp.URL + "/keys",
			"device_authorization_endpoint": idp.URL + "/device",
		}
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/device":
			answer = map[string]any{"device_code": "d", "user_code": "A" + orders, "verification_uri": "https://x/" + orders, "verification_uri_complete": "https://y/" + orders, "expires_in": 60, "interval": 1}
		case "/token":
			answer = map[string]any{"error": "access_denied", "error_description": "no" + orders}
			w.WriteHeader(http.StatusBadRequest)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(idp.Close)
	p.signIn.URL, p.signIn.CA = idp.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: idp.Certificate().Raw})
	for _, args := range [][]string{{"demo", "--device"}, {"demo", "--timeout", "1s"}} {
		c := NewLogin(p.host)
		c.SetArgs(args)
		c.SilenceErrors, c.SilenceUsage = true, true
		err := c.ExecuteContext(t.Context())
		if err == nil {
			t.Fatalf("%q: signed in", args)
		}
		said := p.said.String() + p.out.String() + err.Error()
		if strings.ContainsAny(said, "\x1b\x07\u202e") || strings.Contains(said, "\nSigned in") || !strings.Contains(said, "Open ") {
			t.Errorf("%q: the terminal gets %q", args, said)
		}
	}
}
