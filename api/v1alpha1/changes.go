package v1alpha1

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1/change"
	"github.com/naupegos/naupegos/internal/fail"
)

// changeRules has a rule for every field of the document.
var changeRules = func() change.Rules {
	r := change.Fields()
	addComponents(r)
	addIdentity(r)
	addFree(r, "spec.addons[]", reflect.TypeFor[Addon]())
	for _, path := range []string{"spec.machines", "spec.controlPlane.machines", "spec.endpoint.gateways.machines", "spec.workers[].machines"} {
		addFree(r, path, reflect.TypeFor[MachineSettings]())
	}
	return r
}()

// addFree adds a rule that allows any change to each field below a path that has no rule of its own. Fields of addons and of machines' settings need a rule only if they don't change freely.
func addFree(r change.Rules, path string, t reflect.Type) {
	strict.Walk(t, path, func(path string, parent reflect.Type, f strict.Field) {
		key := ruleKey(path, f)
		if _, known := r[key]; !known && ruled(f) {
			r[key] = change.Rule{Class: change.Free}
		}
	})
}

// Change is one field that differs between two documents.
type Change struct {
	Field string // "spec.workers[0].replicas", as in the newer document; for a removed field as in the older one
	Was   string // as text; empty: it was left out
	Now   string // as text; empty: it is left out
	Rule  change.Rule
}

// Changes lists the fields in which a defaulted document differs from an older one, in the documents' order, and what each change means for a running
// cluster. List items that have names are compared by name, regardless of their position.
func Changes(was, now *Cluster) []Change {
	var d differ
	d.mapping("", "", reflect.ValueOf(was).Elem(), reflect.ValueOf(now).Elem())
	return d.found
}

// differ collects changes. Paths come in pairs: one for display, and one with "[]" as in the rules.
type differ struct{ found []Change }

func (d *differ) add(path, key string, was, now reflect.Value) {
	d.found = append(d.found, Change{Field: path, Was: valueText(was), Now: valueText(now), Rule: changeRules[key]})
}

func (d *differ) mapping(path, key string, was, now reflect.Value) {
	for _, f := range strict.FieldsOf(was.Type()) {
		d.value(strict.Join(path, f.Key), strict.Join(key, f.Key), was.Field(f.Index), now.Field(f.Index))
	}
}

func (d *differ) value(path, key string, was, now reflect.Value) {
	if was.Kind() == reflect.Pointer && (was.IsNil() || now.IsNil()) {
		if was.IsNil() != now.IsNil() {
			d.add(path, key, was, now)
		}
		return
	}
	if was.Kind() == reflect.Pointer {
		was, now = was.Elem(), now.Elem()
	}
	switch {
	case was.Kind() == reflect.Struct && !strict.IsText(was.Type()):
		d.mapping(path, key, was, now)
	case was.Kind() == reflect.Slice && named(was.Type().Elem()):
		d.list(path, key+"[]", was, now)
	case !reflect.DeepEqual(was.Interface(), now.Interface()) && (was.Kind() != reflect.Slice && was.Kind() != reflect.Map || was.Len()+now.Len() > 0):
		d.add(path, key, was, now)
	}
}

// list compares list items by name.
func (d *differ) list(path, key string, was, now reflect.Value) {
	place := func(list reflect.Value, name string) int {
		for i := range list.Len() {
			if nameOf(list.Index(i)) == name {
				return i
			}
		}
		return -1
	}
	for i := range now.Len() {
		if j := place(was, nameOf(now.Index(i))); j >= 0 {
			d.mapping(strict.Item(path, i), key, was.Index(j), now.Index(i))
		} else {
			d.add(strict.Item(path, i), key, reflect.Value{}, now.Index(i))
		}
	}
	for i := range was.Len() {
		if place(now, nameOf(was.Index(i))) < 0 {
			d.add(strict.Item(path, i), key, was.Index(i), reflect.Value{})
		}
	}
}

// named reports whether values of a type are identified by a name. Flags are not, because a flag may appear several times.
func named(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[Arg]() && slices.ContainsFunc(strict.FieldsOf(t), func(f strict.Field) bool { return f.Key == "name" })
}

func nameOf(v reflect.Value) string { return v.FieldByName("Name").String() }

// valueText returns a value in a few words; empty if there is no value.
func valueText(v reflect.Value) string {
	for v.IsValid() && v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case !v.IsValid():
		return ""
	case strict.IsText(v.Type()):
		if m, ok := v.Interface().(encoding.TextMarshaler); ok {
			if b, err := m.MarshalText(); err == nil {
				return string(b)
			}
		}
	case v.Kind() == reflect.Struct && named(v.Type()):
		return nameOf(v)
	case v.Kind() == reflect.Struct:
		return "given"
	case v.Kind() == reflect.Slice, v.Kind() == reflect.Map:
		if v.Len() == 0 {
			return ""
		}
	}
	return strict.Clip(fmt.Sprint(v.Interface()))
}

// Refusal lists the changes of a document that a running cluster can't follow, in the document's order. As an error it is of kind fail.Refused.
type Refusal []FieldError

// Error returns one change per line.
func (r Refusal) Error() string { return Errors(r).Error() }

// Unwrap returns an error of kind fail.Refused.
func (r Refusal) Unwrap() error {
	return fail.New(fail.Refused, "%d changes that the living cluster can't follow", len(r))
}

// Refused returns the changes that apply refuses, or nil. It leaves out fields that the provider itself compares with what exists.
func Refused(changes []Change) Refusal {
	var out Refusal
	for _, c := range changes {
		if c.Rule.Live || c.Rule.Class != change.Refused && c.Rule.Class != change.Verb {
			continue
		}
		problem := fmt.Sprintf("can't change on a living cluster from %s to %s", orNone(c.Was), orNone(c.Now))
		out = append(out, FieldError{Field: c.Field, Problem: problem, Hint: c.Rule.Say})
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// Locate sets the positions of the changed fields in a document, or of the nearest enclosing fields, and sorts the changes by position.
func (r Refusal) Locate(file string, data []byte) Refusal {
	f := strict.New(file)
	root := f.Document(bytes.Clone(data))
	if root == nil {
		return r
	}
	f.Decode(root, &Cluster{})
	out := slices.Clone(r)
	for i := range out {
		p := f.Place(out[i].Field)
		out[i].File, out[i].Line, out[i].Column = file, p.Line, p.Column
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Line < out[j].Line })
	return out
}

// ChangeText says what a change of the field at a path means; empty for a field without a rule of its own.
func ChangeText(path string, f strict.Field) string {
	if !ruled(f) {
		return ""
	}
	return changeRules[ruleKey(path, f)].Text()
}

// ruled reports whether a field needs a rule of its own: it is a value, or can appear and disappear as a whole.
func ruled(f strict.Field) bool {
	t := f.Type
	switch {
	case t.Kind() == reflect.Pointer:
		return true
	case t.Kind() == reflect.Struct:
		return strict.IsText(t)
	}
	return true
}

// ruleKey returns the path of a field in changeRules.
func ruleKey(path string, f strict.Field) string {
	if f.Type.Kind() == reflect.Slice && named(f.Type.Elem()) {
		return strings.TrimSuffix(path, "[]") + "[]"
	}
	return strings.TrimSuffix(path, "[]")
}
