//go:build integration

package images

import (
	"strings"
	"syscall"
	"testing"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestAddFullDisk: Add refuses images that do not fit on the disk before it fetches a byte, and leaves nothing.
func TestAddFullDisk(t *testing.T) {
	root := t.TempDir()
	testkit.Must(t, syscall.Mount("tmpfs", root, "tmpfs", 0, "size=2m"))
	t.Cleanup(func() { testkit.Must(t, syscall.Unmount(root, 0)) })
	s := newServer(t, true)
	s.push(t, "app:v1", imageFor(t, "linux/amd64", "app"))
	lib := testkit.Value(bundle.OpenLibrary(root))(t)
	_, err := Add(t.Context(), lib, parse(t, s.host+"/app:v1"), Options{Platforms: []string{"linux/amd64"}})
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "MiB free") {
		t.Errorf("%v", err)
	}
	if blobs := blobsOf(t, lib); len(blobs) > 0 {
		t.Errorf("left are %v", blobs)
	}
}
