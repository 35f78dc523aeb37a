package web

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/naupegos/naupegos/internal/server/issuer"
	"github.com/naupegos/naupegos/internal/testkit"
)

// withProvider returns a site with a real OpenID provider. It is at localhost and the pages at 127.0.0.1, so that browsers see different sites.
func withProvider(t *testing.T, rules ...string) *site {
	t.Helper()
	idp := &idp{}
	s := newSiteWith(t, func(home string) *issuer.Issuer {
		srv := httptest.NewServer(idp)
		t.Cleanup(srv.Close)
		at := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
		storage.RegisterClients(storage.WebClient("pages", "s3cret", home+issuer.CallbackPath))
		idp.Storage, idp.back = storage.NewStorage(storage.NewUserStore(at)), home+issuer.LeftPath
		idp.Handler = exampleop.SetupServer(at, idp, slog.New(slog.DiscardHandler), false)
		secret := filepath.Join(t.TempDir(), "secret")
		testkit.Must(t, os.WriteFile(secret, []byte("s3cret\n"), 0o600))
		c := issuer.Config{URL: at, ClientID: "naupegos", NameBy: "email", Scopes: []string{"openid", "email", "offline_access"},
			Pages: &issuer.Pages{URL: home, ClientID: "pages", Secret: secret, Life: 8 * time.Hour}}
		for _, text := range rules {
			c.Rules = append(c.Rules, testkit.Value(issuer.ParseRule(text))(t))
		}
		return testkit.Value(issuer.New(c))(t)
	})
	s.idp = idp
	return s
}

// idp is a real OpenID provider with its storage, which also redirects browsers after a sign-out.
type idp struct {
	http.Handler
	*storage.Storage
	back string      // the address for that redirect
	mute atomic.Bool // the provider names no page for signing out
	mu   sync.Mutex  //
	out  []string    // users who signed out, with the client
}

// GetClientByClientID implements op.Storage: it adds an address for the redirect after a sign-out, which the provider's own clients lack.
func (i *idp) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := i.Storage.GetClientByClientID(ctx, id)
	return client{c, i.back}, err
}

type client struct {
	op.Client
	back string
}

// PostLogoutRedirectURIs implements op.Client.
func (c client) PostLogoutRedirectURIs() []string { return []string{c.back} }

// TerminateSession implements op.Storage.
func (i *idp) TerminateSession(ctx context.Context, user, client string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.out = append(i.out, user+" of "+client)
	return i.Storage.TerminateSession(ctx, user, client)
}

// left returns the users who signed out.
func (i *idp) left() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return strings.Join(i.out, ", ")
}

// ServeHTTP implements http.Handler.
func (i *idp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !i.mute.Load() || r.URL.Path != "/.well-known/openid-configuration" {
		i.Handler.ServeHTTP(w, r)
		return
	}
	rec := httptest.NewRecorder()
	i.Handler.ServeHTTP(rec, r)
	says := map[string]any{}
	if err := json.Unmarshal(rec.Body.Bytes(), &says); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	delete(says, "end_session_endpoint")
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(says)
}
