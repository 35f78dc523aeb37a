package strict

import (
	"encoding"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Field describes one key of the document by its struct tags. Decoding, defaults, limits, suggestions and the reference all read the tags through it,
// so that they cannot disagree.
type Field struct {
	Key      string // as in the document
	Name     string // of the Go field, by which its comment is found
	Index    int    // in the struct
	Type     reflect.Type
	Required bool
	Default  string // default as text; empty: none
	Enum     []string
	Min, Max *int // of a number
	MinItems int
	MaxItems int // 0: no limit
	// Of a text.
	Pattern   string // a regular expression; empty: any
	MaxLength int    // in characters; 0: no limit
}

// fieldsOf are the results of FieldsOf, by type: a document has the same few types in each item of its lists.
var fieldsOf sync.Map

// FieldsOf lists the keys of a struct type in the document's order. The caller does not change the list.
func FieldsOf(t reflect.Type) []Field {
	if fs, ok := fieldsOf.Load(t); ok {
		return fs.([]Field) // nothing else is stored
	}
	fs := readFields(t)
	fieldsOf.Store(t, fs)
	return fs
}

// readFields reads the tags of a struct type.
func readFields(t reflect.Type) []Field {
	fs := make([]Field, 0, t.NumField())
	for i := range t.NumField() {
		sf := t.Field(i)
		key, _, _ := strings.Cut(sf.Tag.Get("json"), ",")
		if key == "-" { // not part of the document
			continue
		}
		f := Field{Key: key, Name: sf.Name, Index: i, Type: sf.Type}
		for part := range strings.SplitSeq(sf.Tag.Get("jsonschema"), ",") {
			f.apply(part)
		}
		fs = append(fs, f)
	}
	return fs
}

// apply applies one part of the jsonschema tag. Parts that only the schema needs (format) are ignored.
func (f *Field) apply(part string) {
	name, value, _ := strings.Cut(part, "=")
	switch name {
	case "required":
		f.Required = true
	case "default":
		f.Default = value
	case "enum":
		f.Enum = append(f.Enum, value)
	case "minimum":
		f.Min = number(value)
	case "maximum":
		f.Max = number(value)
	case "minItems":
		f.MinItems = *number(value)
	case "maxItems":
		f.MaxItems = *number(value)
	case "pattern":
		f.Pattern = value
	case "maxLength":
		f.MaxLength = *number(value)
	}
}

// number parses a number in a tag. It panics on errors: the tags are our own, and a test reads them all.
func number(s string) *int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic("struct tag: " + err.Error())
	}
	return &n
}

// IsText reports whether values of type t are text that the type itself parses.
func IsText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// Join returns the path of a key.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Item returns the path of a list item.
func Item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Walk calls visit for every key of type t and below. Paths have "[]" for list items.
func Walk(t reflect.Type, path string, visit func(path string, parent reflect.Type, f Field)) {
	for _, f := range FieldsOf(t) {
		p := Join(path, f.Key)
		visit(p, t, f)
		e := f.Type
		for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice {
			if e.Kind() == reflect.Slice {
				p += "[]"
			}
			e = e.Elem()
		}
		if e.Kind() == reflect.Struct && !IsText(e) {
			Walk(e, p, visit)
		}
	}
}
