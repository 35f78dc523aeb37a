package validation

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/identity"
)

const (
	issuersAt  = "spec.identity.issuers"
	bindingsAt = "spec.identity.bindings"
	webhooksAt = "spec.identity.authorizationWebhooks"
)

// checkIdentity checks issuers first by themselves and then by the validation that API servers do.
func checkIdentity(id v1alpha1.Identity, r *findings, dnsDomain string) {
	names := map[string]int{}
	for i, issuer := range id.Issuers {
		p := strict.Item(issuersAt, i)
		if first, again := names[issuer.Name]; again && issuer.Name != "" {
			r.Add(p+".name", fmt.Sprintf("%s is already the name of %s", strict.Quote(issuer.Name), strict.Item(issuersAt, first)), "keep one of them")
		}
		names[issuer.Name] = i
		for key, u := range map[string]string{"url": issuer.URL, "discoveryURL": issuer.DiscoveryURL} {
			checkWebAddress(r, p+"."+key, u, "https://login.example.org", "an issuer")
			if strings.HasPrefix(u, "http://") {
				r.Add(p+"."+key, strict.Quote(u)+" is reached without TLS, and API servers refuse that", "write https")
			}
		}
		if strings.HasSuffix(issuer.URL, "/.well-known/openid-configuration") {
			r.Add(p+".url", strict.Quote(issuer.URL)+" is the discovery document", "leave out /.well-known/openid-configuration")
		}
		if issuer.CA != "" {
			checkAuthorities(r, p+".ca", issuer.CA)
		}
		for j, scope := range issuer.Scopes {
			if scope == "" || strings.ContainsFunc(scope, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
				r.Add(strict.Item(p+".scopes", j), strict.Quote(scope)+" is not a scope", "as openid")
			}
		}
		if len(issuer.Scopes) > 0 && !slices.Contains(issuer.Scopes, "openid") {
			r.Add(p+".scopes", "lack openid, and providers give no ID token without it", "add openid")
		}
	}
	checkAuthenticators(id, r, dnsDomain)
	checkWebhooks(id, r)
	checkBindings(id, r)
}

// webhookPaths maps API servers' names of a webhook's fields to the document's.
var webhookPaths = strings.NewReplacer("webhooks[", webhooksAt+"[", ".timeout", ".timeoutSeconds", "TTL", "TTLSeconds", ".expression", "")

// checkWebhooks checks authorization webhooks first by themselves and then by the validation that API servers do.
func checkWebhooks(id v1alpha1.Identity, r *findings) {
	names := map[string]int{}
	for i, w := range id.AuthorizationWebhooks {
		p := strict.Item(webhooksAt, i)
		if first, again := names[w.Name]; w.Name == "node" || w.Name == "rbac" {
			r.Add(p+".name", strict.Quote(w.Name)+" is the name of one of Kubernetes' own", "choose another name")
		} else if again && w.Name != "" {
			r.Add(p+".name", fmt.Sprintf("%s is already the name of %s", strict.Quote(w.Name), strict.Item(webhooksAt, first)), "keep one of them")
		}
		names[w.Name] = i
		checkWebhook(r, p, w.URL, w.CA, w.Auth)
	}
	problems, err := identity.CheckWebhooks(id.Authorizers())
	if err != nil {
		r.Add(webhooksAt, err.Error(), "")
		return
	}
	for _, p := range problems {
		hint := ""
		if strings.Contains(p.Text, "undeclared reference") {
			hint = "write request.user, request.groups, request.resourceAttributes.namespace or another field of a SubjectAccessReview's spec"
		}
		r.Add(webhookPaths.Replace(p.Field), p.Text, hint)
	}
}

// paths maps API servers' names of fields to the document's.
var paths = strings.NewReplacer("jwt[", issuersAt+"[", ".issuer.certificateAuthority", ".ca", ".issuer.audienceMatchPolicy", ".audiences", ".issuer.", ".", ".claimMappings", ".claims",
	".valueExpression", ".expression")

// checkWebhook checks how API servers reach a webhook.
func checkWebhook(r *findings, at, address, ca string, auth *v1alpha1.WebhookAuth) {
	if u, err := url.Parse(address); address != "" && (err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "") {
		r.Add(at+".url", "is not an https URL without credentials", `write it like "https://webhook.example.org/path"`)
	}
	checkAuthorities(r, at+".ca", ca)
	checkAuth(r, at+".auth", (*v1alpha1.BasicAuth)(auth))
}

