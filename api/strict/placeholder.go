package strict

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	// placeholder matches a name with a part that a template engine or shell would replace.
	placeholder = regexp.MustCompile(`\$\{[^}]*\}|\$[A-Za-z_]|\{\{.*\}\}|^<[^>]*>$`)
	// whole matches a text that is nothing but a placeholder.
	whole = regexp.MustCompile(`^(\$\{[A-Za-z_]\w*([:?+=-][^}]*)?\}|\$[A-Z][A-Z0-9_]*|\{\{.*\}\}|<[A-Za-z][^<>]*>|@[A-Z][A-Z0-9_]*@|%[A-Z][A-Z0-9_]*%|` +
		`(?i:(change|replace|fill)[-_ ]?(me|this)([-_ ]?in)?)|FIXME|TODO|TBD|XXX+|YOUR[-_][A-Z0-9_-]+)$`)
	// part matches a placeholder in a text without spaces.
	part = regexp.MustCompile(`\$\{[A-Za-z_]\w*\}|\{\{[^{}]*\}\}|<[A-Za-z][A-Za-z0-9_-]*>`)
)

// literal are the last keys of fields whose text other programs read: what looks like a placeholder may be theirs.
var literal = []string{"content", "inline", "run", "expression", "message", "config", "policy", "admissionConfig"}

const (
	isPlaceholder = " is a placeholder, which documents do not expand"
	fillIn        = "put the value in its place"
)

// Placeholder reports a name with a part that a template engine or shell would replace (${X}, $X, {{ x }} or <name>), and whether it is one.
func (r *Findings) Placeholder(field, value string) bool {
	if !placeholder.MatchString(value) {
		return false
	}
	r.Add(field, Quote(value)+isPlaceholder, fillIn)
	return true
}

// unfilled reports a value that is a placeholder or contains one, and whether it is so. It quotes nothing but the placeholder.
func (d *decoder) unfilled(path string, n *yaml.Node) bool {
	at := Position{n.Line, n.Column}
	if n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle != 0 && len(n.Content) == 2 && n.Content[0].Kind == yaml.MappingNode { // {{ x }} without quotes
		d.AddAt(at, path, "{{ }}"+isPlaceholder, fillIn)
		return true
	}
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || slices.Contains(literal, path[strings.LastIndexByte(path, '.')+1:]) {
		return false
	}
	if whole.MatchString(n.Value) {
		d.AddAt(at, path, Quote(n.Value)+isPlaceholder, fillIn)
		return true
	}
	if found := part.FindString(n.Value); found != "" && !strings.ContainsAny(strings.Replace(n.Value, found, "", 1), " \t\n") {
		d.AddAt(at, path, Quote(found)+" in it"+isPlaceholder, fillIn)
		return true
	}
	return false
}
