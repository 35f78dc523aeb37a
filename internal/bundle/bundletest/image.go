package bundletest

import (
	"testing"

	"github.com/naupegos/naupegos/internal/bundle"
)

// FromImage takes an executable out of a bundle's image and returns its path.
func FromImage(t testing.TB, b *bundle.Bundle, name string) string {
	t.Helper()
	path, err := b.Program(t.Context(), name, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}
