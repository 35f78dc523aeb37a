package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func testBuilder() *builder {
	b := &bundle.Bundle{ID: strings.Repeat("ab", 32), Manifest: bundle.Manifest{Kubernetes: "v1.36.3"}}
	return &builder{Options: Options{Bundle: b, Version: "test"}, ids: newIDs(b.ID, strings.Repeat("cd", 32))}
}

// TestRendered compares the files that a person reads when a machine does not boot.
func TestRendered(t *testing.T) {
	b := testBuilder()
	testkit.Golden(t, "grub.cfg.golden", b.grubConfig())
	testkit.Golden(t, "esp-grub.cfg.golden", b.findConfig())
	testkit.Golden(t, "fstab.golden", b.fstab())
}

func TestIDs(t *testing.T) {
	a, again, other := newIDs("x", "y"), newIDs("x", "y"), newIDs("x", "z")
	if a != again || a == other {
		t.Error("identifiers must follow from bundle and agent, and from nothing else")
	}
	seen := map[string]bool{}
	for _, id := range []string{a.disk, a.bios, a.efi, a.system, a.root} {
		if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(id) || seen[id] {
			t.Errorf("%s is not a UUID, or not the only one", id)
		}
		seen[id] = true
	}
}

// TestSetupGRUB compares the result with grub-bios-setup's.
func TestSetupGRUB(t *testing.T) {
	boot, core := bytes.Repeat([]byte{0xeb}, 512), make([]byte, 3*512+100)
	binary.LittleEndian.PutUint16(core[coreBlockList+8:], 3)
	code, patched, err := setupGRUB(boot, core, 2048)
	if err != nil {
		t.Fatal(err)
	}
	if len(code) != 440 || binary.LittleEndian.Uint64(code[0x5c:]) != 2048 || code[0x66] != 0x90 || code[0x67] != 0x90 {
		t.Errorf("boot.img: %x", code[0x50:0x70])
	}
	if binary.LittleEndian.Uint64(patched[0x1f4:]) != 2049 {
		t.Errorf("core.img: %x", patched[0x1f0:0x200])
	}
	if boot[0x66] != 0xeb {
		t.Error("the images that were given are changed")
	}
	binary.LittleEndian.PutUint16(core[coreBlockList+8:], 9)
	if _, _, err := setupGRUB(boot, core, 2048); err == nil {
		t.Error("a core that says another length is taken")
	}
}

func TestLayout(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(root, "a"), filepath.Join(root, "b")); err != nil {
		t.Fatal(err)
	}
	if n, err := treeSize(root); err != nil || n > 4<<20 {
		t.Errorf("a file with two names counts %d bytes, %v", n, err)
	}
	b := testBuilder()
	if d, err := b.layout(root); err != nil || d.sizeGiB() != 1 {
		t.Errorf("%v %v", d, err)
	}
	b.SizeGiB = 5
	if d, err := b.layout(root); err != nil || d.sizeGiB() != 5 || (rootStart+d.rootSize())%mib != 0 {
		t.Errorf("%v %v", d, err)
	}
	if err := os.Truncate(filepath.Join(root, "a"), 6<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := b.layout(root); fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), "--size 8") {
		t.Errorf("6 GiB of files on a disk of 5: %v", err)
	}
}

func TestInfo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "disk.raw")
	if err := os.WriteFile(file, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadInfo(file); fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), "disk.raw.json") {
		t.Errorf("an image without a description: %v", err)
	}
	size, sum, err := Checksum(t.Context(), file, nil)
	if err != nil || size != 3 || !strings.HasPrefix(sum, "ddaf35a1") {
		t.Errorf("%d %s %v", size, sum, err)
	}
	want := &Info{Schema: 1, File: "disk.raw", SHA512: sum, Bundle: "b"}
	if err := want.write(file); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadInfo(file); err != nil || *got != *want {
		t.Errorf("%+v %v", got, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := Checksum(stopped, file, nil); fail.KindOf(err) != fail.Interrupted {
		t.Errorf("stopped: %v", err)
	}
}

// TestClaim: only one process at a time makes a file, and the remains of a killed run are removed.
func TestClaim(t *testing.T) {
	out := filepath.Join(t.TempDir(), "disk.raw")
	left := filepath.Join(filepath.Dir(out), ".disk.raw.making", "root")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	first := &builder{Options: Options{Output: out}}
	done, err := first.claim()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what an interrupted run left is still there")
	}
	second := &builder{Options: Options{Output: out}}
	if _, err := second.claim(); fail.KindOf(err) != fail.Conflict {
		t.Errorf("two make the same file: %v", err)
	}
	done()
	if _, err := os.Stat(first.work); err == nil {
		t.Error("the working directory stays")
	}
}

func TestWrongOptions(t *testing.T) {
	for _, o := range []Options{{Format: "vmdk"}, {Format: Raw, SizeGiB: -1}, {Format: QCOW2, SizeGiB: 1 << 20}} {
		if _, err := Build(t.Context(), o); fail.KindOf(err) != fail.Invalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
