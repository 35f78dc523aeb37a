package v1alpha1

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder fills Go values from a YAML tree, remembers where each field stands, and reports everything that doesn't fit.
// It goes only as deep as the types do.
type decoder struct{ *findings }

// value decodes n, which stands at path, into v.
func (d *decoder) value(path string, n *yaml.Node, v reflect.Value, f field) {
	at := position{n.Line, n.Column}
	switch {
	case d.full():
		return
	case n.Kind == yaml.AliasNode:
		d.addAt(at, path, "aliases (*"+clip(n.Value)+") are not read", "write the value out")
		return
	case n.Style&yaml.TaggedStyle != 0:
		d.addAt(at, path, "YAML tags ("+clip(n.Tag)+") are not read", "write the plain value")
		return
	case isNull(n) && v.Kind() != reflect.Pointer:
		return // a key without a value counts as left out
	case isText(v.Type()):
		d.text(path, n, v)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		d.pointer(path, n, v, f)
	case reflect.Struct:
		d.mapping(path, n, v)
	case reflect.Map:
		d.freeMapping(path, n, v)
	case reflect.Slice:
		d.list(path, n, v, f)
	default:
		d.scalar(path, n, v, f)
	}
}

// pointer decodes into a new value. "local:" without anything after it is a local provider with its defaults;
// a null number or truth value counts as left out.
func (d *decoder) pointer(path string, n *yaml.Node, v reflect.Value, f field) {
	p := reflect.New(v.Type().Elem())
	if isNull(n) {
		if p.Elem().Kind() == reflect.Struct {
			v.Set(p)
		}
		return
	}
	v.Set(p)
	d.value(path, n, p.Elem(), f)
}

// text decodes into a value that reads text itself.
func (d *decoder) text(path string, n *yaml.Node, v reflect.Value) {
	at := position{n.Line, n.Column}
	if n.Kind != yaml.ScalarNode {
		d.addAt(at, path, "expected a duration, got "+describe(n), `write it like "5m" or "1h30m"`)
		return
	}
	u, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	if !ok {
		return
	}
	if err := u.UnmarshalText([]byte(n.Value)); err != nil {
		d.addAt(at, path, quote(n.Value)+" "+err.Error(), `write it like "5m" or "1h30m"`)
	}
}

// mapping decodes into a struct; every key must be one of its fields and stand there once.
func (d *decoder) mapping(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.addAt(position{n.Line, n.Column}, path, "expected a mapping (key: value), got "+describe(n), "")
		return
	}
	fields := fieldsOf(v.Type())
	at := func(key string) string { return join(path, clip(key)) }
	d.eachKey(path, n, at, func(key string, k, val *yaml.Node) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		if i < 0 {
			d.unknownKey(path, key, k, fields)
			return
		}
		p := join(path, key)
		d.where[p] = position{k.Line, k.Column}
		if val.Kind == yaml.ScalarNode && !isNull(val) {
			d.where[p] = position{val.Line, val.Column}
		}
		d.value(p, val, v.Field(fields[i].index), fields[i])
	})
}

// freeMapping decodes into a map of text by text.
func (d *decoder) freeMapping(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.addAt(position{n.Line, n.Column}, path, "expected a mapping (key: value), got "+describe(n), "")
		return
	}
	m := map[string]string{}
	at := func(key string) string { return path + "[" + clip(key) + "]" }
	d.eachKey(path, n, at, func(key string, k, val *yaml.Node) {
		p := at(key)
		d.where[p] = position{k.Line, k.Column}
		var s string
		d.value(p, val, reflect.ValueOf(&s).Elem(), field{})
		m[key] = s
	})
	if len(m) > 0 { // "{}" is the same as left out
		v.Set(reflect.ValueOf(m))
	}
}

// eachKey calls do for each key that is text and appears for the first time, and reports the others. The function
// named makes the path of a key.
func (d *decoder) eachKey(path string, n *yaml.Node, named func(key string) string, do func(key string, k, val *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
		k := n.Content[i]
		at := position{k.Line, k.Column}
		switch line, again := first[k.Value]; {
		case k.Kind == yaml.ScalarNode && k.Tag == "!!merge":
			d.addAt(at, path, "merge keys (<<) are not read", "write the keys out")
		case k.Kind != yaml.ScalarNode || k.Tag != "!!str":
			d.addAt(at, path, "a key must be text, got "+describe(k), "put it in quotes")
		case again:
			d.addAt(at, named(k.Value), fmt.Sprintf("is given twice, first in line %d", line), "keep one of them")
		default:
			first[k.Value] = k.Line
			do(k.Value, k, n.Content[i+1])
		}
	}
}

// list decodes into a slice.
func (d *decoder) list(path string, n *yaml.Node, v reflect.Value, f field) {
	at := position{n.Line, n.Column}
	if n.Kind != yaml.SequenceNode {
		d.addAt(at, path, "expected a list, got "+describe(n), `start each item with "- "`)
		return
	}
	if f.maxItems > 0 && len(n.Content) > f.maxItems {
		d.addAt(at, path, fmt.Sprintf("has %d items, more than %d", len(n.Content), f.maxItems), "")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, e := range n.Content {
		p := item(path, i)
		d.where[p] = position{e.Line, e.Column}
		if isNull(e) {
			d.addAt(d.where[p], p, "is empty", "remove it or give it a value")
			continue
		}
		d.value(p, e, out.Index(i), field{})
	}
	if len(n.Content) > 0 { // "[]" is the same as left out
		v.Set(out)
	}
}

// unknownKey reports a key that the struct doesn't have, with the nearest one that it has, or the place the key belongs to.
func (d *decoder) unknownKey(path, key string, k *yaml.Node, fields []field) {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	hint := ""
	if near := Nearest(key, keys); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
		d.wrong = append(d.wrong, join(path, near))
	} else if elsewhere := pathsOf(key); len(elsewhere) > 0 {
		hint = "it belongs in " + strings.Join(elsewhere, " or ")
	} else {
		hint = "known here: " + strings.Join(keys, ", ")
	}
	d.addAt(position{k.Line, k.Column}, join(path, clip(key)), "unknown key", hint)
}

// pathsOf returns the places where a key is known, three at most.
func pathsOf(key string) []string {
	var out []string
	walk(reflect.TypeFor[Cluster](), "", func(path string, _ reflect.Type, f field) {
		if f.key == key && len(out) < 3 {
			out = append(out, path)
		}
	})
	return out
}
