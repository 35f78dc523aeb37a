package describe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
)

// Schema returns the JSON Schema (draft 2020-12) of the document, the same bytes each time. Editors use it for completion and checks; only Parse
// checks rules that depend on several fields.
func Schema() ([]byte, error) {
	docs, err := v1alpha1.Comments()
	if err != nil {
		return nil, err
	}
	reflector := jsonschema.Reflector{
		Anonymous:                  true,
		ExpandedStruct:             true,
		RequiredFromJSONSchemaTags: true,
		LookupComment: func(t reflect.Type, name string) string {
			if name != "" {
				name = "." + name
			}
			return docs[t.Name()+name]
		},
	}
	s := reflector.Reflect(&v1alpha1.Cluster{})
	s.Title = "Naupegos cluster document"
	// The reflector omits the defaults of types that have a schema of their own.
	strict.Walk(reflect.TypeFor[v1alpha1.Cluster](), "", func(_ string, parent reflect.Type, f strict.Field) {
		if def, ok := s.Definitions[parent.Name()]; ok && f.Default != "" && strict.IsText(f.Type) {
			if p, ok := def.Properties.Get(f.Key); ok {
				p.Default = f.Default
			}
		}
	})
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the JSON Schema")
	}
	return append(out, '\n'), nil
}

// Reference returns the reference of the document in Markdown: tables of all fields, generated from the types.
func Reference() ([]byte, error) {
	docs, err := v1alpha1.Comments()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# The Cluster document\n\n`apiVersion: %s`, `kind: %s`. Generated from the types in `api/%s`; do not edit.\n\n", v1alpha1.APIVersion, v1alpha1.Kind, v1alpha1.Version)
	fmt.Fprintf(&b, "A document is YAML in UTF-8 of at most %d KiB. Unknown keys, duplicate keys, aliases, merge keys and tags are errors. Durations are written like `90s`, `5m`, `1h30m`.\n\n", v1alpha1.MaxDocumentBytes>>10)
	fmt.Fprintf(&b, "Supported Kubernetes minor releases: %s.\n", strings.Join(v1alpha1.SupportedMinors(), ", "))
	b.WriteString("\nThe column *change* says what it means to change a field of a cluster that is up. **free**: nothing that runs is disturbed. **rolling**: services restart, one machine after another. **consent**: something is given up for good, and `apply` needs `--consent` with the name. **verb**: another command does it. **refused**: it can't change while the cluster lives.\n")
	section(&b, docs, "", reflect.TypeFor[v1alpha1.Cluster]())
	return b.Bytes(), nil
}

// section writes the table of a type, followed by the sections of the types of its fields.
func section(b *bytes.Buffer, docs map[string]string, path string, t reflect.Type) {
	title := "The document"
	if path != "" {
		title = "`" + path + "`"
	}
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n| field | type | default | change | description |\n|---|---|---|---|---|\n", title, docs[t.Name()])
	fields := strict.FieldsOf(t)
	for _, f := range fields {
		def := ""
		switch {
		case f.Required:
			def = "required"
		case f.Default != "":
			def = "`" + f.Default + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", f.Key, typeText(f), def, v1alpha1.ChangeText(strict.Join(path, f.Key), f), strings.ReplaceAll(docs[t.Name()+"."+f.Name], "|", `\|`))
	}
	for _, f := range fields {
		p, e := strict.Join(path, f.Key), f.Type
		for e.Kind() == reflect.Pointer || e.Kind() == reflect.Slice {
			if e.Kind() == reflect.Slice {
				p += "[]"
			}
			e = e.Elem()
		}
		if e.Kind() == reflect.Struct && !strict.IsText(e) {
			section(b, docs, p, e)
		}
	}
}

// typeText describes the values of a field in words.
func typeText(f strict.Field) string {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(f.Enum) > 0 {
		return "`" + strings.Join(f.Enum, "`, `") + "`"
	}
	if strict.IsText(t) {
		return "duration"
	}
	switch t.Kind() {
	case reflect.Int:
		return fmt.Sprintf("number %d–%d", *f.Min, *f.Max)
	case reflect.Bool:
		return "`true`, `false`"
	case reflect.Map:
		return "mapping of " + map[reflect.Kind]string{reflect.String: "texts", reflect.Bool: "`true`, `false`", reflect.Int: "numbers", reflect.Interface: "anything"}[t.Elem().Kind()]
	case reflect.Struct:
		return "mapping"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "list of mappings"
		}
		return "list of texts"
	}
	return "text"
}
