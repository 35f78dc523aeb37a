package layers

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCopyStore(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	for path, text := range map[string]string{"blobs/a": "blob", "meta.db": "database"} {
		if err := os.MkdirAll(filepath.Join(from, filepath.Dir(path)), 0o751); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, path), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(from, "blobs/link")); err != nil {
		t.Fatal(err)
	}
	if err := CopyStore(from, to); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, "meta.db"), []byte("changed"), 0o640); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(from, "meta.db"))
	if err != nil || string(data) != "database" {
		t.Errorf("writing to the copy changed the original: %q %v", data, err)
	}
	if target, err := os.Readlink(filepath.Join(to, "blobs/link")); err != nil || target != "a" {
		t.Errorf("%q %v", target, err)
	}
	a, err := os.Stat(filepath.Join(from, "blobs/a"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.Stat(filepath.Join(to, "blobs/a"))
	if err != nil || !os.SameFile(a, b) {
		t.Errorf("a blob was copied, not linked: %v", err)
	}
}
