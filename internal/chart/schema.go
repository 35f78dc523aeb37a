package chart

import (
	"bytes"
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	v2 "helm.sh/helm/v4/pkg/chart/v2"

	"github.com/naupegos/naupegos/internal/fail"
)

// noLoader keeps schemas from reading files and addresses.
type noLoader struct{}

// Load refuses.
func (noLoader) Load(url string) (any, error) {
	return nil, errors.New("a schema may not read " + url)
}

// validate checks values against the values.schema.json of a chart and of the charts in it.
func validate(c *v2.Chart, values map[string]any, name string) error {
	if len(c.Schema) > 0 {
		if err := validateOne(c.Schema, values, name); err != nil {
			return err
		}
	}
	for _, d := range c.Dependencies() {
		if below, ok := values[d.Name()].(map[string]any); ok {
			if err := validate(d, below, name+"/charts/"+d.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

func validateOne(schema []byte, values map[string]any, name string) error {
	file := name + "/values.schema.json"
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "read the schema of the values").At(file)
	}
	leaveRemote(doc)
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource("file:///values.schema.json", doc); err != nil {
		return fail.Wrap(fail.Invalid, err, "read the schema of the values").At(file)
	}
	compiled, err := compiler.Compile("file:///values.schema.json")
	if err != nil {
		return fail.New(fail.Invalid, "read the schema of the values: %s", oneLine(err.Error())).At(file)
	}
	err = compiled.Validate(map[string]any(values))
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err
	}
	var found []string
	leaves(invalid, &found)
	return fail.New(fail.Invalid, "the values don't match the chart's schema: %s", strings.Join(found, "; ")).At(file)
}

// leaveRemote removes references to other hosts from a schema: nothing is fetched, and what they would check stays unchecked.
func leaveRemote(v any) {
	switch v := v.(type) {
	case map[string]any:
		if to, _ := v["$ref"].(string); strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "http://") {
			delete(v, "$ref")
		}
		for _, below := range v {
			leaveRemote(below)
		}
	case []any:
		for _, below := range v {
			leaveRemote(below)
		}
	}
}

// leaves lists the innermost faults, "port: got string, want integer".
func leaves(e *jsonschema.ValidationError, found *[]string) {
	if len(e.Causes) == 0 {
		at := strings.Join(e.InstanceLocation, ".")
		if at == "" {
			at = "the values"
		}
		*found = append(*found, at+": "+e.ErrorKind.LocalizedString(message.NewPrinter(language.English)))
	}
	for _, cause := range e.Causes {
		leaves(cause, found)
	}
}
