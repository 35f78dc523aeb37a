package v1alpha1

import (
	"reflect"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1/change"
)

// addIdentity adds the rules of issuers and bindings, for which nothing restarts, and of Pod Security.
func addIdentity(r change.Rules) {
	add := func(place string, t reflect.Type, rule change.Rule) {
		strict.Walk(t, place, func(path string, _ reflect.Type, f strict.Field) {
			if ruled(f) {
				r[ruleKey(path, f)] = rule
			}
		})
	}
	issuers := change.Rule{Class: change.Free, Say: "API servers take it up without a restart; they refuse tokens of an issuer that left the list"}
	bindings := change.Rule{Class: change.Free, Say: "what left the list is removed from the cluster"}
	r["spec.identity.issuers[]"], r["spec.identity.bindings"] = issuers, bindings
	add("spec.identity.issuers[]", reflect.TypeFor[IdentityIssuer](), issuers)
	add("spec.identity.bindings[]", reflect.TypeFor[Binding](), bindings)
	r["spec.identity.authorizationWebhooks[]"] = change.Rule{Class: change.Rolling, Say: "API servers restart for the first webhook and after the last one; otherwise they take up a change without a restart"}
	webhooks := change.Rule{Class: change.Free, Say: "API servers take it up without a restart"}
	r["spec.identity.authorizationWebhooks[].auth"] = webhooks
	add("spec.identity.authorizationWebhooks[]", reflect.TypeFor[AuthorizationWebhook](), webhooks)
	security := change.Rule{Class: change.Rolling, Say: "the API servers restart; pods that run stay, new ones are checked"}
	r["spec.identity.podSecurity"] = security
	add("spec.identity.podSecurity", reflect.TypeFor[PodSecurity](), security)
}
