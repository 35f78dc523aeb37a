package handover

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

var written = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestWrite(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "new", "out")
	first := map[string][]byte{"README.md": []byte("one"), "wireguard/a.conf": []byte("a")}
	write := func(files map[string][]byte, force bool) error {
		return Write(dir, "demo", files, written, force)
	}
	if err := write(first, false); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		info, e := d.Info()
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; err != nil || e != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v %v", path, info.Mode(), err, e)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := write(first, false); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "--force") {
		t.Errorf("over a handover: %v", err)
	}
	second := map[string][]byte{"README.md": []byte("two")}
	if err := write(second, true); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "README.md")); err != nil || string(got) != "two" {
		t.Errorf("%s: %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "wireguard")); err == nil {
		t.Error("what the former handover had is still there")
	}
	if err := os.WriteFile(filepath.Join(dir, "mine.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(first, true); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "mine.txt") {
		t.Errorf("a foreign file in it: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(left) != 1 {
		t.Errorf("left over: %v (%v)", left, err)
	}
}

// TestWritePlace: only a handover is ever replaced, and a failed write leaves nothing.
func TestWritePlace(t *testing.T) {
	parent := t.TempDir()
	files := map[string][]byte{"README.md": []byte("one")}
	if err := os.Mkdir(filepath.Join(parent, "empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("empty", filepath.Join(parent, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(parent, "full", "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"file", "link", "full", "file/below"} {
		if err := Write(filepath.Join(parent, name), "demo", files, written, true); fail.KindOf(err) != fail.Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A name that can't be written, after one that can.
	bad := map[string][]byte{"README.md": []byte("one"), "README.md/x": []byte("two")}
	if err := Write(filepath.Join(parent, "half"), "demo", bad, written, false); err == nil {
		t.Error("a file in a file was written")
	}
	if err := Write(filepath.Join(parent, "out"), "demo", map[string][]byte{"../outside": nil}, written, false); fail.KindOf(err) != fail.Refused {
		t.Errorf("a file beside the directory: %v", err)
	}
	if err := Write(filepath.Join(parent, "empty"), "demo", files, written, false); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	info, err := os.Stat(filepath.Join(parent, "empty"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	var names []string
	entries, err := os.ReadDir(parent)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); err != nil || got != "empty file full link" {
		t.Errorf("left over: %s (%v)", got, err)
	}
}
