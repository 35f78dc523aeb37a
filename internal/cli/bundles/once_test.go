package bundles

import (
	"fmt"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestOnce: a repeated notice is passed on once, and a different notice is passed on, too.
func TestOnce(t *testing.T) {
	var b strings.Builder
	w := &Once{To: &b}
	for range 3 {
		fmt.Fprintf(w, "no bundle of %s\n", "v1")
		fmt.Fprintf(w, "no bundle of %s\n", "v2")
	}
	if b.String() != "no bundle of v1\nno bundle of v2\n" {
		t.Errorf("%q", b.String())
	}
}

// TestCheckRelease: CheckRelease refuses a release without a recipe, names its field, and lists the releases with recipes.
func TestCheckRelease(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	doc := &v1alpha1.Cluster{}
	for _, v := range release.Versions() {
		doc.Spec.Kubernetes.Version = v
		testkit.Must(t, CheckRelease(t.Context(), doc))
	}
	for _, v := range []string{"v1.37.9", "v1.2.3", "", "latest"} {
		doc.Spec.Kubernetes.Version = v
		testkit.Fails(t, CheckRelease(t.Context(), doc), fail.Invalid, "spec.kubernetes.version", "not a release that this naupegos has a recipe for", release.Versions()[0])
	}
}
