package cluster

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestWayInNeedsHostKey: apply waits for a gateway that has not reported its host keys yet, such as one with an empty console, instead of
// failing.
func TestWayInNeedsHostKey(t *testing.T) {
	doc := document(t, 1, 2, 1)
	l := newLab(t, doc).Running(doc)
	if _, err := l.Host(t.Context(), "demo-a-1"); fail.KindOf(err) != fail.Unreachable {
		t.Errorf("without any host key: %v", err)
	}
	gw := l.cloud.machines["demo-gw-2"]
	gw.HostKeys = []string{"ssh-ed25519 AAAA"}
	l.cloud.machines["demo-gw-2"] = gw
	h, err := l.Host(t.Context(), "demo-a-1")
	if err != nil || len(h.Via) != 1 || h.Via[0].Name != "demo-gw-2" {
		t.Errorf("with one: via %v: %v", h.Via, err)
	}
}

// TestPrivateDir refuses directories that others can write to; files written there replace planted links.
func TestPrivateDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	testkit.Must(t, connect.PrivateDir(dir))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("made with %v, %v", info.Mode(), err)
	}
	testkit.Must(t, os.Chmod(dir, 0o755))
	testkit.Must(t, connect.PrivateDir(dir))
	for _, mode := range []os.FileMode{0o777, 0o770, 0o702} {
		testkit.Must(t, os.Chmod(dir, mode))
		testkit.Fails(t, connect.PrivateDir(dir), fail.Refused, dir, "others may write", "chmod go-w")
	}
	file := filepath.Join(dir, "file")
	testkit.Must(t, os.WriteFile(file, []byte("x"), 0o600))
	testkit.Fails(t, connect.PrivateDir(file), fail.Refused, file)

	victim, key := filepath.Join(t.TempDir(), "victim"), filepath.Join(dir, "key")
	testkit.Must(t, os.WriteFile(victim, []byte("old"), 0o644))
	testkit.Must(t, os.Symlink(victim, key))
	testkit.Must(t, connect.WritePrivate(key, func(w io.Writer) error { _, err := io.WriteString(w, "secret"); return err }))
	if got, err := os.ReadFile(victim); err != nil || string(got) != "old" {
		t.Errorf("the link was followed: %q, %v", got, err)
	}
	if info, err := os.Lstat(key); err != nil || info.Mode() != 0o600 {
		t.Errorf("the key has mode %v, %v", info.Mode(), err)
	}
}
