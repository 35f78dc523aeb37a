package v1alpha1

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserver "k8s.io/apiserver/pkg/apis/apiserver/v1"

	"github.com/naupegos/naupegos/internal/identity"
)

// Identity says who may use the Kubernetes API, and for what, besides holders of the cluster's own certificates and tokens.
type Identity struct {
	// OpenID Connect providers whose tokens the API servers accept. No API server restarts for a change. It takes effect within a minute, but only while all issuers of the new list answer: until then the former list stays, and tokens of a removed issuer are accepted.
	Issuers []IdentityIssuer `json:"issuers,omitempty" yaml:"issuers,omitempty" jsonschema:"maxItems=64"`
	// Roles of groups, users and service accounts. A binding that leaves the list leaves the cluster.
	Bindings []Binding `json:"bindings,omitempty" yaml:"bindings,omitempty" jsonschema:"maxItems=500"`
	// Services that API servers ask about requests which neither Node nor RBAC permits, in this order. They can permit more, and forbid nothing that RBAC permits.
	AuthorizationWebhooks []AuthorizationWebhook `json:"authorizationWebhooks,omitempty" yaml:"authorizationWebhooks,omitempty" jsonschema:"maxItems=16"`
	// Pod Security levels of namespaces that have no labels of their own. Left out: privileged everywhere.
	PodSecurity *PodSecurity `json:"podSecurity,omitempty" yaml:"podSecurity,omitempty"`
}

// PodSecurity is the configuration of the admission plugin PodSecurity. Labels of a namespace, such as pod-security.kubernetes.io/enforce, override the levels.
type PodSecurity struct {
	// Level that pods must comply with. Others are refused.
	Enforce string `json:"enforce,omitempty" yaml:"enforce,omitempty" jsonschema:"default=privileged,enum=privileged,enum=baseline,enum=restricted"`
	// Version of the level, such as v1.37, or latest.
	EnforceVersion string `json:"enforceVersion,omitempty" yaml:"enforceVersion,omitempty" jsonschema:"default=latest,maxLength=20" host:"none"`
	// Level whose violations are noted in the audit log.
	Audit string `json:"audit,omitempty" yaml:"audit,omitempty" jsonschema:"default=privileged,enum=privileged,enum=baseline,enum=restricted"`
	// Version of the level, such as v1.37, or latest.
	AuditVersion string `json:"auditVersion,omitempty" yaml:"auditVersion,omitempty" jsonschema:"default=latest,maxLength=20" host:"none"`
	// Level whose violations users are warned of.
	Warn string `json:"warn,omitempty" yaml:"warn,omitempty" jsonschema:"default=privileged,enum=privileged,enum=baseline,enum=restricted"`
	// Version of the level, such as v1.37, or latest.
	WarnVersion string `json:"warnVersion,omitempty" yaml:"warnVersion,omitempty" jsonschema:"default=latest,maxLength=20" host:"none"`
	// What no level applies to.
	Exemptions PodSecurityExemptions `json:"exemptions,omitzero" yaml:"exemptions,omitempty"`
}

// PodSecurityExemptions list what no Pod Security level applies to.
type PodSecurityExemptions struct {
	// Namespaces. kube-system is always exempt: the components of the cluster run there.
	Namespaces []string `json:"namespaces,omitempty" yaml:"namespaces,omitempty" jsonschema:"maxItems=200"`
	// Users, as Kubernetes knows them, for pods that they create themselves. Pods of a Deployment are created by a controller, for which no exemption applies.
	Usernames []string `json:"usernames,omitempty" yaml:"usernames,omitempty" jsonschema:"maxItems=200"`
	// Runtime classes.
	RuntimeClasses []string `json:"runtimeClasses,omitempty" yaml:"runtimeClasses,omitempty" jsonschema:"maxItems=50"`
}

