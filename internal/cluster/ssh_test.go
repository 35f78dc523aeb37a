package cluster

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestPrivateDir refuses what others may write into, and what is written there replaces a planted link.
func TestPrivateDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	testkit.Must(t, privateDir(dir))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("made with %v, %v", info.Mode(), err)
	}
	testkit.Must(t, os.Chmod(dir, 0o755))
	testkit.Must(t, privateDir(dir))
	for _, mode := range []os.FileMode{0o777, 0o770, 0o702} {
		testkit.Must(t, os.Chmod(dir, mode))
		testkit.Fails(t, privateDir(dir), fail.Refused, dir, "others may write", "chmod go-w")
	}
	file := filepath.Join(dir, "file")
	testkit.Must(t, os.WriteFile(file, []byte("x"), 0o600))
	testkit.Fails(t, privateDir(file), fail.Refused, file)

	victim, key := filepath.Join(t.TempDir(), "victim"), filepath.Join(dir, "key")
	testkit.Must(t, os.WriteFile(victim, []byte("old"), 0o644))
	testkit.Must(t, os.Symlink(victim, key))
	testkit.Must(t, WritePrivate(key, func(w io.Writer) error { _, err := io.WriteString(w, "secret"); return err }))
	if got, err := os.ReadFile(victim); err != nil || string(got) != "old" {
		t.Errorf("the link was followed: %q, %v", got, err)
	}
	if info, err := os.Lstat(key); err != nil || info.Mode() != 0o600 {
		t.Errorf("the key has mode %v, %v", info.Mode(), err)
	}
}
