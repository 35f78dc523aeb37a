package adopt

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
)

// issuers stands for a program in the setting of the issuer of users' tokens.
const issuers = "issuers"

// oidc returns the issuer of users' tokens that the flags of all API servers name alike. Defaults are those of the flags: users are named by the claim sub
// with the issuer's URL and # in front, except by the claim email, and groups as they are.
func (d *drafting) oidc() []setting {
	cps := d.controlPlane()
	if len(cps) == 0 {
		return nil
	}
	flags := oidcOf(cps[0])
	if slices.ContainsFunc(cps[1:], func(h Host) bool { return !maps.Equal(flags, oidcOf(h)) }) {
		return nil // the comparison names them
	}
	url, client := flags["oidc-issuer-url"], flags["oidc-client-id"]
	if url == "" || client == "" {
		return nil
	}
	claim := cmp.Or(flags["oidc-username-claim"], "sub")
	prefix := flags["oidc-username-prefix"]
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && claim != "email":
		prefix = url + "#"
	}
	issuer := v1alpha1.IdentityIssuer{Name: "oidc", URL: url, Audiences: []string{client}}
	issuer.Claims.Username = v1alpha1.ClaimMapping{Claim: claim, Prefix: &prefix}
	if groups := flags["oidc-groups-claim"]; groups != "" {
		of := flags["oidc-groups-prefix"]
		issuer.Claims.Groups = v1alpha1.ClaimMapping{Claim: groups, Prefix: &of}
	}
	if file := flags["oidc-ca-file"]; file != "" {
		if issuer.CA = string(cps[0].Files[file]); issuer.CA == "" {
			return nil
		}
	}
	for _, rule := range strings.Split(flags["oidc-required-claim"], ",") {
		if name, value, ok := strings.Cut(rule, "="); ok {
			issuer.ClaimValidationRules = append(issuer.ClaimValidationRules, v1alpha1.ClaimRule{Claim: name, RequiredValue: value})
		}
	}
	return []setting{{program: issuers, name: "oidc-issuer-url", value: issuer}}
}

// oidcOf returns an API server's flags of the issuer.
func oidcOf(h Host) map[string]string {
	all := h.flags("kube-apiserver")
	maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(oidcFlags, name) })
	return all
}

// oidcFlags are covered by the document's issuer.
var oidcFlags = []string{"oidc-issuer-url", "oidc-client-id", "oidc-ca-file", "oidc-groups-claim", "oidc-groups-prefix", "oidc-required-claim", "oidc-username-claim",
	"oidc-username-prefix"}