// checkAuthenticators reports what API servers would refuse, unless the field is reported already.
func checkAuthenticators(id v1alpha1.Identity, r *findings, dnsDomain string) {
	if len(id.Issuers) == 0 {
		return
	}
	problems, err := identity.Check(id.Authenticators(), "https://kubernetes.default.svc."+dnsDomain)
	if err != nil {
		r.Add(issuersAt, err.Error(), "")
		return
	}
	for _, p := range problems {
		hint := ""
		switch {
		case strings.Contains(p.Text, "undeclared reference"):
			hint = "write claims.NAME, or claims[\"NAME\"]"
			if strings.Contains(p.Field, "userValidationRules") {
				hint = "write user.username, user.groups, user.uid or user.extra"
			}
		case strings.Contains(p.Text, "expression of type 'any' cannot be range"):
			hint = "write dyn(claims.NAME) for a claim that is a list"
		case strings.Contains(p.Text, "claims.email_verified must be used"):
			p.Text = "claims.email is used, but no expression of the issuer looks at claims.email_verified: anybody could give another's address"
			hint = "add a rule to claimValidationRules: claims.?email_verified.orValue(true) == true"
		case strings.Contains(p.Text, "disallowed issuers"):
			p.Text, hint = "is the cluster's own issuer of tokens", "give the URL of another"
		}
		r.Add(paths.Replace(p.Field), p.Text, hint)
	}
}

// everybody lists the names that Kubernetes gives to users who do not sign in.
var everybody = []string{"system:anonymous", "system:unauthenticated"}

// checkBindings demands one subject and a role that can exist.
func checkBindings(id v1alpha1.Identity, r *findings) {
	seen := map[string]string{}
	for i, b := range id.Bindings {
		p := strict.Item(bindingsAt, i)
		var given []string
		for key, value := range map[string]string{"group": b.Group, "user": b.User, "serviceAccount": b.ServiceAccount} {
			if value == "" {
				continue
			}
			given = append(given, key)
			switch {
			case strings.ContainsFunc(value, unicode.IsControl) || strings.TrimSpace(value) != value:
				r.Add(p+"."+key, strict.Quote(value)+" has blanks around it, or control characters", "")
			case key != "serviceAccount" && slices.Contains(everybody, value):
				r.Add(p+"."+key, "everyone who reaches the API would have the role", "name who signs in")
			}
		}
		switch {
		case len(given) == 0:
			r.Add(p, "names no subject", "give it one of group, user, serviceAccount")
		case len(given) > 1:
			r.Add(p, "names several", "give each of group, user, serviceAccount a binding of its own")
		}
		checkServiceAccount(r, p+".serviceAccount", b.ServiceAccount)
		if problems := content.IsPathSegmentName(b.Role); b.Role != "" && len(problems) > 0 {
			r.Add(p+".role", strict.Quote(b.Role)+" "+problems[0], "as view")
		}
		for j, n := range b.Namespaces {
			at := strict.Item(p+".namespaces", j)
			if len(validation.IsDNS1123Label(n)) > 0 {
				r.Add(at, strict.Quote(n)+" is not the name of a namespace", "")
			} else if slices.Index(b.Namespaces, n) < j {
				r.Add(at, strict.Quote(n)+" is given twice", "remove it")
			}
		}
		key := strings.Join([]string{b.Group, b.User, b.ServiceAccount, b.Role}, "\x00")
		if first := seen[key]; first != "" && len(given) == 1 {
			r.Add(p, "has the subject and the role of "+first, "join their namespaces in one of them")
		} else {
			seen[key] = p
		}
	}
}

func checkServiceAccount(r *findings, at, account string) {
	namespace, name, _ := strings.Cut(account, "/")
	if account != "" && (len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0) {
		r.Add(at, strict.Quote(account)+" is not a service account", "as NAMESPACE/NAME")
	}
}

// checkIdentityExpiry is checkAuthoritiesLast for issuers.
func checkIdentityExpiry(id v1alpha1.Identity, r *findings, now time.Time) {
	for i, issuer := range id.Issuers {
		checkExpiry(r, strict.Item(issuersAt, i)+".ca", issuer.CA, now)
	}
	for i, w := range id.AuthorizationWebhooks {
		checkExpiry(r, strict.Item(webhooksAt, i)+".ca", w.CA, now)
	}
}
