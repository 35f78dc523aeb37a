package issuer

import (
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/naupegos/naupegos/internal/server/access"
)

// TestProven: neither a provider's clock nor a renewed token makes an old sign-in young.
func TestProven(t *testing.T) {
	issued := time.Now().Truncate(time.Second).UTC()
	old := issued.Add(-time.Hour)
	for name, c := range map[string]struct {
		claim any
		want  time.Time
		ok    bool
	}{
		"stated":         {float64(old.Unix()), old, true},
		"as a text":      {"1700000000", time.Unix(1700000000, 0).UTC(), true},
		"ahead":          {float64(issued.Add(time.Hour).Unix()), issued, true},
		"far ahead":      {1e300, issued, true},
		"no number":      {"yesterday", issued, false},
		"none":           {nil, issued, false},
		"before records": {float64(-1), issued, false},
	} {
		if at, ok := proven(&oidc.IDToken{IssuedAt: issued}, map[string]any{"auth_time": c.claim}); !at.Equal(c.want) || ok != c.ok {
			t.Errorf("%s: %s, %v", name, at, ok)
		}
	}
	i := &Issuer{}
	for name, c := range map[string]struct {
		token oidc.IDToken
		want  time.Time
	}{
		"1 first":       {oidc.IDToken{Subject: "a", Nonce: "n", IssuedAt: old}, old},
		"2 renewed":     {oidc.IDToken{Subject: "a", Nonce: "n", IssuedAt: issued}, old},
		"3 another one": {oidc.IDToken{Subject: "b", Nonce: "n", IssuedAt: issued}, issued},
		"4 no nonce":    {oidc.IDToken{Subject: "a", IssuedAt: issued}, access.Unproven},
	} {
		if name == "2 renewed" {
			i.first(&oidc.IDToken{Subject: "a", Nonce: "n", IssuedAt: old})
		}
		if at := i.first(&c.token); !at.Equal(c.want) {
			t.Errorf("%s: %s", name, at)
		}
	}
}
