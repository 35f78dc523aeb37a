// Package bundletest provides bundles to tests: real ones, which `make bundle` has put into this host's library, and small ones for tests
// that run none of a bundle's programs.
//
// It is for tests only and uses only the bundle package's interface.
package bundletest

import (
	"testing"

	"github.com/naupegos/naupegos/internal/bundle"
)

// Library opens this host's library.
func Library(t testing.TB) *bundle.Library {
	t.Helper()
	root, err := bundle.DefaultRoot()
	if err != nil {
		t.Fatal(err)
	}
	l, err := bundle.OpenLibrary(root)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// All returns the bundles of this host's library; there may be none.
func All(t testing.TB) []*bundle.Bundle {
	t.Helper()
	all, err := Library(t).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Any returns one of the bundles of this host's library. The test fails if there is none.
func Any(t testing.TB) *bundle.Bundle {
	t.Helper()
	all := All(t)
	if len(all) == 0 {
		t.Fatal("this test needs a bundle in this host's library: make bundle")
	}
	return all[0]
}

// Of returns the newest bundle of one Kubernetes release. The test fails if there is none.
func Of(t testing.TB, kubernetes string) *bundle.Bundle {
	t.Helper()
	b, err := Library(t).Find(t.Context(), kubernetes)
	if err != nil {
		t.Fatalf("this test needs a bundle in this host's library (make bundle): %v", err)
	}
	return b
}

// Program returns the path of an executable of a bundle.
func Program(t testing.TB, b *bundle.Bundle, name string) string {
	t.Helper()
	a, err := b.Binary(name)
	if err != nil {
		t.Fatal(err)
	}
	return b.Path(a.Digest)
}
