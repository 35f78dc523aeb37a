//go:build e2e

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// storeRestored is the drill of somebody whose machine is lost: a backup is restored elsewhere, and from there the cluster is as it should
// be.
func storeRestored(t *testing.T, r *rig, _ *load) {
	dir := t.TempDir()
	word, file, elsewhere := filepath.Join(dir, "word"), filepath.Join(dir, "store.age"), filepath.Join(dir, "state")
	testkit.Must(t, os.WriteFile(word, []byte("correct horse\n"), 0o600))
	r.must(0, "store", "backup", file, "--passphrase-file", word)
	there := func(args ...string) result {
		t.Helper()
		res := naupegos(t, r.invocation(), append([]string{"--state-dir", elsewhere}, args...)...)
		if res.code != 0 {
			t.Fatal(res)
		}
		return res
	}
	if res := there("store", "restore", file, "--passphrase-file", word); !strings.Contains(res.stdout, r.name) {
		t.Errorf("it does not say what was restored: %v", res)
	}
	const reminder = "was restored from a backup of"
	res := there("apply", "-f", r.file, "--yes")
	if !strings.Contains(res.stdout, "No changes") || !strings.Contains(res.stderr, reminder) {
		t.Errorf("it changed something, or does not say of which time it is: %v", res)
	}
	if res := there("status", r.name); strings.Contains(res.stderr, reminder) {
		t.Errorf("it was applied, and is of that time still: %v", res)
	}
	there("kubectl", r.name, "--", "get", "nodes")
}
