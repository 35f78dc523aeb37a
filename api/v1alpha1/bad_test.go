package v1alpha1_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestBadDocuments parses every NAME.yaml of testdata/bad/*.txtar and compares the errors with NAME.errors beside it.
func TestBadDocuments(t *testing.T) {
	count := 0
	for _, path := range files(t, "testdata/bad/*.txtar") {
		in := txtar.Parse(read(t, path))
		want := map[string]string{}
		for _, f := range in.Files {
			want[f.Name] = string(f.Data)
		}
		out := &txtar.Archive{}
		for _, f := range in.Files {
			name, ok := strings.CutSuffix(f.Name, ".yaml")
			if !ok {
				continue
			}
			count++
			t.Run(filepath.Base(path)+"/"+name, func(t *testing.T) {
				got := badDocument(t, f)
				if d := cmp.Diff(want[name+".errors"], got); d != "" && !testkit.Updating() {
					t.Errorf("errors differ (-want +got); after a wanted change run with -update:\n%s", d)
				}
				out.Files = append(out.Files, f, txtar.File{Name: name + ".errors", Data: []byte(got)})
			})
		}
		if testkit.Updating() {
			testkit.Golden(t, filepath.Join("bad", filepath.Base(path)), txtar.Format(out))
		}
	}
	if count < 300 {
		t.Errorf("only %d bad documents are left", count)
	}
}

// badDocument checks properties of every bad document, and returns its errors as text.
func badDocument(t *testing.T, f txtar.File) string {
	t.Helper()
	_, err := validation.Parse(f.Name, f.Data)
	var errs v1alpha1.Errors
	if !errors.As(err, &errs) || len(errs) == 0 {
		t.Fatalf("got %v, want Errors", err)
	}
	if k := fail.KindOf(err); k != fail.Invalid {
		t.Errorf("kind %v, want %v", k, fail.Invalid)
	}
	for _, e := range errs {
		if e.Line < 1 || e.Column < 1 || e.File != f.Name || e.Problem == "" {
			t.Errorf("without place or problem: %#v", e)
		}
	}
	return err.Error() + "\n"
}
