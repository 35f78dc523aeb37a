// Package describe describes the Cluster document to people and editors: explanations of fields, the JSON Schema and the reference, all made from the
// types and their comments.
package describe

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
)

// Explain returns the documentation of a field as plain text: its type, default, description, and the fields below it. With recursive, it also lists
// the fields of all deeper levels, without descriptions. The path is written as in errors ("spec.workers.replicas"; "[]" and list indices are
// optional); the empty path is the document itself. An unknown path is an error that names the nearest known key.
func Explain(path string, recursive bool) (string, error) {
	docs, err := v1alpha1.Comments()
	if err != nil {
		return "", err
	}
	at, f, t, err := findField(path)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if f == nil {
		fmt.Fprintf(&b, "KIND:     %s\nVERSION:  %s\n\n%s\n", v1alpha1.Kind, v1alpha1.APIVersion, wrap(docs[t.Name()]))
	} else {
		fmt.Fprintf(&b, "FIELD:    %s\nTYPE:     %s\n", at, strings.ReplaceAll(typeText(f.Field), "`", ""))
		switch {
		case f.Required:
			b.WriteString("          required\n")
		case f.Default != "":
			fmt.Fprintf(&b, "DEFAULT:  %s\n", f.Default)
		}
		if change := v1alpha1.ChangeText(f.rule, f.Field); change != "" {
			fmt.Fprintf(&b, "CHANGE:   %s\n", change)
		}
		fmt.Fprintf(&b, "\n%s\n", wrap(f.doc(docs)))
		t = below(f.Type)
	}
	if t != nil {
		b.WriteString("\nFIELDS:\n")
		listFields(&b, t, docs, "  ", recursive)
	}
	return b.String(), nil
}

func listFields(b *bytes.Buffer, t reflect.Type, docs map[string]string, indent string, recursive bool) {
	for _, f := range strict.FieldsOf(t) {
		fmt.Fprintf(b, "%s%s  <%s>", indent, f.Key, strings.ReplaceAll(typeText(f), "`", ""))
		if f.Required {
			b.WriteString("  -required-")
		}
		b.WriteString("\n")
		if next := below(f.Type); recursive && next != nil {
			listFields(b, next, docs, indent+"  ", true)
		} else if text := docs[t.Name()+"."+f.Name]; !recursive && text != "" {
			first, _, _ := strings.Cut(text+" ", ". ")
			fmt.Fprintf(b, "      %s.\n", strings.ReplaceAll(wrap(strings.TrimRight(first, ". ")), "\n", "\n      "))
		}
	}
}

// FieldPaths lists the paths of all fields as Explain takes them, in the document's order.
func FieldPaths() []string {
	var all []string
	strict.Walk(reflect.TypeFor[v1alpha1.Cluster](), "", func(path string, _ reflect.Type, _ strict.Field) {
		all = append(all, strings.ReplaceAll(path, "[]", ""))
	})
	return all
}

// explained is a field and the type that declares it, by which its comment is found.
type explained struct {
	strict.Field
	parent reflect.Type
	rule   string // its path with "[]" for list items
}

func (e explained) doc(docs map[string]string) string { return docs[e.parent.Name()+"."+e.Name] }

// findField returns the field at path, and the path in the form that errors use. For the empty path it returns no field, only the document's type.
func findField(path string) (string, *explained, reflect.Type, error) {
	t, at, rule := reflect.TypeFor[v1alpha1.Cluster](), "", ""
	var found *explained
	for key := range strings.SplitSeq(path, ".") {
		if path == "" {
			break
		}
		key, _, _ = strings.Cut(key, "[")
		var known []string
		var next *explained
		if t != nil {
			for _, f := range strict.FieldsOf(t) {
				known = append(known, f.Key)
				if f.Key == key {
					next = &explained{f, t, strict.Join(rule, f.Key)}
				}
			}
		}
		if next == nil {
			return "", nil, nil, unknownField(at, key, known)
		}
		at, found, t, rule = strict.Join(at, key), next, below(next.Type), next.rule
		if next.Type.Kind() == reflect.Slice {
			rule += "[]"
		}
	}
	return at, found, reflect.TypeFor[v1alpha1.Cluster](), nil
}

func unknownField(at, key string, known []string) error {
	where := "the document"
	if at != "" {
		where = at
	}
	err := fail.New(fail.Invalid, "%s has no field %q", where, key)
	switch near := fail.Nearest(key, known); {
	case near != "":
		return err.Do("did you mean %s?", strict.Join(at, near))
	case len(known) == 0:
		return err.Do("it has no fields")
	}
	return err.Do("it has %s", strings.Join(known, ", "))
}

// below returns the struct type that a field's values consist of, or nil if they are scalars.
func below(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || strict.IsText(t) {
		return nil
	}
	return t
}

// explainWidth is the line width of prose, in bytes.
const explainWidth = 80

// wrap breaks prose into lines.
func wrap(text string) string {
	var b strings.Builder
	n := 0
	for _, word := range strings.Fields(text) {
		if n > 0 && n+1+len(word) > explainWidth {
			b.WriteString("\n")
			n = 0
		} else if n > 0 {
			b.WriteString(" ")
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}
