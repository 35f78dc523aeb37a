package strict

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// scalar decodes into a text, a whole number or a truth value.
func (d *decoder) scalar(path string, n *yaml.Node, v reflect.Value, f Field) {
	at := Position{n.Line, n.Column}
	var problem, hint string
	switch v.Kind() {
	case reflect.String:
		problem, hint = decodeText(n, v, f)
	case reflect.Int:
		problem, hint = decodeInt(n, v, f)
	case reflect.Bool:
		problem, hint = decodeBool(n, v)
	default:
		problem = "can't be read: type " + v.Type().String()
	}
	if problem != "" {
		d.AddAt(at, path, problem, hint)
	}
}

func decodeText(n *yaml.Node, v reflect.Value, f Field) (problem, hint string) {
	if n.Kind != yaml.ScalarNode {
		return "expected text, got " + Describe(n), ""
	}
	if n.Tag != "!!str" && len(f.Enum) == 0 {
		hint = "put it in quotes: " + Quote(n.Value)
		if _, err := strconv.Atoi(f.Default); f.Default != "" && err != nil {
			hint = "write it like " + f.Default
		}
		return "expected text, got " + Describe(n), hint
	}
	if n.Value == "" && (f.Required || f.Default != "" || len(f.Enum) > 0) {
		hint = "give it a value"
		if !f.Required {
			hint = "leave the key out to get the default"
		}
		return "is empty", hint
	}
	v.SetString(n.Value)
	return f.CheckEnum(n.Value)
}

func decodeInt(n *yaml.Node, v reflect.Value, f Field) (problem, hint string) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && !looksLikeNumber(n) {
		return "expected a whole number, got " + shown(n), ""
	}
	if n.Tag == "!!str" {
		return "expected a whole number, got text", "take the quotes off"
	}
	if !regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`).MatchString(n.Value) {
		return "expected a whole number, got " + Quote(n.Value), "write it in plain decimal digits"
	}
	i, err := strconv.Atoi(n.Value)
	if err != nil {
		return "the number is too large", ""
	}
	v.SetInt(int64(i))
	return f.CheckRange(i)
}

// looksLikeNumber reports whether n is a number in quotes or a number that is not whole.
func looksLikeNumber(n *yaml.Node) bool {
	_, err := strconv.Atoi(n.Value)
	return n.Tag == "!!float" || n.Tag == "!!str" && err == nil
}

func decodeBool(n *yaml.Node, v reflect.Value) (problem, hint string) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!bool" {
		v.SetBool(strings.EqualFold(n.Value, "true"))
		return "", ""
	}
	if n.Kind == yaml.ScalarNode {
		switch strings.ToLower(n.Value) {
		case "yes", "y", "on", "1", "true":
			hint = "write true"
		case "no", "n", "off", "0", "false":
			hint = "write false"
		}
	}
	return "expected true or false, got " + shown(n), hint
}

// CheckEnum reports why a text is not one of the field's known values; empty if it is.
func (f Field) CheckEnum(s string) (problem, hint string) {
	if len(f.Enum) == 0 || slices.Contains(f.Enum, s) {
		return "", ""
	}
	if near := fail.Nearest(s, f.Enum); near != "" {
		return "unknown value " + Quote(s), fmt.Sprintf("did you mean %q?", near)
	}
	return "unknown value " + Quote(s), "known: " + strings.Join(f.Enum, ", ")
}

// CheckRange reports why a number is outside the field's limits; empty if it is inside.
func (f Field) CheckRange(i int) (problem, hint string) {
	switch {
	case f.Min != nil && i < *f.Min && f.Max != nil, f.Max != nil && i > *f.Max && f.Min != nil:
		return fmt.Sprintf("%d is not between %d and %d", i, *f.Min, *f.Max), ""
	case f.Min != nil && i < *f.Min:
		return fmt.Sprintf("%d is less than %d", i, *f.Min), ""
	case f.Max != nil && i > *f.Max:
		return fmt.Sprintf("%d is more than %d", i, *f.Max), ""
	}
	return "", ""
}

// shown returns Describe, or the text itself. It is for fields that can't hold a secret.
func shown(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return Quote(n.Value)
	}
	return Describe(n)
}

// Describe names the kind of a node for users. It leaves out the text of a string, which may be a secret.
func Describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.Tag {
	case "!!int", "!!float":
		return "the number " + Clip(n.Value)
	case "!!bool":
		return Clip(n.Value)
	case "!!null":
		return "nothing"
	case "!!timestamp":
		return "the date " + Clip(n.Value)
	case "!!str":
		return "text"
	}
	return "a value of another type"
}

// IsNull reports whether n is YAML's null.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// Clip shortens and escapes text of the document for a message.
func Clip(s string) string {
	r := []rune(s)
	if len(r) > 60 {
		s = string(r[:57]) + "..."
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// Quote shortens and quotes text of the document for a message.
func Quote(s string) string { return `"` + Clip(s) + `"` }

// Duration is a length of time, which documents write as "90s", "5m" or "1h30m". Zero means "not given".
type Duration struct{ time.Duration }

// UnmarshalText parses the document form. It refuses zero, which stands for a missing value.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	switch {
	case err != nil:
		return errors.New("is not a duration")
	case v <= 0:
		return errors.New("must be more than nothing")
	}
	d.Duration = v
	return nil
}

// MarshalText writes the document form without needless parts: "5m", not "5m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String returns the document form.
func (d Duration) String() string {
	s := d.Duration.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// JSONSchema returns the schema of the document form.
func (Duration) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type:        "string",
		Pattern:     `^([0-9]+(\.[0-9]+)?(h|m|s|ms))+$`,
		Description: `A length of time: "90s", "5m", "1h30m".`,
	}
}
