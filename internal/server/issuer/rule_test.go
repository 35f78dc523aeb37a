package issuer

import (
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestRules(t *testing.T) {
	claims := map[string]any{"groups": []any{"a", "platform", 7.0, "R&D"}, "amr": []any{"pwd", "mfa"}, "acr": "urn:x:2", "email": "ann@example.org", "email_verified": true, "n": 1.0}
	for text, fits := range map[string]bool{
		"operate=groups:platform": true, "demo/read=groups:a": true, "read=groups:plat": false, "read=groups:7": false,
		"admin=groups:platform&amr:mfa": true, "admin=groups:platform&amr:hwk": false, "admin=groups:other&amr:mfa": false, "admin=groups:a&amr:mfa&acr:2": false,
		"admin=groups:a&amr:mfa&acr:urn:x:2": true, "admin=groups:a&acr:urn:x:2": true, "demo/read=groups:R&D": true, "demo/read=groups:R&D&amr:pwd": true,
		"admin=email:ann@example.org": true, "read=email_verified:true": true, "read=email_verified:false": false, "read=n:1": false, "read=other:x": false,
	} {
		r := testkit.Value(ParseRule(text))(t)
		if r.fits(claims) != fits {
			t.Errorf("%s: %t", text, !fits)
		}
	}
	if r := testkit.Value(ParseRule("demo/operate=https://x/y:z:w"))(t); r.Cluster != "demo" || r.Role != "operate" || r.Claim != "https" || r.Value != "//x/y:z:w" {
		t.Errorf("%+v", r)
	}
	for _, text := range []string{"", "operate", "operate=groups", "operate=:x", "operate=groups:", "king=groups:x", "/read=groups:x", "=groups:x", "read=groups:x&amr:", "read=groups:&amr:mfa"} {
		_, err := ParseRule(text)
		testkit.Fails(t, err, fail.Invalid, "is not a rule")
	}
}

func TestConfig(t *testing.T) {
	rules := []Rule{{Role: "read", Claim: "sub", Value: "x"}}
	for _, c := range []Config{
		{URL: "", ClientID: "n", Rules: rules}, {URL: "http://idp.example.org", ClientID: "n", Rules: rules}, {URL: "https://idp.example.org", Rules: rules},
		{URL: "https://idp.example.org", ClientID: "n"}, {URL: "https://u@idp.example.org", ClientID: "n", Rules: rules},
		{URL: "https://idp.example.org", ClientID: "n", Rules: rules, CA: []byte("no certificate")},
	} {
		_, err := New(c)
		testkit.Fails(t, err, fail.Invalid, "")
	}
}
