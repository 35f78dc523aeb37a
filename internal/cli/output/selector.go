package output

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/naupegos/naupegos/internal/fail"
)

// Selector is the -l flag of verbs that list something: conditions on the fields of an entry, in the syntax of kubectl's label selectors.
type Selector struct {
	text string
	by   labels.Selector
}

// Bind adds -l to a verb.
func (s *Selector) Bind(c *cobra.Command) {
	c.Flags().VarP(s, "selector", "l", "only entries whose fields in -o json match, such as role=worker,state!=running or 'pool in (a,b)'")
}

// String implements pflag.Value.
func (s *Selector) String() string { return s.text }

// Type implements pflag.Value.
func (s *Selector) Type() string { return "string" }

// Set implements pflag.Value.
func (s *Selector) Set(text string) error {
	by, err := labels.Parse(text)
	if err != nil {
		return fmt.Errorf("no selector: %w; write it as role=worker,pool!=general", err)
	}
	s.text, s.by = text, by
	return nil
}

// SelectBy is Select with a selector as text.
func SelectBy[T any](text string, rows []T) ([]T, error) {
	var s Selector
	if err := s.Set(text); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "-l %s", text)
	}
	return Select(&s, rows)
}

// Select returns the entries that match. It refuses fields that entries do not have: a misspelt field would match no entry.
func Select[T any](s *Selector, rows []T) ([]T, error) {
	if s.by == nil {
		return rows, nil
	}
	known := fieldNames(reflect.TypeFor[T]())
	requirements, _ := s.by.Requirements()
	for _, r := range requirements {
		if !has(known, r.Key()) {
			e := fail.New(fail.Invalid, "--selector %s: entries have no field %s", s.text, r.Key())
			if near := fail.Nearest(r.Key(), known); near != "" {
				return nil, e.Do("did you mean %s?", near)
			}
			return nil, e.Do("there are %s", strings.Join(known, ", "))
		}
	}
	kept := []T{}
	for _, row := range rows {
		raw, err := json.Marshal(row)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "select entries")
		}
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "select entries")
		}
		set := labels.Set{}
		for key, value := range fields {
			set[key] = fmt.Sprint(value)
		}
		if s.by.Matches(set) {
			kept = append(kept, row)
		}
	}
	return kept, nil
}

func has(known []string, key string) bool {
	for _, k := range known {
		if k == key {
			return true
		}
	}
	return false
}

// fieldNames lists the JSON names of a struct's fields.
func fieldNames(t reflect.Type) (names []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, fieldNames(f.Type)...)
		case name != "" && name != "-":
			names = append(names, name)
		}
	}
	return names
}