// IdentityIssuer is an OpenID Connect provider. API servers reach it from the control-plane machines.
type IdentityIssuer struct {
	// Name of the issuer. By default, names of its users and groups begin with it: corp:alice.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// URL of the issuer, https, exactly as in the claim iss of its tokens.
	URL string `json:"url" yaml:"url" jsonschema:"required,maxLength=1000" host:"none"`
	// Audiences. A token must name one of them in its claim aud. Most providers put the client ID there.
	Audiences []string `json:"audiences" yaml:"audiences" jsonschema:"required,minItems=1,maxItems=20"`
	// Certificates of the authorities (PEM) that vouch for the issuer. Left out: the machines' authorities.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" host:"none"`
	// URL of the discovery document, if API servers reach it elsewhere than at URL/.well-known/openid-configuration.
	DiscoveryURL string `json:"discoveryURL,omitempty" yaml:"discoveryURL,omitempty" jsonschema:"maxLength=1000" host:"none"`
	// Client ID for naupegos login and kubeconfig --exec. The client must be public (without a secret). Left out: the first audience.
	ClientID string `json:"clientID,omitempty" yaml:"clientID,omitempty" jsonschema:"maxLength=500" host:"none"`
	// Scopes that naupegos login asks for. Left out: openid, profile, email, offline_access.
	Scopes []string `json:"scopes,omitempty" yaml:"scopes,omitempty" jsonschema:"maxItems=20"`
	// Port of http://127.0.0.1:PORT/callback, to which the browser returns, for providers that compare the whole redirect address. Left out: any free port.
	LoginPort int `json:"loginPort,omitempty" yaml:"loginPort,omitempty" jsonschema:"minimum=1024,maximum=65535" host:"none"`
	// How a token's claims become a user.
	Claims ClaimMappings `json:"claims,omitzero" yaml:"claims,omitempty"`
	// Conditions on claims. Tokens that do not meet all of them are refused.
	ClaimValidationRules []ClaimRule `json:"claimValidationRules,omitempty" yaml:"claimValidationRules,omitempty" jsonschema:"maxItems=20"`
	// Conditions on the user that claims were mapped to. Users and groups that begin with system: are always refused.
	UserValidationRules []UserRule `json:"userValidationRules,omitempty" yaml:"userValidationRules,omitempty" jsonschema:"maxItems=20"`
}

// ClaimMappings say how claims become a user.
type ClaimMappings struct {
	// User name. Left out: the claim sub.
	Username ClaimMapping `json:"username,omitzero" yaml:"username,omitempty"`
	// Groups. Left out: the claim groups.
	Groups ClaimMapping `json:"groups,omitzero" yaml:"groups,omitempty"`
	// Unique ID of the user.
	UID ClaimSource `json:"uid,omitzero" yaml:"uid,omitempty"`
	// Further attributes of the user, for admission and audit.
	Extra []ExtraClaim `json:"extra,omitempty" yaml:"extra,omitempty" jsonschema:"maxItems=20"`
}

// ClaimMapping takes a value from a claim, or computes it from all claims.
type ClaimMapping struct {
	// Claim that holds the value.
	Claim string `json:"claim,omitempty" yaml:"claim,omitempty" jsonschema:"maxLength=200"`
	// Text in front of the value, "" for none. Left out: the name of the issuer and a colon.
	Prefix *string `json:"prefix,omitempty" yaml:"prefix,omitempty" jsonschema:"maxLength=200"`
	// CEL expression of the variable claims, in place of claim and prefix.
	Expression string `json:"expression,omitempty" yaml:"expression,omitempty" jsonschema:"maxLength=4000"`
}

// ClaimSource is a claim, or an expression.
type ClaimSource struct {
	// Claim that holds the value.
	Claim string `json:"claim,omitempty" yaml:"claim,omitempty" jsonschema:"maxLength=200"`
	// CEL expression of the variable claims, in place of claim.
	Expression string `json:"expression,omitempty" yaml:"expression,omitempty" jsonschema:"maxLength=4000"`
}

// ExtraClaim is an attribute of a user.
type ExtraClaim struct {
	// Name of the attribute, with a domain in front: example.org/team.
	Key string `json:"key" yaml:"key" jsonschema:"required,maxLength=300" host:"none"`
	// CEL expression of the variable claims: text, or a list of texts.
	Expression string `json:"expression" yaml:"expression" jsonschema:"required,maxLength=4000"`
}

// ClaimRule is a condition on claims.
type ClaimRule struct {
	// Claim that must have the value requiredValue.
	Claim string `json:"claim,omitempty" yaml:"claim,omitempty" jsonschema:"maxLength=200"`
	// Value that the claim must have.
	RequiredValue string `json:"requiredValue,omitempty" yaml:"requiredValue,omitempty" jsonschema:"maxLength=1000"`
	// CEL expression of the variable claims that must be true, in place of claim and requiredValue.
	Expression string `json:"expression,omitempty" yaml:"expression,omitempty" jsonschema:"maxLength=4000"`
	// What API servers log when the expression is false.
	Message string `json:"message,omitempty" yaml:"message,omitempty" jsonschema:"maxLength=1000"`
}

