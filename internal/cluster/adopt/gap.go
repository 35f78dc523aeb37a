package adopt

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Kind is the consequence of a difference from a cluster made by naupegos.
type Kind string

// The kinds, the worst last.
const (
	Stays   Kind = "stays"   // neither adoption nor apply changes it
	Changes Kind = "changes" // adoption leaves it; an apply changes it to naupegos' setting
	Lost    Kind = "lost"    // adoption leaves it; an apply takes a setting away that no document can hold
	Blocks  Kind = "blocks"  // the cluster can't be adopted
)

// Gap is one difference from a cluster made by naupegos.
type Gap struct {
	Kind     Kind     `json:"kind"`  // stays, changes, lost or blocks
	Where    string   `json:"where"` // a host's name, or "cluster"
	What     string   `json:"what"`
	Details  []string `json:"details,omitempty"`
	Restarts string   `json:"restarts,omitempty"` // what restarts when an apply changes it; empty: nothing
	Do       string   `json:"do,omitempty"`       // remedy for the owner
}

// whole is the place of a gap that affects no single host.
const whole = "cluster"

// gaps are collected while a cluster is compared.
type gaps []Gap

func (g *gaps) add(kind Kind, where, what, do string, details ...string) {
	*g = append(*g, Gap{Kind: kind, Where: where, What: what, Do: do, Details: details})
}

func (g *gaps) block(where, do, format string, args ...any) {
	g.add(Blocks, where, fmt.Sprintf(format, args...), do)
}

// settings compares the owner's settings with those of naupegos: which are added, and which are lost. Values of neutral names may differ.
func (g *gaps) settings(where, of string, theirs, ours map[string]string, neutral []string, restarts string) {
	var comes []string
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		was, set := theirs[name]
		switch {
		case !set:
			comes = append(comes, fmt.Sprintf("%s=%s comes", name, ours[name]))
		case slices.Contains(neutral, name) && !same(name, was, ours[name]):
			comes = append(comes, fmt.Sprintf("%s=%s becomes %s", name, was, ours[name]))
		}
	}
	if len(comes) > 0 {
		*g = append(*g, Gap{Kind: Changes, Where: where, What: of + ": settings of naupegos' come", Details: comes, Restarts: restarts})
	}
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		now, set := ours[name]
		switch {
		case slices.Contains(neutral, name) || set && same(name, now, theirs[name]):
		case set:
			lost = append(lost, fmt.Sprintf("%s=%s becomes %s", name, theirs[name], now))
		default:
			lost = append(lost, fmt.Sprintf("%s=%s goes", name, theirs[name]))
		}
	}
	if len(lost) > 0 {
		*g = append(*g, Gap{Kind: Lost, Where: where, What: of + ": settings that no document can hold", Details: lost, Restarts: restarts,
			Do: "where something needs them, do not apply"})
	}
}

// flat parses YAML into its top-level keys with values as JSON. It omits zeros, which mean defaults in these types.
func flat(data []byte) (map[string]string, error) {
	fields, err := fieldsOf(data)
	if err != nil {
		return nil, err
	}
	return texts(fields)
}

// fieldsOf parses YAML into its top-level keys, without zeros.
func fieldsOf(data []byte) (map[string]any, error) {
	var m map[string]any
	if err := yaml.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for name, v := range m {
		if v = essential(v); v != nil && name != "apiVersion" && name != "kind" {
			out[name] = v
		}
	}
	return out, nil
}

// texts returns values as JSON.
func texts(fields map[string]any) (map[string]string, error) {
	out := map[string]string{}
	for name, v := range fields {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out[name] = strings.Trim(string(text), `"`)
	}
	return out, nil
}

// essential returns a value without its zero parts, or nil if nothing remains.
func essential(v any) any {
	switch v := v.(type) {
	case string:
		if v == "" || v == "0" || v == "0s" {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	case float64:
		if v == 0 {
			return nil
		}
	case []any:
		if len(v) == 0 {
			return nil
		}
	case map[string]any:
		m := map[string]any{}
		for name, inner := range v {
			if inner = essential(inner); inner != nil {
				m[name] = inner
			}
		}
		if len(m) == 0 {
			return nil
		}
		return m
	}
	return v
}
