// Package testkit holds helpers for the tests of several packages. Only tests import it; it is not part of the program.
//
// It depends on none of the packages that it serves, except for errors.
package testkit

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Updating reports whether tests should rewrite golden files (go test -update).
func Updating() bool { return *update }

// Golden compares got with a file below the package's testdata directory, or rewrites that file. A difference is an error of the test, but does not
// end it.
func Golden[T ~string | ~[]byte](t testing.TB, name string, got T) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if Updating() {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s differs (-want +got; go test -update rewrites it):\n%s", file, d)
	}
}