// UserRule is a condition on users.
type UserRule struct {
	// CEL expression of the variable user (username, groups, uid, extra) that must be true.
	Expression string `json:"expression" yaml:"expression" jsonschema:"required,maxLength=4000"`
	// What API servers log when the expression is false.
	Message string `json:"message,omitempty" yaml:"message,omitempty" jsonschema:"maxLength=1000"`
}

// Binding gives one group, user or service account a ClusterRole.
type Binding struct {
	// Group, as Kubernetes knows it: with the prefix of its issuer, corp:platform.
	Group string `json:"group,omitempty" yaml:"group,omitempty" jsonschema:"maxLength=500"`
	// User, as Kubernetes knows it: corp:alice.
	User string `json:"user,omitempty" yaml:"user,omitempty" jsonschema:"maxLength=500"`
	// Service account, as NAMESPACE/NAME.
	ServiceAccount string `json:"serviceAccount,omitempty" yaml:"serviceAccount,omitempty" jsonschema:"maxLength=320"`
	// Name of the ClusterRole: cluster-admin, admin, edit, view, or one of yours.
	Role string `json:"role" yaml:"role" jsonschema:"required,maxLength=200"`
	// Namespaces in which the role applies; missing ones are created, and stay. Left out: the whole cluster.
	Namespaces []string `json:"namespaces,omitempty" yaml:"namespaces,omitempty" jsonschema:"maxItems=200"`
}

// AuthorizationWebhook is a service that permits requests to the API. API servers reach it from the control-plane machines.
type AuthorizationWebhook struct {
	// Name of the webhook, for metrics and audit events.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// URL of the webhook, https.
	URL string `json:"url" yaml:"url" jsonschema:"required,maxLength=1000" host:"none"`
	// Certificates of the authorities (PEM) that vouch for the webhook. Left out: the machines' authorities.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" host:"none"`
	// How API servers sign in to the webhook. Left out: they do not.
	Auth *WebhookAuth `json:"auth,omitempty" yaml:"auth,omitempty"`
	// What happens if the webhook fails: NoOpinion asks the next one, Deny refuses the request. Requests that Node or RBAC permits do not depend on it.
	FailurePolicy string `json:"failurePolicy,omitempty" yaml:"failurePolicy,omitempty" jsonschema:"default=NoOpinion,enum=NoOpinion,enum=Deny"`
	// How many seconds a request waits for the webhook.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty" yaml:"timeoutSeconds,omitempty" jsonschema:"default=3,minimum=1,maximum=30"`
	// For how many seconds API servers remember that the webhook permitted a request.
	AuthorizedTTLSeconds int `json:"authorizedTTLSeconds,omitempty" yaml:"authorizedTTLSeconds,omitempty" jsonschema:"default=300,minimum=1,maximum=3600"`
	// For how many seconds API servers remember that the webhook did not permit a request.
	UnauthorizedTTLSeconds int `json:"unauthorizedTTLSeconds,omitempty" yaml:"unauthorizedTTLSeconds,omitempty" jsonschema:"default=30,minimum=1,maximum=3600"`
	// Version of SubjectAccessReview that the webhook understands.
	SubjectAccessReviewVersion string `json:"subjectAccessReviewVersion,omitempty" yaml:"subjectAccessReviewVersion,omitempty" jsonschema:"default=v1,enum=v1,enum=v1beta1" host:"none"`
	// CEL expressions of the variable request, a SubjectAccessReview's spec. The webhook is asked only if all are true.
	MatchConditions []string `json:"matchConditions,omitempty" yaml:"matchConditions,omitempty" jsonschema:"maxItems=64"`
}

// WebhookAuth refers to a secret, which is not part of the document: one line USER:PASSWORD, one line token=TOKEN, or a client certificate with its key in PEM.
type WebhookAuth struct {
	// Absolute path of a file with the secret. Only its owner may have access to it.
	CredentialsFile string `json:"credentialsFile,omitempty" yaml:"credentialsFile,omitempty" host:"file"`
	// Name of a credential (naupegos server credential add) whose value is the secret, instead of credentialsFile. A server accepts nothing else.
	Credential string `json:"credential,omitempty" yaml:"credential,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"credential"`
}

