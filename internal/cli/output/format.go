// Package output prints the output of verbs: tables for people, JSON, YAML and their templates for programs, and errors for both.
//
// It does not depend on clusters.
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
	write func(io.Writer, any) error // for formats made from the JSON data
}

// plainFormats take no argument, and templated formats take one.
var (
	plainFormats = []string{"table", "wide", "json", "yaml", "name"}
	templated    = []string{"jsonpath", "jsonpath-file", "go-template", "go-template-file", "custom-columns", "custom-columns-file"}
)

// Formats lists the values of -o, for completion.
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

// Set implements pflag.Value. It refuses unknown formats and invalid templates before the verb begins.
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
	all := fmt.Sprintf("there are %s, and with a template %s", strings.Join(plainFormats, ", "), strings.Join(templated, ", "))
	if near := fail.Nearest(name, append(plainFormats[:len(plainFormats):len(plainFormats)], templated...)); near != "" {
		all = "did you mean " + near + "? " + all
	}
	return fail.New(fail.Invalid, "%q is no output format", text).Do("%s", all)
}

// IsTable reports whether the output is for people.
func (o *Format) IsTable() bool { return o.name == "table" || o.name == "wide" || o.name == "" }

// Wide reports whether tables show all columns.
func (o *Format) Wide() bool { return o.name == "wide" }

// Print writes v in the selected format, or calls table.
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
		if bytes.ContainsFunc(text, hidden) { // YAML writes such characters unchanged; JSON is YAML, too
			return writeJSON(w, v)
		}
		_, err = w.Write(text)
		return err
	}
	return table(w)
}
