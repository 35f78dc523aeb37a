package v1alpha1

import (
	"encoding"
	"reflect"
	"strconv"
	"strings"
)

// field is one key of the document with what its struct tags say. Decoding, defaults, limits, suggestions and the
// reference all read the tags through it, so that they cannot disagree.
type field struct {
	key      string // as in the document
	name     string // of the Go field, to find its comment
	index    int    // in the struct
	typ      reflect.Type
	required bool
	def      string // default as text; empty: none
	enum     []string
	min, max *int // of a number
	minItems int
	maxItems int // 0: no limit
}

// fieldsOf lists the keys of a struct type in the document's order.
func fieldsOf(t reflect.Type) []field {
	fs := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		sf := t.Field(i)
		key, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if key == "-" { // about the document, and not in it
			continue
		}
		f := field{key: key, name: sf.Name, index: i, typ: sf.Type}
		for part := range strings.SplitSeq(sf.Tag.Get("jsonschema"), ",") {
			f.apply(part)
		}
		fs = append(fs, f)
	}
	return fs
}

// apply takes over one part of the jsonschema tag. Parts that only the schema needs (pattern, format) are left to it.
func (f *field) apply(part string) {
	name, value, _ := strings.Cut(part, "=")
	switch name {
	case "required":
		f.required = true
	case "default":
		f.def = value
	case "enum":
		f.enum = append(f.enum, value)
	case "minimum":
		f.min = number(value)
	case "maximum":
		f.max = number(value)
	case "minItems":
		f.minItems = *number(value)
	case "maxItems":
		f.maxItems = *number(value)
	}
}

// number reads a number of a tag; the tags are ours, and a test reads them all.
func number(s string) *int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic("struct tag: " + err.Error())
	}
	return &n
}

// isText reports whether values of type t are written as text that the type itself reads.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// join makes the path of a key.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// item makes the path of a list item.
func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// walk calls visit for every key of type t and below, as paths with "[]" for list items and "<key>" for free keys.
func walk(t reflect.Type, path string, visit func(path string, parent reflect.Type, f field)) {
	for _, f := range fieldsOf(t) {
		p := join(path, f.key)
		visit(p, t, f)
		e := f.typ
		for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice {
			if e.Kind() == reflect.Slice {
				p += "[]"
			}
			e = e.Elem()
		}
		if e.Kind() == reflect.Struct && !isText(e) {
			walk(e, p, visit)
		}
	}
}
