//go:build integration

package local

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

// TestFullDisk creates a machine on a full disk, and again once there is room.
func TestFullDisk(t *testing.T) {
	small := filepath.Join(testRoot(t), "small")
	if err := os.MkdirAll(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("naupegos-test", small, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(small, 0); err != nil {
			t.Error(err)
		}
	})
	r := newRig(t, func(o *Options) { o.Root = small })
	r.apply(provider.Wanted{})
	if err := r.p.layers().Make(t.Context(), silent{}); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(small, "filler")
	err := os.WriteFile(filler, bytes.Repeat([]byte{1}, 64<<20), 0o600)
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	w := wanted(0)
	if _, err := r.p.Steps(r.t.Context(), w, r.observe()); err != nil {
		t.Fatal(err)
	}
	err = r.p.ensureMachine(t.Context(), w.Machines[0], silent{})
	t.Log(err)
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "make room") || !strings.Contains(err.Error(), "gw-1") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	r.apply(w)
	r.ssh("gw-1", "true")
}
