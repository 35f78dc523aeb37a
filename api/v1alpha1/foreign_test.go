package v1alpha1_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestForeign: one line says what a file of another tool is and what to do, and quotes none of its secrets. TestBadDocuments compares the words.
func TestForeign(t *testing.T) {
	files := testkit.Value(txtar.ParseFile("testdata/bad/foreign.txtar"))(t).Files
	for _, f := range files {
		if !strings.HasSuffix(f.Name, ".yaml") {
			continue
		}
		for as, data := range map[string]string{"as it is": string(f.Data), "of Windows": "\ufeff" + strings.ReplaceAll(string(f.Data), "\n", "\r\n")} {
			_, err := validation.Parse(f.Name, []byte(data))
			var errs v1alpha1.Errors
			if !errors.As(err, &errs) || len(errs) != 1 || !strings.Contains(errs[0].Problem, "not a Cluster document of naupegos") {
				t.Errorf("%s, %s: %v", f.Name, as, err)
				continue
			}
			if text := err.Error(); strings.Contains(text, "geheim") || strings.Contains(text, "Z2VoZWlt") || strings.Contains(text, "\n") || errs[0].Hint == "" {
				t.Errorf("%s, %s: %s", f.Name, as, text)
			}
		}
	}
	if len(files) < 100 {
		t.Errorf("only %d files are left", len(files))
	}
}

// TestOwnDocumentsAreNotForeign: mistakes in a document of Naupegos are reported as such.
func TestOwnDocumentsAreNotForeign(t *testing.T) {
	for _, path := range testkit.Value(os.ReadDir("testdata/bad"))(t) {
		if path.Name() == "foreign.txtar" {
			continue
		}
		for _, f := range testkit.Value(txtar.ParseFile("testdata/bad/" + path.Name()))(t).Files {
			if !strings.HasSuffix(f.Name, ".yaml") || strings.Contains(f.Name, "other-group") || strings.Contains(f.Name, "both-wrong") {
				continue
			}
			if _, err := validation.Parse(f.Name, f.Data); err != nil && strings.Contains(err.Error(), "not a Cluster document") {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
	}
}

// TestPlaceholderNames reports names that a template engine or shell would replace.
func TestPlaceholderNames(t *testing.T) {
	for _, name := range []string{"${CLUSTER}", "$CLUSTER", "{{ name }}", "<name>", "a-${X}"} {
		_, err := validation.Parse("c.yaml", []byte("apiVersion: "+v1alpha1.APIVersion+"\nkind: "+v1alpha1.Kind+"\nmetadata:\n  name: \""+name+"\"\nspec: {}\n"))
		if err == nil || !strings.Contains(err.Error(), "is a placeholder, which documents do not expand") || strings.Contains(err.Error(), "capital") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := validation.Parse("c.yaml", []byte("cluster: v1.30\n"))
	if err == nil || strings.Contains(err.Error(), "did you mean") || !strings.Contains(err.Error(), "apiVersion: is missing") {
		t.Errorf("%v", err)
	}
	_, err = validation.Parse("c.yaml", []byte("apiversion: x\n"))
	if err == nil || !strings.Contains(err.Error(), `did you mean "apiVersion"`) {
		t.Errorf("%v", err)
	}
}
