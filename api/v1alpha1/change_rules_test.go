package v1alpha1

import (
	"reflect"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1/change"
)

// TestEveryFieldHasAChangeRule: every field of the document has a rule, and every rule belongs to an existing field.
func TestEveryFieldHasAChangeRule(t *testing.T) {
	left := map[string]bool{}
	for path := range changeRules {
		left[path] = true
	}
	strict.Walk(reflect.TypeFor[Cluster](), "", func(path string, parent reflect.Type, f strict.Field) {
		if parent == reflect.TypeFor[Taint]() || parent == reflect.TypeFor[Arg]() || !ruled(f) { // a list of taints is a single value
			return
		}
		key := ruleKey(path, f)
		r, ok := changeRules[key]
		if !ok {
			t.Errorf("%s has no rule", key)
			return
		}
		delete(left, key)
		if r.Say == "" && (r.Class == change.Verb || r.Class == change.Refused || r.Class == change.Consent) {
			t.Errorf("%s: %s, but not what to do", key, r.Class)
		}
		if r.Class == change.Verb && !strings.Contains(r.Say, "naupegos ") {
			t.Errorf("%s: which verb?", key)
		}
	})
	for path := range left {
		t.Errorf("%s has a rule, but is no field", path)
	}
}
