package issuer

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
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
