package access

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestLeft: the end of a session returns its ID token, which the store alone does not reveal.
func TestLeft(t *testing.T) {
	g, st := gate(t)
	r := httptest.NewRequest("POST", "/ui/logout", nil)
	secret := testkit.Value(g.Begin(r, "", SignedIn{Issuer: "https://idp.example.org", Subject: "ann1", Token: "a.b.c", Life: time.Hour}))(t)
	x := testkit.Value(st.Sessions(t.Context()))(t)[0]
	if x.Hint == "" || strings.Contains(x.Hint, "a.b.c") || unseal(x.Hash, x.Hint) != "" {
		t.Errorf("the store has %q", x.Hint)
	}
	if left := testkit.Value(g.End(r, secret[:len(secret)-1]))(t); left != (Left{}) {
		t.Errorf("by half of a session: %+v", left)
	}
	if left := testkit.Value(g.End(r, secret))(t); left != (Left{"https://idp.example.org", "a.b.c"}) {
		t.Errorf("left is %+v", left)
	}
	if left := testkit.Value(g.End(r, secret))(t); left != (Left{}) {
		t.Errorf("the second time: %+v", left)
	}
	secret = testkit.Value(g.Begin(r, "", SignedIn{Issuer: "https://idp.example.org", Life: time.Hour}))(t)
	if left := testkit.Value(g.End(r, secret))(t); left != (Left{"https://idp.example.org", ""}) {
		t.Errorf("without an ID token: %+v", left)
	}
}

// TestIdleWithAPageOpen: what a page asks by itself does not keep its session, and what its user asks does.
func TestIdleWithAPageOpen(t *testing.T) {
	g, st := gate(t)
	r := httptest.NewRequest("GET", "/ui/", nil)
	token, _, err := NewToken(t.Context(), st, "ann", server.Read, "", 0)
	testkit.Must(t, err)
	for name, ask := range map[string]func(*http.Request, string) (Operator, error){"a page": g.SignIn, "its stream": g.Still} {
		secret, _, err := g.BeginByToken(r, "", token, time.Hour)
		testkit.Must(t, err)
		if o := testkit.Value(ask(r, secret))(t); o.SignedIn.IsZero() || time.Since(o.SignedIn) > time.Minute {
			t.Errorf("%s: the sign-in is of %s", name, o.SignedIn)
		}
		id, _, _ := halves(secret)
		if x := testkit.Value(st.Session(t.Context(), id))(t); x.Used.IsZero() == (name == "a page") {
			t.Errorf("%s: last used %s", name, x.Used)
		}
	}
}

// TestAttemptsOfOneNetwork: addresses of one IPv6 network have one count of failed sign-ins, and others their own.
func TestAttemptsOfOneNetwork(t *testing.T) {
	g, _ := gate(t)
	try := func(from string) error {
		r := httptest.NewRequest("GET", "/ui/login/callback", nil)
		r.RemoteAddr = from
		return g.Attempt(r, func() error { return fail.New(fail.Unauthorized, "wrong") })
	}
	for range burstWrong {
		testkit.Fails(t, try("[2001:db8::1]:1"), fail.Unauthorized)
	}
	testkit.Fails(t, try("[2001:db8::2]:1"), fail.NotReady)
	testkit.Fails(t, try("[2001:db8::ffff:1]:2"), fail.NotReady)
	testkit.Fails(t, try("[2001:db8:0:1::1]:1"), fail.Unauthorized)
	testkit.Fails(t, try("192.0.2.1:1"), fail.Unauthorized)
}
