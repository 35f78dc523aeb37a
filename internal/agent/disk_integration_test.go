//go:build integration

package agent

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// tmpfs mounts a small file system at dir.
func tmpfs(t *testing.T, dir, options string, flags uintptr) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test mounts file systems: run it as root")
	}
	testkit.Must(t, os.MkdirAll(dir, 0o755))
	testkit.Must(t, unix.Mount("tmpfs", dir, "tmpfs", flags, options))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

func TestFullDiskLeavesOldFilesWhole(t *testing.T) {
	f := newFakeHost(t)
	tmpfs(t, f.root+"/etc/app", "size=64k,mode=750", 0)
	putBlobs(t, f)
	f.apply(t, config())
	f.ran()
	before := f.tree(t)
	c := config()
	c.Files[0].Content = []byte("two")
	c.Files[1].Content = bytes.Repeat([]byte("x"), 256<<10)
	_, err := f.agent().Apply(t.Context(), c, false)
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "/etc/app/other.conf") || !strings.Contains(err.Error(), "disk is full") {
		t.Fatalf("error %v", err)
	}
	if got := f.tree(t); got != before || len(f.ran()) > 0 {
		t.Errorf("changed:\n%s\nwas:\n%s", got, before)
	}
	c.Files[1].Content = []byte("small")
	f.apply(t, c)
	if f.content("/etc/app/app.conf") != "two" || f.content("/etc/app/other.conf") != "small" {
		t.Error("the run after that did not finish the work")
	}
}

func TestFullDiskRefusesBlob(t *testing.T) {
	f := newFakeHost(t)
	tmpfs(t, f.root+machine.BlobDir, "size=64k", 0)
	data := strings.Repeat("x", 256<<10)
	err := f.agent().PutBlob(t.Context(), digestOf(data), int64(len(data)), strings.NewReader(data))
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "disk is full") {
		t.Fatalf("error %v", err)
	}
	if left, _ := os.ReadDir(f.root + machine.BlobDir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestReadOnlyKernelSetting(t *testing.T) {
	f := newFakeHost(t)
	tmpfs(t, f.root+"/proc/sys/net/ipv4", "size=64k", 0)
	write(t, f.root+"/proc/sys/net/ipv4/ip_forward", "0\n")
	testkit.Must(t, unix.Mount("", f.root+"/proc/sys/net/ipv4", "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	putBlobs(t, f)
	_, err := f.agent().Apply(t.Context(), config(), false)
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "net.ipv4.ip_forward") || !strings.Contains(err.Error(), "on the host") {
		t.Fatalf("error %v", err)
	}
	testkit.Must(t, unix.Mount("", f.root+"/proc/sys/net/ipv4", "", unix.MS_REMOUNT, ""))
	write(t, f.root+"/proc/sys/net/ipv4/ip_forward", "1\n")
	testkit.Must(t, unix.Mount("", f.root+"/proc/sys/net/ipv4", "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	f.apply(t, config()) // right already: nothing to write
}
