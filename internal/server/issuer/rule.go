package issuer

import (
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
)

// Rule gives operators with a claim a role. Of several that fit, the first one counts.
type Rule struct {
	Role    server.Role
	Cluster string // the only one that they may see; empty: all
	Claim   string
	Value   string // of the claim, or one of a list
}

// ParseRule reads [CLUSTER/]ROLE=CLAIM:VALUE.
func ParseRule(text string) (r Rule, err error) {
	left, right, ok := strings.Cut(text, "=")
	claim, value, both := strings.Cut(right, ":")
	role := left
	if cluster, rest, named := strings.Cut(left, "/"); named {
		if cluster == "" {
			ok = false
		}
		r.Cluster, role = cluster, rest
	}
	if !ok || !both || claim == "" || value == "" || !slices.Contains(access.Roles(), role) {
		return r, fail.New(fail.Invalid, "%q is not a rule", text).Do("write [CLUSTER/]ROLE=CLAIM:VALUE, such as operate=groups:platform; roles are %s", strings.Join(access.Roles(), ", "))
	}
	r.Role, r.Claim, r.Value = server.Role(role), claim, value
	return r, nil
}

func (r Rule) fits(claims map[string]any) bool {
	switch has := claims[r.Claim].(type) {
	case string:
		return has == r.Value
	case bool:
		return has && r.Value == "true"
	case []any:
		return slices.Contains(has, any(r.Value))
	}
	return false
}
