package strict

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// decoder fills Go values from a YAML tree, remembers the position of each field, and reports everything that does not fit. It descends only as deep
// as the types do.
type decoder struct {
	*Findings
	root reflect.Type
}

// Decode fills into, a pointer to a struct, from the tree, and reports everything that does not fit. It records the position of each field in Where.
func (r *Findings) Decode(root *yaml.Node, into any) {
	v := reflect.ValueOf(into).Elem()
	d := &decoder{Findings: r, root: v.Type()}
	d.mapping("", root, v)
}

// value decodes n, the node at path, into v.
func (d *decoder) value(path string, n *yaml.Node, v reflect.Value, f Field) {
	at := Position{n.Line, n.Column}
	switch {
	case d.full():
		return
	case n.Kind == yaml.AliasNode:
		d.AddAt(at, path, "aliases (*"+Clip(n.Value)+") are not read", "write the value out")
		return
	case n.Style&yaml.TaggedStyle != 0:
		d.AddAt(at, path, "YAML tags ("+Clip(n.Tag)+") are not read", "write the plain value")
		return
	case IsNull(n) && v.Kind() != reflect.Pointer:
		return // a key without a value counts as left out
	case d.unfilled(path, n):
		return
	case IsText(v.Type()):
		d.text(path, n, v)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		d.pointer(path, n, v, f)
	case reflect.Struct:
		d.mapping(path, n, v)
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.Interface {
			d.free(path, n, v)
			return
		}
		d.freeMapping(path, n, v)
	case reflect.Slice:
		d.list(path, n, v, f)
	default:
		d.scalar(path, n, v, f)
	}
}

// pointer decodes into a new value. A null struct such as "local:" becomes a struct with its defaults; a null number or truth value counts as left
// out.
func (d *decoder) pointer(path string, n *yaml.Node, v reflect.Value, f Field) {
	p := reflect.New(v.Type().Elem())
	if IsNull(n) {
		if p.Elem().Kind() == reflect.Struct {
			v.Set(p)
		}
		return
	}
	v.Set(p)
	d.value(path, n, p.Elem(), f)
}

// text decodes into a type that parses text itself.
func (d *decoder) text(path string, n *yaml.Node, v reflect.Value) {
	at := Position{n.Line, n.Column}
	if n.Kind != yaml.ScalarNode {
		d.AddAt(at, path, "expected a duration, got "+Describe(n), `write it like "5m" or "1h30m"`)
		return
	}
	u, ok := v.Addr().Interface().(encoding.TextUnmarshaler)
	if !ok {
		return
	}
	if err := u.UnmarshalText([]byte(n.Value)); err != nil {
		d.AddAt(at, path, Quote(n.Value)+" "+err.Error(), `write it like "5m" or "1h30m"`)
	}
}

// mapping decodes into a struct; every key must be one of its fields and occur only once.
func (d *decoder) mapping(path string, n *yaml.Node, v reflect.Value) {
	fields := FieldsOf(v.Type())
	if n.Kind != yaml.MappingNode {
		d.AddAt(Position{n.Line, n.Column}, path, "expected a mapping (key: value), got "+Describe(n), knownKeys(fields))
		return
	}
	at := func(key string) string { return Join(path, Clip(key)) }
	d.eachKey(path, n, at, func(key string, k, val *yaml.Node) {
		i := slices.IndexFunc(fields, func(f Field) bool { return f.Key == key })
		if i < 0 {
			d.unknownKey(path, key, k, fields)
			return
		}
		p := Join(path, key)
		d.Where[p] = Position{k.Line, k.Column}
		if val.Kind == yaml.ScalarNode && !IsNull(val) {
			d.Where[p] = Position{val.Line, val.Column}
		}
		d.value(p, val, v.Field(fields[i].Index), fields[i])
	})
}

// freeMapping decodes into a map with text keys and text, number or truth values.
func (d *decoder) freeMapping(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.AddAt(Position{n.Line, n.Column}, path, "expected a mapping (key: value), got "+Describe(n), "")
		return
	}
	m := reflect.MakeMap(v.Type())
	at := func(key string) string { return path + "[" + Clip(key) + "]" }
	d.eachKey(path, n, at, func(key string, k, val *yaml.Node) {
		p := at(key)
		d.Where[p] = Position{k.Line, k.Column}
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(p, val, e, Field{})
		m.SetMapIndex(reflect.ValueOf(key), e)
	})
	if m.Len() > 0 { // "{}" is the same as left out
		v.Set(m)
	}
}

// free decodes a mapping of anything that JSON can hold.
func (d *decoder) free(path string, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.AddAt(Position{n.Line, n.Column}, path, "expected a mapping (key: value), got "+Describe(n), "")
		return
	}
	if !d.plain(path, n) {
		return
	}
	m := map[string]any{}
	if err := n.Decode(&m); err != nil && strings.Contains(err.Error(), "already defined") {
		return // eachKey has reported it
	} else if err != nil {
		d.AddAt(Position{n.Line, n.Column}, path, "can't be read: "+err.Error(), "")
		return
	}
	if len(m) > 0 {
		v.Set(reflect.ValueOf(m))
	}
}

// ambiguous are words that YAML 1.1 and 1.2 read differently (https://yaml.org/type/bool.html).
var ambiguous = map[string]bool{"yes": true, "no": true, "on": true, "off": true, "y": true, "n": true}

