//go:build integration

package backup

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestFullDisk checks that a backup onto a full disk fails with that cause and leaves nothing, and that extraction onto a full disk asks for room
// instead of reporting a damaged backup.
func TestFullDisk(t *testing.T) {
	small := t.TempDir()
	testkit.Must(t, unix.Mount("naupegos-test", small, "tmpfs", 0, "size=2m"))
	t.Cleanup(func() { _ = unix.Unmount(small, unix.MNT_DETACH) })
	to, key := recipientOf(t)
	src := source(t, "demo", noon, to)
	src.Snapshot = func(_ context.Context, w io.Writer) (Etcd, error) {
		_, err := io.CopyN(w, rand.Reader, 3*pieceSize) // incompressible
		return Etcd{}, err
	}
	if _, err := Create(t.Context(), Directory(small), src); fail.KindOf(err) != fail.Refused || !bytes.Contains([]byte(err.Error()), []byte("no space left")) {
		t.Errorf("%v: %v", fail.KindOf(err), err)
	}
	if left := testkit.Value(Directory(small).List(t.Context(), "."))(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	s := testkit.Value(Create(t.Context(), Directory(t.TempDir()), source(t, "demo", noon, to)))(t)
	if _, err := s.Extract(t.Context(), key, Trust{Unsigned: true}, small); fail.KindOf(err) != fail.Refused || !bytes.Contains([]byte(err.Error()), []byte("make room")) {
		t.Errorf("%v: %v", fail.KindOf(err), err)
	}
}
