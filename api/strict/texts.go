package strict

import (
	"fmt"
	"reflect"
	"regexp"
	"unicode/utf8"
)

// Texts checks the patterns and lengths that struct tags give to texts, so that no code depends on the editor that wrote a document.
func (r *Findings) Texts(v reflect.Value) { r.texts("", v, map[string]*regexp.Regexp{}) }

// texts checks the texts below a path. compiled has the patterns that were met.
func (r *Findings) texts(path string, v reflect.Value, compiled map[string]*regexp.Regexp) {
	for _, f := range FieldsOf(v.Type()) {
		p, fv := Join(path, f.Key), v.Field(f.Index)
		for fv.Kind() == reflect.Pointer && !fv.IsNil() {
			fv = fv.Elem()
		}
		switch {
		case fv.Kind() == reflect.String && fv.String() != "":
			r.text(p, fv.String(), f, compiled)
		case fv.Kind() == reflect.Slice && fv.Type().Elem().Kind() == reflect.Struct:
			for i := range fv.Len() {
				r.texts(Item(p, i), fv.Index(i), compiled)
			}
		case fv.Kind() == reflect.Struct:
			r.texts(p, fv, compiled)
		}
	}
}

func (r *Findings) text(p, text string, f Field, compiled map[string]*regexp.Regexp) {
	if f.MaxLength > 0 && utf8.RuneCountInString(text) > f.MaxLength {
		r.Add(p, fmt.Sprintf("is longer than %d characters", f.MaxLength), "")
	}
	if f.Pattern == "" {
		return
	}
	if compiled[f.Pattern] == nil {
		compiled[f.Pattern] = regexp.MustCompile(f.Pattern)
	}
	if !compiled[f.Pattern].MatchString(text) {
		r.Add(p, Quote(text)+" does not have the form "+f.Pattern, "")
	}
}
