package v1alpha1_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/api/v1alpha1/describe"
	"github.com/naupegos/naupegos/internal/testkit"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := describe.Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("cluster.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("cluster.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate checks a YAML document against the schema, as an editor does.
func validate(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

func TestSchema(t *testing.T) {
	first, err := describe.Schema()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "schema.json", first)
	second, err := describe.Schema()
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the schema differs from one call to the next (%v)", err)
	}
}

// TestSchemaAccepts: the schema accepts every document that Parse accepts, and its canonical form.
func TestSchemaAccepts(t *testing.T) {
	s := compiledSchema(t)
	for _, path := range goodFiles(t) {
		data := read(t, path)
		canonical, err := mustParse(t, path, data).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, canonical); err != nil {
			t.Errorf("%s, canonical form: %v", path, err)
		}
		if filepath.Base(path) == "null-is-absent.yaml" {
			continue // editors may remark on keys without a value
		}
		if err := validate(t, s, data); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestSchemaRefuses: the schema finds most mistakes by itself; it must refuse these files.
func TestSchemaRefuses(t *testing.T) {
	s := compiledSchema(t)
	refused := 0
	for _, path := range files(t, "testdata/bad/*.txtar") {
		for _, f := range txtar.Parse(read(t, path)).Files {
			if filepath.Ext(f.Name) != ".yaml" {
				continue
			}
			err := validate(t, s, f.Data)
			if err != nil {
				refused++
			} else if b := filepath.Base(path); b == "keys.txtar" || b == "header.txtar" {
				t.Errorf("%s/%s is accepted", b, f.Name)
			}
		}
	}
	if refused < 210 {
		t.Errorf("only %d bad documents are refused", refused)
	}
}

func TestReference(t *testing.T) {
	text, err := describe.Reference()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "reference.md", text)
}
