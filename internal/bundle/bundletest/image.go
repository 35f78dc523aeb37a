package bundletest

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/naupegos/naupegos/internal/bundle"
)

// FromImage takes an executable out of a bundle's image and returns its path.
func FromImage(t testing.TB, b *bundle.Bundle, name string) string {
	t.Helper()
	i, err := b.Image(name)
	must(t, err)
	img, err := tarball.ImageFromPath(b.Path(i.Archive.Digest), nil)
	must(t, err)
	files := mutate.Extract(img)
	defer files.Close()
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("the image %s has no executable of that name", i.Ref)
		}
		must(t, err)
		if filepath.Base(h.Name) != name || h.Typeflag != tar.TypeReg {
			continue
		}
		path := filepath.Join(t.TempDir(), name)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
		must(t, err)
		_, err = io.Copy(f, r) //nolint:gosec // a bundle of our own
		must(t, errors.Join(err, f.Close()))
		return path
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
