package issuer

import (
	"regexp"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
)

// Rule grants a role to operators that have all of its claims. The first matching rule applies.
type Rule struct {
	Role    server.Role
	Cluster string // the only cluster that the operator may see; empty: all
	Claim   string
	Value   string // the claim's value, or one of a list
	And     []Want // further claims, all required
}

// Want is a required value of a claim; for a list, one of its values.
type Want struct{ Claim, Value string }

// wants lists all claims of a rule.
func (r Rule) wants() []Want { return append([]Want{{r.Claim, r.Value}}, r.And...) }

// joint matches the start of a further claim: & and its name.
var joint = regexp.MustCompile(`&[A-Za-z_][A-Za-z0-9_./-]*:`)

// ParseRule parses [CLUSTER/]ROLE=CLAIM:VALUE[&CLAIM:VALUE]….
func ParseRule(text string) (r Rule, err error) {
	left, right, ok := strings.Cut(text, "=")
	if at := joint.FindAllStringIndex(right, -1); at != nil {
		end := len(right)
		for _, pos := range slices.Backward(at) {
			claim, value, _ := strings.Cut(right[pos[0]+1:end], ":")
			r.And = append([]Want{{claim, value}}, r.And...)
			ok, end = ok && value != "", pos[0]
		}
		right = right[:end]
	}
	claim, value, both := strings.Cut(right, ":")
	role := left
	if cluster, rest, named := strings.Cut(left, "/"); named {
		if cluster == "" {
			ok = false
		}
		r.Cluster, role = cluster, rest
	}
	if !ok || !both || claim == "" || value == "" || !slices.Contains(access.Roles(), role) {
		return r, fail.New(fail.Invalid, "%q is not a rule", text).Do("write [CLUSTER/]ROLE=CLAIM:VALUE[&CLAIM:VALUE], such as operate=groups:platform or admin=groups:platform&amr:mfa; roles are %s", strings.Join(access.Roles(), ", "))
	}
	r.Role, r.Claim, r.Value = server.Role(role), claim, value
	return r, nil
}

func (r Rule) fits(claims map[string]any) bool {
	for _, w := range r.wants() {
		if !w.fits(claims[w.Claim]) {
			return false
		}
	}
	return true
}

func (w Want) fits(claim any) bool {
	switch has := claim.(type) {
	case string:
		return has == w.Value
	case bool:
		return has && w.Value == "true"
	case []any:
		return slices.Contains(has, any(w.Value))
	}
	return false
}
