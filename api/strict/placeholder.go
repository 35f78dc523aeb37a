package strict

import "regexp"

var placeholder = regexp.MustCompile(`\$\{[^}]*\}|\$[A-Za-z_]|\{\{.*\}\}|^<[^>]*>$`)

// Placeholder reports a value with a part that a template engine or shell would replace (${X}, $X, {{ x }} or <name>), and whether it is one.
func (r *Findings) Placeholder(field, value string) bool {
	if !placeholder.MatchString(value) {
		return false
	}
	r.Add(field, Quote(value)+" is a placeholder, which documents do not expand", "fill it in first, for example with envsubst")
	return true
}