// LoginClient returns the client ID for logins.
func (i IdentityIssuer) LoginClient() string {
	if i.ClientID == "" && len(i.Audiences) > 0 {
		return i.Audiences[0]
	}
	return i.ClientID
}

// LoginScopes returns the scopes for logins.
func (i IdentityIssuer) LoginScopes() []string {
	if len(i.Scopes) == 0 {
		return []string{"openid", "profile", "email", "offline_access"}
	}
	return i.Scopes
}

// Authenticators returns the issuers as API servers know them.
func (i Identity) Authenticators() []apiserver.JWTAuthenticator {
	var all []apiserver.JWTAuthenticator
	for _, issuer := range i.Issuers {
		all = append(all, issuer.authenticator())
	}
	return all
}

func (i IdentityIssuer) authenticator() apiserver.JWTAuthenticator {
	a := apiserver.JWTAuthenticator{
		Issuer: apiserver.Issuer{URL: i.URL, CertificateAuthority: i.CA, Audiences: i.Audiences},
		ClaimMappings: apiserver.ClaimMappings{
			Username: i.mapping(i.Claims.Username, "sub"), Groups: i.mapping(i.Claims.Groups, "groups"), UID: apiserver.ClaimOrExpression(i.Claims.UID),
		},
	}
	if i.DiscoveryURL != "" {
		a.Issuer.DiscoveryURL = &i.DiscoveryURL
	}
	if len(i.Audiences) > 1 {
		a.Issuer.AudienceMatchPolicy = apiserver.AudienceMatchPolicyMatchAny
	}
	for _, e := range i.Claims.Extra {
		a.ClaimMappings.Extra = append(a.ClaimMappings.Extra, apiserver.ExtraMapping{Key: e.Key, ValueExpression: e.Expression})
	}
	for _, r := range i.ClaimValidationRules {
		a.ClaimValidationRules = append(a.ClaimValidationRules, apiserver.ClaimValidationRule(r))
	}
	for _, r := range i.UserValidationRules {
		a.UserValidationRules = append(a.UserValidationRules, apiserver.UserValidationRule(r))
	}
	for _, own := range identity.Rules() {
		if !slices.ContainsFunc(a.UserValidationRules, func(r apiserver.UserValidationRule) bool { return r.Expression == own.Expression }) {
			a.UserValidationRules = append(a.UserValidationRules, own)
		}
	}
	return a
}

// Authorizers returns the webhooks as API servers know them, without the files that hold their addresses.
func (i Identity) Authorizers() (all []apiserver.WebhookConfiguration) {
	seconds := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
	for _, w := range i.AuthorizationWebhooks {
		c := apiserver.WebhookConfiguration{
			FailurePolicy: w.FailurePolicy, Timeout: seconds(w.TimeoutSeconds), AuthorizedTTL: seconds(w.AuthorizedTTLSeconds), UnauthorizedTTL: seconds(w.UnauthorizedTTLSeconds),
			SubjectAccessReviewVersion: w.SubjectAccessReviewVersion, MatchConditionSubjectAccessReviewVersion: "v1", MatchConditions: []apiserver.WebhookMatchCondition{},
		}
		for _, e := range w.MatchConditions {
			c.MatchConditions = append(c.MatchConditions, apiserver.WebhookMatchCondition{Expression: e})
		}
		all = append(all, c)
	}
	return all
}

func (i IdentityIssuer) mapping(m ClaimMapping, usual string) apiserver.PrefixedClaimOrExpression {
	out := apiserver.PrefixedClaimOrExpression{Claim: m.Claim, Prefix: m.Prefix, Expression: m.Expression}
	if m.Expression == "" {
		out.Claim = cmp.Or(m.Claim, usual)
	}
	if m.Expression == "" && m.Prefix == nil {
		prefix := i.Name + ":"
		out.Prefix = &prefix
	}
	return out
}

// Config returns the configuration of the admission plugin PodSecurity.
func (p PodSecurity) Config() identity.PodSecurity {
	return identity.PodSecurity{
		Enforce: p.Enforce, EnforceVersion: p.EnforceVersion, Audit: p.Audit, AuditVersion: p.AuditVersion, Warn: p.Warn, WarnVersion: p.WarnVersion,
		Namespaces: p.Exemptions.Namespaces, Usernames: p.Exemptions.Usernames, RuntimeClasses: p.Exemptions.RuntimeClasses,
	}
}
