package delta

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Tree compares two documents of maps, lists and values, as JSON decodes them, field by field. kind and name become those of the deltas; if name is
// empty, each delta is named by its field. secret decides, by path and value, which fields are masked.
func Tree(kind, name string, from, to any, secret func(path, value string) bool) (all []Delta) {
	was, is := map[string]*string{}, map[string]*string{}
	flatten(was, "", from)
	flatten(is, "", to)
	keys := maps.Clone(was)
	maps.Copy(keys, is)
	for _, path := range slices.Sorted(maps.Keys(keys)) {
		a, b := was[path], is[path]
		if a == b || a != nil && b != nil && *a == *b {
			continue
		}
		d := Value(kind, name, a, b)
		if d.Field = path; name == "" {
			d.Name, d.Field = path, ""
		}
		if secret(path, text(a)) || secret(path, text(b)) {
			d.Secret, d.Old, d.New = true, nil, nil
		}
		d.long()
		all = append(all, d)
	}
	return all
}

// long replaces values of several lines by a line-by-line comparison.
func (d *Delta) long() {
	if !strings.Contains(text(d.Old)+text(d.New), "\n") {
		return
	}
	if d.Hunks, d.Cut = Hunks(text(d.Old), text(d.New)); len(d.Hunks) > 0 {
		d.Old, d.New = nil, nil
	}
}

func text(v *string) string {
	if v == nil {
		return ""
	}
	return *v
}

// flatten stores the leaves below v in to, by path. An empty map or list is a leaf.
func flatten(to map[string]*string, path string, v any) {
	leaf := func(text string) { to[strings.TrimPrefix(path, ".")] = &text }
	switch v := v.(type) {
	case nil:
	case map[string]any:
		if len(v) == 0 && path != "" {
			leaf("{}")
		}
		for key, below := range v {
			flatten(to, path+"."+key, below)
		}
	case []any:
		if len(v) == 0 && path != "" {
			leaf("[]")
		}
		for i, name := range Names(v) {
			flatten(to, fmt.Sprintf("%s[%s]", path, name), v[i])
		}
	case string:
		leaf(v)
	default:
		text, err := json.Marshal(v)
		if err != nil {
			text = fmt.Append(nil, v)
		}
		leaf(string(text))
	}
}

// Names names the elements of a list in paths: by their names, so that inserting an element does not change all that follow, or else by their
// positions. A name that occurs again, as of subjects in several namespaces, gets its number of occurrences.
func Names(list []any) []string {
	names, times := make([]string, len(list)), map[string]int{}
	for i, v := range list {
		names[i] = fmt.Sprint(i)
		m, _ := v.(map[string]any)
		if name, _ := m["name"].(string); name != "" {
			names[i] = name
			if times[name]++; times[name] > 1 {
				names[i] = fmt.Sprintf("%s#%d", name, times[name])
			}
		}
	}
	return names
}
