package within_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/within"
)

// place creates a directory in/ with a file, a directory and every kind of link, next to a file out/secret.
func place(t *testing.T) string {
	top := t.TempDir()
	in := filepath.Join(top, "in")
	testkit.Must(t, os.MkdirAll(filepath.Join(in, "deep", "er"), 0o755))
	testkit.Must(t, os.Mkdir(filepath.Join(top, "out"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(top, "out", "secret"), []byte(testkit.Secret), 0o600))
	testkit.Must(t, os.WriteFile(filepath.Join(in, "file"), []byte("content"), 0o644))
	for name, to := range map[string]string{
		"up": "../out/secret", "absolute": filepath.Join(top, "out", "secret"), "inside-absolute": filepath.Join(in, "file"), "directory-out": "../out", "chain": "deep/er/up",
		"deep/er/up": "../../../out/secret", "same": "file", "deep/er/same": "../../file", "chain-inside": "deep/er/same", "directory-inside": "deep", "gone": "nothing", "proc": "/proc/self/environ",
	} {
		testkit.Must(t, os.Symlink(to, filepath.Join(in, name)))
	}
	testkit.Must(t, syscall.Mkfifo(filepath.Join(in, "fifo"), 0o644))
	return in
}

// TestOnlyWhatLiesInside opens each kind of name for reading.
func TestOnlyWhatLiesInside(t *testing.T) {
	in := place(t)
	d := testkit.Value(within.Open(in))(t)
	defer d.Close()
	began := time.Now()
	for name, refused := range map[string]bool{
		"file": false, "same": false, "deep/er/same": false, "chain-inside": false, "directory-inside/er/same": false,
		"up": true, "absolute": true, "inside-absolute": true, "chain": true, "directory-out/secret": true, "deep/er/up": true,
		"proc": true, "../out/secret": true, "fifo": true, "deep": true,
	} {
		data, err := d.Read(name, 100)
		if !refused {
			if string(data) != "content" || err != nil {
				t.Errorf("%s: %q, %v", name, data, err)
			}
			continue
		}
		testkit.Fails(t, err, fail.Refused, filepath.Base(name))
		if strings.Contains(string(data), testkit.Secret) {
			t.Errorf("%s was read", name)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("blocked on a FIFO for %s", took)
	}
	if _, err := d.Read("gone", 100); !os.IsNotExist(err) {
		t.Errorf("a dangling link: %v", err)
	}
	_, err := d.Read("file", 3)
	testkit.Fails(t, err, fail.Refused, "larger than 3")
	if _, err := d.Sub("directory-out"); !within.Escapes(err) {
		t.Errorf("a directory outside: %v", err)
	}
}

// TestNothingIsWrittenOutside writes and removes through links.
func TestNothingIsWrittenOutside(t *testing.T) {
	in := place(t)
	d := testkit.Value(within.Open(in))(t)
	defer d.Close()
	fill := func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	}
	testkit.Fails(t, d.Write("directory-out/secret", 0o644, 0o755, fill), fail.Refused, "directory-out")
	testkit.Fails(t, d.Remove("directory-out/secret"), fail.Refused, "directory-out")
	testkit.Fails(t, d.RemoveAll("../out"), fail.Refused, "out")
	testkit.Must(t, d.Write("up", 0o600, 0o755, fill)) // the link is replaced, not followed
	testkit.Must(t, d.Write("new/er/file", 0o640, 0o750, fill))
	for name, want := range map[string]string{"../out/secret": testkit.Secret, "up": "new", "new/er/file": "new"} {
		if got := string(testkit.Value(os.ReadFile(filepath.Join(in, name)))(t)); got != want {
			t.Errorf("%s holds %q", name, got)
		}
	}
	if info := testkit.Value(os.Lstat(filepath.Join(in, "new/er/file")))(t); info.Mode().Perm() != 0o640 {
		t.Error(info.Mode())
	}
	seen := 0
	testkit.Must(t, d.Walk("new", func(_ string, _ fs.DirEntry, err error) error {
		seen++
		return err
	}))
	if seen != 3 {
		t.Errorf("found %d names: a temporary file remains", seen)
	}
}
