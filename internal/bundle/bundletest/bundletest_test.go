package bundletest_test

import (
	"testing"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
)

// TestEmptyLibrary: a host without bundles is not an error by itself.
func TestEmptyLibrary(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if all := bundletest.All(t); len(all) > 0 {
		t.Errorf("%d bundles in a new library", len(all))
	}
}
