package v1alpha1

import (
	"reflect"

	"github.com/naupegos/naupegos/api/strict"
)

// identity adds the rules of issuers and bindings, for which nothing restarts, and of Pod Security.
func (r rules) identity() rules {
	add := func(place string, t reflect.Type, rule ChangeRule) {
		strict.Walk(t, place, func(path string, _ reflect.Type, f strict.Field) {
			if ruled(f) {
				r[ruleKey(path, f)] = rule
			}
		})
	}
	issuers := ChangeRule{Class: ChangeFree, Say: "API servers take it up without a restart; they refuse tokens of an issuer that left the list"}
	bindings := ChangeRule{Class: ChangeFree, Say: "what left the list is removed from the cluster"}
	r["spec.identity.issuers[]"], r["spec.identity.bindings"] = issuers, bindings
	add("spec.identity.issuers[]", reflect.TypeFor[IdentityIssuer](), issuers)
	add("spec.identity.bindings[]", reflect.TypeFor[Binding](), bindings)
	r[webhooksAt+"[]"] = ChangeRule{Class: ChangeRolling, Say: "API servers restart for the first webhook and after the last one; otherwise they take up a change without a restart"}
	webhooks := ChangeRule{Class: ChangeFree, Say: "API servers take it up without a restart"}
	r[webhooksAt+"[].auth"] = webhooks
	add(webhooksAt+"[]", reflect.TypeFor[AuthorizationWebhook](), webhooks)
	security := ChangeRule{Class: ChangeRolling, Say: "the API servers restart; pods that run stay, new ones are checked"}
	r[podSecurityAt] = security
	add(podSecurityAt, reflect.TypeFor[PodSecurity](), security)
	return r
}
