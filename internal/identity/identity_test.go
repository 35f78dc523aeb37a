package identity_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/apiserver/pkg/apis/apiserver/v1"

	"github.com/naupegos/naupegos/internal/identity"
	"github.com/naupegos/naupegos/internal/testkit"
)

func good() v1.JWTAuthenticator {
	prefix := "corp:"
	return v1.JWTAuthenticator{
		Issuer:              v1.Issuer{URL: "https://login.example.org", Audiences: []string{"kubernetes"}},
		ClaimMappings:       v1.ClaimMappings{Username: v1.PrefixedClaimOrExpression{Claim: "sub", Prefix: &prefix}},
		UserValidationRules: identity.Rules(),
	}
}

// TestCheck: API servers' own validation runs here, and each of its findings becomes one line.
func TestCheck(t *testing.T) {
	if got := testkit.Value(identity.Check([]v1.JWTAuthenticator{good()}))(t); len(got) != 0 {
		t.Fatalf("a good issuer: %v", got)
	}
	for name, c := range map[string]struct {
		change func(*v1.JWTAuthenticator)
		want   []identity.Problem
	}{
		"http":     {func(a *v1.JWTAuthenticator) { a.Issuer.URL = "http://x" }, []identity.Problem{{"jwt[0].issuer.url", "URL scheme must be https", ""}}},
		"reserved": {func(a *v1.JWTAuthenticator) { a.Issuer.URL = "https://own" }, []identity.Problem{{"jwt[0].issuer.url", "URL must not overlap with disallowed issuers: [https://own]", ""}}},
		"no such variable": {func(a *v1.JWTAuthenticator) {
			a.ClaimMappings.Username = v1.PrefixedClaimOrExpression{Expression: "claim.sub"}
		}, []identity.Problem{{"jwt[0].claimMappings.username.expression", "is no CEL expression: undeclared reference to 'claim' (in container '') (column 1)", ""}}},
		"second line": {func(a *v1.JWTAuthenticator) {
			a.ClaimMappings.Username = v1.PrefixedClaimOrExpression{Expression: "claims.sub +\n  "}
		}, []identity.Problem{{"jwt[0].claimMappings.username.expression", "is no CEL expression: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER} (line 2, column 3)", ""}}},
		"not true or false": {func(a *v1.JWTAuthenticator) { a.ClaimValidationRules = []v1.ClaimValidationRule{{Expression: "'x'"}} },
			[]identity.Problem{{"jwt[0].claimValidationRules[0].expression", "must evaluate to bool", ""}}},
		"Kubernetes' own functions": {func(a *v1.JWTAuthenticator) {
			a.ClaimValidationRules = []v1.ClaimValidationRule{{Expression: "isIP(claims.ip) && url(claims.iss).getHost() == 'x'"}}
		}, nil},
	} {
		a := good()
		c.change(&a)
		if d := cmp.Diff(c.want, testkit.Value(identity.Check([]v1.JWTAuthenticator{a}, "https://own"))(t)); d != "" {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
	}
	if got := testkit.Value(identity.Check([]v1.JWTAuthenticator{good(), good()}))(t); len(got) != 1 || got[0].Text != "is given twice" {
		t.Errorf("the same issuer twice: %v", got)
	}
}

func TestRender(t *testing.T) {
	if got := testkit.Value(identity.Render(nil))(t); got != nil {
		t.Errorf("no issuers: %q", got)
	}
	got := string(testkit.Value(identity.Render([]v1.JWTAuthenticator{good()}))(t))
	for _, want := range []string{"jwt:\n- claimMappings:\n", "  issuer:\n    audiences:\n    - kubernetes\n    url: https://login.example.org\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
