package v1alpha1

import (
	"encoding/json"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/naupegos/naupegos/internal/fail"
)

// Schema returns the JSON Schema (draft 2020-12) of the document, the same bytes each time. Editors complete and check
// by it; what depends on several fields only Parse knows.
func Schema() ([]byte, error) {
	docs, err := comments()
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
	s := reflector.Reflect(&Cluster{})
	s.Title = "Naupegos cluster document"
	// The reflector leaves out the defaults of types that have a schema of their own.
	walk(reflect.TypeFor[Cluster](), "", func(_ string, parent reflect.Type, f field) {
		if def, ok := s.Definitions[parent.Name()]; ok && f.def != "" && isText(f.typ) {
			if p, ok := def.Properties.Get(f.key); ok {
				p.Default = f.def
			}
		}
	})
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the JSON Schema")
	}
	return append(out, '\n'), nil
}

// JSONSchemaExtend says that exactly one provider is given.
func (Provider) JSONSchemaExtend(s *jsonschema.Schema) {
	for _, name := range []string{ProviderLocal, ProviderHosts, ProviderOpenStack} {
		s.OneOf = append(s.OneOf, &jsonschema.Schema{Required: []string{name}})
	}
}
