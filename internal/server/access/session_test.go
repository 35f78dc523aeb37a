package access

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
