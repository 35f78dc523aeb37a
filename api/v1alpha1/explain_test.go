package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1/describe"
)

// TestExplainKnowsEveryField asks about every field that the document has.
func TestExplainKnowsEveryField(t *testing.T) {
	paths := describe.FieldPaths()
	if len(paths) < 50 {
		t.Fatalf("only %d fields: %v", len(paths), paths)
	}
	for _, path := range paths {
		text, err := describe.Explain(path, false)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		_, description, _ := strings.Cut(text, "\n\n")
		if !strings.HasPrefix(text, "FIELD:    "+path+"\n") || strings.TrimSpace(description) == "" {
			t.Errorf("%s is explained as\n%s", path, text)
		}
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		path, want string
		recursive  bool
	}{
		{"", "KIND:     Cluster", false},
		{"spec.workers[0].replicas", "FIELD:    spec.workers.replicas\nTYPE:     number", false},
		{"spec.workers", "\nFIELDS:\n  name  <text>  -required-\n      ", false},
		{"spec.workers", "\n  labels  <mapping of texts>\n      ", false},
		{"spec", "\n  workers  <list of mappings>\n    name  <text>  -required-\n", true},
		{"metadata.name", "required", false},
	} {
		if text, err := describe.Explain(c.path, c.recursive); err != nil || !strings.Contains(text, c.want) {
			t.Errorf("%q: %v\n%s", c.path, err, text)
		}
	}
	for path, want := range map[string]string{
		"spec.worker":               "did you mean spec.workers?",
		"spec.workers.replcas":      "did you mean spec.workers.replicas?",
		"metadata.name.first":       "it has no fields",
		"nothing.like.this.at.all":  "it has apiVersion",
		"spec..kubernetes":          `spec has no field ""`,
		"spec.provider.local.bogus": "spec.provider.local has no field",
	} {
		if _, err := describe.Explain(path, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q in it", path, err, want)
		}
	}
}
