package v1alpha1_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
)

// texts calls do with each text of a document's type that has a pattern or a length, its path, and a document in which only the structs around it are
// there.
func texts(of reflect.Type, path string, at func(c *v1alpha1.Cluster) reflect.Value, do func(path string, f strict.Field, set func(c *v1alpha1.Cluster, text string))) {
	for _, f := range strict.FieldsOf(of) {
		p, inner, list := strict.Join(path, f.Key), f.Type, false
		pointer := inner.Kind() == reflect.Pointer
		if pointer {
			inner = inner.Elem()
		}
		if list = inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct; list {
			p, inner = strict.Item(p, 0), inner.Elem()
		}
		value := func(c *v1alpha1.Cluster) reflect.Value {
			v := at(c).Field(f.Index)
			if pointer {
				if v.IsNil() {
					v.Set(reflect.New(v.Type().Elem()))
				}
				v = v.Elem()
			}
			if list {
				if v.Len() == 0 {
					v.Set(reflect.MakeSlice(v.Type(), 1, 1))
				}
				v = v.Index(0)
			}
			return v
		}
		switch {
		case inner.Kind() == reflect.Struct && inner != reflect.TypeFor[v1alpha1.Duration]():
			texts(inner, p, value, do)
		case inner.Kind() == reflect.String && !list && (f.Pattern != "" || f.MaxLength > 0):
			do(p, f, func(c *v1alpha1.Cluster, text string) { value(c).SetString(text) })
		}
	}
}

// TestPatternsAreEnforced: every text that the schema restricts is restricted by the parser, too: documents' texts end up in machines' files,
// arguments and addresses.
func TestPatternsAreEnforced(t *testing.T) {
	tried, within := 0, 0
	texts(reflect.TypeFor[v1alpha1.Cluster](), "", func(c *v1alpha1.Cluster) reflect.Value { return reflect.ValueOf(c).Elem() }, func(path string, f strict.Field, set func(*v1alpha1.Cluster, string)) {
		bad := map[string]string{"length": strings.Repeat("a", f.MaxLength+1)}
		if f.Pattern != "" {
			bad = map[string]string{"new line": "a\nb", "space": "a b", "escape": "a\x1bb", "last line": "a\n"}
		}
		for what, text := range bad {
			c := &v1alpha1.Cluster{}
			set(c, text)
			found := validation.Validate(c)
			switch tried++; {
			case slices.ContainsFunc(found, func(e v1alpha1.FieldError) bool { return e.Field == path }):
			case slices.ContainsFunc(found, func(e v1alpha1.FieldError) bool { return strings.HasPrefix(path, e.Field+".") }):
				within++ // the struct around it reports the whole
			default:
				t.Errorf("%s: a text with a wrong %s is accepted", path, what)
			}
		}
	})
	if tried < 150 || within > 16 {
		t.Errorf("%d texts were tried, and %d of them are in sections that are wrong as a whole", tried, within)
	}
}
