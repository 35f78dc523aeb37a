// Package output is what verbs print: tables for people, JSON and YAML for programs, errors for either.
//
// It knows nothing of clusters.
package output

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
)

// Format is the -o flag of verbs that list something.
type Format struct{ name string }

// Bind adds -o to a verb.
func (o *Format) Bind(c *cobra.Command) {
	o.name = "table"
	c.Flags().VarP(o, "output", "o", "output format: table, json or yaml")
}

// String implements pflag.Value.
func (o *Format) String() string { return o.name }

// Type implements pflag.Value.
func (o *Format) Type() string { return "string" }

// Set implements pflag.Value: another format is refused before the verb does anything.
func (o *Format) Set(name string) error {
	if !slices.Contains([]string{"table", "json", "yaml"}, name) {
		return fail.New(fail.Invalid, "--output %q", name).Do("use table, json or yaml")
	}
	o.name = name
	return nil
}

// IsTable reports whether people are to read the output.
func (o *Format) IsTable() bool { return o.name == "table" || o.name == "" }

// Print writes v as JSON or YAML, or calls table.
func (o *Format) Print(w io.Writer, v any, table func(io.Writer) error) error {
	switch o.name {
	case "json":
		return writeJSON(w, v)
	case "yaml":
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
