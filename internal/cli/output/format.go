// Package output is what verbs print: tables for people, JSON and YAML for programs, errors for either.
//
// It knows nothing of clusters.
package output

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
)

// Format is the -o flag of verbs that list something.
type Format struct{ name string }

// Bind adds -o to a verb.
func (o *Format) Bind(c *cobra.Command) {
	c.Flags().StringVarP(&o.name, "output", "o", "table", "output format: table, json or yaml")
}

// IsTable reports whether people are to read the output.
func (o *Format) IsTable() bool { return o.name == "table" || o.name == "" }

// Print writes v as JSON or YAML, or calls table.
func (o *Format) Print(w io.Writer, v any, table func(io.Writer) error) error {
	switch o.name {
	case "table", "":
		return table(w)
	case "json":
		return writeJSON(w, v)
	case "yaml":
		b, err := versioned(v)
		if err == nil {
			b, err = yaml.JSONToYAML(b)
		}
		if err != nil {
			return fmt.Errorf("write YAML: %w", err)
		}
		_, err = w.Write(b)
		return err
	}
	return fail.New(fail.Invalid, "--output %q", o.name).Do("use table, json or yaml")
}
