// Package output is what verbs print: tables for people, JSON, YAML and templates of them for programs, errors for either.
//
// It knows nothing of clusters.
package output

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
)

// Format is the -o flag of verbs that list something.
type Format struct {
	name  string
	write func(io.Writer, any) error // of formats that are made from JSON's data
}

// plainFormats are those that take no argument, and templated those that take one.
var (
	plainFormats = []string{"table", "wide", "json", "yaml", "name"}
	templated    = []string{"jsonpath", "jsonpath-file", "go-template", "go-template-file", "custom-columns", "custom-columns-file"}
)

// Formats lists what -o takes, for completion.
func Formats() []string {
	all := append([]string{}, plainFormats...)
	for _, name := range templated {
		all = append(all, name+"=")
	}
	return all
}

// Bind adds -o to a verb.
func (o *Format) Bind(c *cobra.Command) {
	o.name = "table"
	c.Flags().VarP(o, "output", "o", "output format: table, wide, json, yaml, name, jsonpath=TEMPLATE, go-template=TEMPLATE or custom-columns=TITLE:PATH,... (TEMPLATE of the JSON; -file=FILE reads it)")
}

// String implements pflag.Value.
func (o *Format) String() string { return o.name }

// Type implements pflag.Value.
func (o *Format) Type() string { return "string" }

// Set implements pflag.Value: another format, or a template that can't be read, is refused before the verb does anything.
func (o *Format) Set(text string) error {
	name, template, given := strings.Cut(text, "=")
	for _, plain := range plainFormats {
		if text == plain {
			o.name, o.write = text, nil
			if text == "name" {
				o.write = writeNames
			}
			return nil
		}
	}
	for _, known := range templated {
		if name != known {
			continue
		}
		if !given || template == "" {
			return fail.New(fail.Invalid, "--output %s has no template", name).Do("write it as %s=TEMPLATE", name)
		}
		write, err := parseTemplate(name, template)
		if err != nil {
			return fail.Wrap(fail.Invalid, err, "--output %s", name)
		}
		o.name, o.write = name, write
		return nil
	}
	e := fail.New(fail.Invalid, "--output %q", text)
	if near := fail.Nearest(name, append(plainFormats[:len(plainFormats):len(plainFormats)], templated...)); near != "" {
		return e.Do("did you mean %s?", near)
	}
	return e.Do("use %s, or %s with a template", strings.Join(plainFormats, ", "), strings.Join(templated, ", "))
}

// IsTable reports whether people are to read the output.
func (o *Format) IsTable() bool { return o.name == "table" || o.name == "wide" || o.name == "" }

// Wide reports whether tables show all that they have.
func (o *Format) Wide() bool { return o.name == "wide" }

// Print writes v in the format that was chosen, or calls table.
func (o *Format) Print(w io.Writer, v any, table func(io.Writer) error) error {
	switch {
	case o.write != nil:
		data, err := generic(v)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := o.write(&b, data); err != nil {
			return fail.Wrap(fail.Invalid, err, "--output %s", o.name)
		}
		_, err = w.Write(harmless(b.Bytes()))
		return err
	case o.name == "json":
		return writeJSON(w, v)
	case o.name == "yaml":
		raw, err := versioned(v)
		if err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
		text, err := yaml.JSONToYAML(raw)
		if err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
		if bytes.ContainsFunc(text, hidden) { // YAML writes such characters as they are; JSON is YAML, too
			return writeJSON(w, v)
		}
		_, err = w.Write(text)
		return err
	}
	return table(w)
}
