//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// backup is a backup of a rig's store, with the passphrase that decrypts it.
type backup struct{ file, word string }

func (r *rig) backedUp() backup {
	r.t.Helper()
	dir := r.t.TempDir()
	b := backup{filepath.Join(dir, "store.age"), filepath.Join(dir, "word")}
	testkit.Must(r.t, os.WriteFile(b.word, []byte("correct horse\n"), 0o600))
	r.must(0, "store", "backup", b.file, "--passphrase-file", b.word)
	return b
}

// restored restores a backup into a new state directory, and returns a function that runs naupegos there, which must end with the given code.
func (r *rig) restored(b backup) func(code int, args ...string) result {
	r.t.Helper()
	elsewhere := filepath.Join(r.t.TempDir(), "state")
	there := func(code int, args ...string) result {
		r.t.Helper()
		res := naupegos(r.t, r.invocation(), append([]string{"--state-dir", elsewhere}, args...)...)
		if res.code != code {
			r.t.Fatal(res)
		}
		return res
	}
	if res := there(0, "store", "restore", b.file, "--passphrase-file", b.word); !strings.Contains(res.stdout, r.name) {
		r.t.Errorf("it does not say what was restored: %v", res)
	}
	return there
}

// storeRestored restores a backup of the store elsewhere, as after the loss of the operator's machine. An apply from there finds nothing to do.
func storeRestored(t *testing.T, r *rig, _ *load) {
	there := r.restored(r.backedUp())
	const reminder = "was restored from a backup of"
	res := there(0, "apply", "-f", r.file, "--yes")
	if !strings.Contains(res.stdout, "No changes") || !strings.Contains(res.stderr, reminder) {
		t.Errorf("it changed something, or does not report the backup's time: %v", res)
	}
	if res := there(0, "status", r.name); strings.Contains(res.stderr, reminder) {
		t.Errorf("after an apply it still reports the backup's time: %v", res)
	}
	there(0, "kubectl", r.name, "--", "get", "nodes")
}
