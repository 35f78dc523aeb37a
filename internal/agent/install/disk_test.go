package install

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/naupegos/naupegos/internal/agent/disks"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/testkit"
)

// oneDisk is a machine with a disk of 100 MiB and some content.
func oneDisk(t *testing.T, data string, at int64) (host.Root, facts.Disk) {
	t.Helper()
	root := host.Root(t.TempDir())
	for path, content := range map[string]string{"/sys/block/sda/size": "204800\n", "/sys/block/sda/device/serial": "A\n", "/dev/sda": ""} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(root.Path(path)), 0o755))
		testkit.Must(t, os.WriteFile(root.Path(path), []byte(content), 0o644))
	}
	f := testkit.Value(os.OpenFile(root.Path("/dev/sda"), os.O_RDWR, 0))(t)
	testkit.Must(t, f.Truncate(100*slots.MiB))
	testkit.Value(f.WriteAt([]byte(data), at))(t)
	testkit.Must(t, f.Close())
	return root, disks.List(root)[0]
}

// TestClearDisk: a cleared disk is marked as ours from the first byte on, and no other disk is cleared.
func TestClearDisk(t *testing.T) {
	root, disk := oneDisk(t, "", 0)
	put := func(at int64, data string) {
		f := testkit.Value(os.OpenFile(root.Path("/dev/sda"), os.O_RDWR, 0))(t)
		testkit.Value(f.WriteAt([]byte(data), at))(t)
		testkit.Must(t, f.Close())
	}
	whole := func() []byte {
		f := testkit.Value(os.Open(root.Path("/dev/sda")))(t)
		defer f.Close()
		return testkit.Value(io.ReadAll(f))(t)
	}
	put(100*slots.MiB-4096, "a RAID's superblock, written after the disk was chosen")
	before := whole()
	testkit.Fails(t, clearDisk(root, disk, false), fail.Conflict, "was empty when it was chosen", "something unknown")
	if !bytes.Equal(before, whole()) {
		t.Error("a disk that holds something was written")
	}
	put(slots.HeadSize+6*slots.MiB, "between")
	testkit.Must(t, clearDisk(root, disk, true))
	after := whole()
	if !bytes.HasPrefix(after, []byte(disks.Unfinished)) || bytes.Contains(after, []byte("superblock")) || !bytes.Contains(after, []byte("between")) {
		t.Error("the disk's beginning and end are wrong")
	}
	again := disks.List(root)[0]
	if !slices.Equal(again.Holds, []string{disks.HoldsUnfinished}) || Owners(root, t.TempDir())(again) != Unknown {
		t.Errorf("an installation that was cut off is not ours: %+v", again)
	}
	disk.Serial = "B"
	testkit.Fails(t, clearDisk(root, disk, true), fail.Conflict, "changed after it was chosen")
	testkit.Must(t, os.Remove(root.Path("/dev/sda")))
	testkit.Fails(t, clearDisk(root, disk, true), fail.Refused, "open the disk")
}

// TestCutOff: after an interruption of clearDisk at any point, the disk is marked as ours.
func TestCutOff(t *testing.T) {
	root, _ := oneDisk(t, "EFI PART", 512)
	f := testkit.Value(os.OpenFile(root.Path("/dev/sda"), os.O_RDWR, 0))(t)
	mark := make([]byte, slots.Sector)
	copy(mark, disks.Unfinished)
	testkit.Value(f.WriteAt(mark, 0))(t) // zero writes it first
	testkit.Must(t, f.Close())
	if d := disks.List(root)[0]; Owners(root, t.TempDir())(d) != Unknown {
		t.Errorf("%+v", d)
	}
}
