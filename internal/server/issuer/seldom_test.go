package issuer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/peer"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestForgedTokensAskSeldom: each token that the issuer did not sign would have its keys requested again.
func TestForgedTokensAskSeldom(t *testing.T) {
	p := newIDP(t)
	i := p.believed("")
	p.claims = map[string]any{"iss": p.url, "aud": "naupegos", "sub": "ann", "email": "ann", "groups": []string{"platform"}, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	testkit.Value(i.Operator(t.Context(), p.signed(p.key)))(t)
	began, forged := time.Now(), p.signed(newKey(t))
	for range 500 {
		if _, err := i.Operator(t.Context(), forged); fail.KindOf(err) != fail.Unauthorized {
			t.Fatal(err)
		}
	}
	if n, most := int(p.keys.Load()), 12+int(time.Since(began).Seconds()); n > most {
		t.Errorf("the issuer was asked for its keys %d times, at most %d are allowed", n, most)
	}
	testkit.Value(i.Operator(t.Context(), p.signed(p.key)))(t)
}

// TestIssuerLeadsElsewhere: the client follows no redirect to plain HTTP, and an issuer that redirects to a new URL each time fills no memory.
func TestIssuerLeadsElsewhere(t *testing.T) {
	var next atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/plain":
			http.Redirect(w, r, "http://192.0.2.1/keys", http.StatusFound)
		case "/new":
			http.Redirect(w, r, fmt.Sprintf("/keys/%d", next.Add(1)), http.StatusFound)
		}
	}))
	defer srv.Close()
	c := testkit.Value(Client(nil))(t)
	s := newSeldom(c.Transport)
	s.limit = peer.NewRates(1e6, 1e6, 1)
	c.Transport = s
	ask := func(path string) error {
		res, err := c.Get(srv.URL + path)
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	testkit.Fails(t, ask("/plain"), fail.Refused, "leads to http://192.0.2.1")
	for range 10 * mostKept {
		testkit.Must(t, ask("/new"))
	}
	if len(s.last) > mostKept {
		t.Errorf("%d answers are kept", len(s.last))
	}
}

// TestHangingIssuer: callers that wait for an issuer share one attempt and its outcome, and none outlasts its own request.
func TestHangingIssuer(t *testing.T) {
	const callers = 5
	var asked atomic.Int32
	answer := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		<-answer
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer srv.Close()
	i := newIDP(t).believed("")
	i.c.URL = srv.URL
	done := make(chan error, callers)
	for range callers {
		go func() {
			_, err := i.known(t.Context())
			done <- err
		}()
	}
	testkit.Until(t, time.Minute, time.Millisecond, testkit.That("the issuer is asked", func() bool { return asked.Load() > 0 }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.known(ctx); !errors.Is(err, context.Canceled) || fail.KindOf(err) != fail.Unreachable {
		t.Errorf("a cancelled caller: %v", err)
	}
	close(answer)
	answered := time.Now()
	for range callers {
		testkit.Fails(t, <-done, fail.Unreachable, "configuration")
	}
	if n := asked.Load(); n != 1 && time.Since(answered) < retry {
		t.Errorf("the issuer was asked %d times", n)
	}
}
