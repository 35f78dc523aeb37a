package bundletest

import (
	"testing"

	"github.com/naupegos/naupegos/internal/bundle"
)

// FromImage extracts an executable of a bundle into a temporary directory and returns its path. It also finds executables in images.
func FromImage(t testing.TB, b *bundle.Bundle, name string) string {
	t.Helper()
	path, err := b.Program(t.Context(), name, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}