// plain reports whether nothing below a node needs more than JSON, and reports the first thing that does.
func (d *decoder) plain(path string, n *yaml.Node) bool {
	at := Position{n.Line, n.Column}
	switch {
	case n.Kind == yaml.AliasNode:
		d.AddAt(at, path, "aliases (*"+Clip(n.Value)+") are not read", "write the value out")
		return false
	case n.Style&yaml.TaggedStyle != 0:
		d.AddAt(at, path, "YAML tags ("+Clip(n.Tag)+") are not read", "write the plain value")
		return false
	case n.Kind == yaml.ScalarNode && n.Style == 0 && ambiguous[strings.ToLower(n.Value)]:
		d.AddAt(at, path, Clip(n.Value)+" is a truth value in YAML 1.1, which other programs read, and a text in YAML 1.2", "write true or false, or put it in quotes")
		return false
	case n.Kind == yaml.ScalarNode && n.Tag == "!!timestamp":
		d.AddAt(at, path, Clip(n.Value)+" is a date in YAML", "put it in quotes")
		return false
	case n.Kind != yaml.MappingNode:
		return !slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return !d.plain(path, c) })
	}
	ok := true
	d.eachKey(path, n, func(key string) string { return Join(path, Clip(key)) }, func(key string, k, val *yaml.Node) {
		p := Join(path, Clip(key))
		d.Where[p] = Position{k.Line, k.Column}
		ok = ok && d.plain(p, val)
	})
	return ok
}

// eachKey calls do for each text key at its first occurrence, and reports all other keys. named returns the path of a key.
func (d *decoder) eachKey(path string, n *yaml.Node, named func(key string) string, do func(key string, k, val *yaml.Node)) {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content) && !d.full(); i += 2 {
		k := n.Content[i]
		at := Position{k.Line, k.Column}
		switch line, again := first[k.Value]; {
		case k.Kind == yaml.ScalarNode && k.Tag == "!!merge":
			d.AddAt(at, path, "merge keys (<<) are not read", "write the keys out")
		case k.Kind != yaml.ScalarNode || k.Tag != "!!str":
			d.AddAt(at, path, "a key must be text, got "+Describe(k), "put it in quotes")
		case again:
			d.AddAt(at, named(k.Value), fmt.Sprintf("is given twice, first in line %d", line), "keep one of them")
		default:
			first[k.Value] = k.Line
			do(k.Value, k, n.Content[i+1])
		}
	}
}

// list decodes into a slice.
func (d *decoder) list(path string, n *yaml.Node, v reflect.Value, f Field) {
	at := Position{n.Line, n.Column}
	if n.Kind != yaml.SequenceNode {
		hint := `start each item with "- "`
		if e := v.Type().Elem(); e.Kind() == reflect.Struct && !IsText(e) {
			hint += "; " + knownKeys(FieldsOf(e))
		}
		d.AddAt(at, path, "expected a list, got "+Describe(n), hint)
		return
	}
	if f.MaxItems > 0 && len(n.Content) > f.MaxItems {
		d.AddAt(at, path, fmt.Sprintf("has %d items, more than %d", len(n.Content), f.MaxItems), "")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, e := range n.Content {
		p := Item(path, i)
		d.Where[p] = Position{e.Line, e.Column}
		if IsNull(e) {
			d.AddAt(d.Where[p], p, "is empty", "remove it or give it a value")
			continue
		}
		d.value(p, e, out.Index(i), Field{})
	}
	if len(n.Content) > 0 { // "[]" is the same as left out
		v.Set(out)
	}
}

// unknownKey reports a key that the struct does not have, with the nearest known key or the places where the key belongs.
func (d *decoder) unknownKey(path, key string, k *yaml.Node, fields []Field) {
	hint := ""
	if i := strings.IndexFunc(key, unseen); i >= 0 { // from a web page or a word processor
		r, _ := utf8.DecodeRuneInString(key[i:])
		hint = fmt.Sprintf("it contains the character U+%04X, which looks like a space or like nothing: type plain spaces", r)
	} else if near := fail.Nearest(key, keysOf(fields)); near != "" && (path != "" || strings.EqualFold(key[:1], near[:1])) { // other tools' keys are no slips of the few at the top
		hint = fmt.Sprintf("did you mean %q?", near)
		d.wrong = append(d.wrong, Join(path, near))
	} else if elsewhere := d.pathsOf(key); len(elsewhere) > 0 {
		hint = "it belongs in " + strings.Join(elsewhere, " or ")
	} else {
		hint = "known here: " + strings.Join(keysOf(fields), ", ")
	}
	d.AddAt(Position{k.Line, k.Column}, Join(path, Clip(key)), "unknown key", hint)
}

// knownKeys is the hint for a value of another kind in place of a mapping. It lists the first ten keys.
func knownKeys(fields []Field) string {
	keys := keysOf(fields)
	if len(keys) > 10 {
		keys = append(keys[:10:10], "…")
	}
	return "its keys: " + strings.Join(keys, ", ")
}

func keysOf(fields []Field) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	return keys
}

// unseen reports whether a character looks like a space, or like nothing, and is no space of YAML.
func unseen(r rune) bool {
	return r > unicode.MaxASCII && (unicode.IsSpace(r) || unicode.Is(unicode.Cf, r))
}

// pathsOf returns at most three paths at which a key is known.
func (d *decoder) pathsOf(key string) []string {
	var out []string
	Walk(d.root, "", func(path string, _ reflect.Type, f Field) {
		if f.Key == key && len(out) < 3 {
			out = append(out, path)
		}
	})
	return out
}
