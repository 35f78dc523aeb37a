package bundles

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestClusterKeepsItsBundle: a cluster does not switch unasked to a newer bundle of its release.
func TestClusterKeepsItsBundle(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	root := filepath.Join(cache, "naupegos", "bundles")
	older := testkit.Value(bundletest.WriteSmall(root, "older"))(t)
	testkit.Must(t, os.Chtimes(filepath.Join(root, "manifests", older+".json"), time.Now(), time.Now().Add(-time.Hour)))
	newest := testkit.Value(bundletest.WriteSmall(root, "newest"))(t)
	var said bytes.Buffer
	doc := &v1alpha1.Cluster{}
	doc.Default()
	for was, want := range map[string]string{"": newest, newest: newest, older: older, strings.Repeat("0", 64): newest} {
		use, other, err := Get(t.Context(), &said, doc, doc.Spec.Kubernetes.Version, IfHere, was)
		if err != nil || use.ID != want || other.ID != newest {
			t.Errorf("of a cluster built with %q: %v, %v, %v", was, use, other, err)
		}
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if use, other, err := Get(t.Context(), &said, doc, doc.Spec.Kubernetes.Version, IfHere, older); use != nil || other != nil || err != nil || said.Len() == 0 {
		t.Errorf("none is here: %v, %v, %v, said %q", use, other, err, &said)
	}
}
