//go:build integration

package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/disks"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/testkit"
)

// diskKind is one kind of content of a whole disk.
type diskKind struct {
	name    string
	size    int64             // 0: usualDisk
	command string            // of sh, which fills $image or $device
	written func(*sparseDisk) // superblocks that no program of Debian 12 makes; after command
	wants   string            // the product's name for the content; empty: the name of libblkid's type, or any
	reads   string            // a further program has to recognize the image: command and expected word, separated by " => "
}

// usualDisk is no multiple of the units that RAID, ZFS and GPT align to.
const usualDisk = 128<<20 + 9*512

// called maps libblkid's types to the product's names where they differ.
var called = map[string]string{
	"linux_raid_member": "raid", "zfs_member": "zfs", "crypto_LUKS": "luks", "LVM2_member": "lvm", "LVM1_member": "lvm1", "ceph_bluestore": "ceph", "BitLocker": "bitlocker",
	"ext2": "ext", "ext3": "ext", "ext4": "ext", "ext4dev": "ext", "jbd": "ext", "gfs": "gfs2", "swsuspend": "swap", "ReFS": "refs", "VMFS": "vmfs", "nss": "netware", "squashfs3": "squashfs",
	"dos": "mbr", "mac": "apple partition map", "sun": "sun disklabel", "sgi": "sgi disklabel", "bsd": "bsd disklabel", "atari": "",
}

// parts of a disk that stay; the rest becomes zeros.
var keptParts = []struct {
	name string
	kept func(size int64) (from, to int64)
}{
	{"whole", func(size int64) (int64, int64) { return 0, size }},
	{"only the beginning", func(int64) (int64, int64) { return 0, disks.Edge }},
	{"only the end", func(size int64) (int64, int64) { return size - disks.Edge, size }},
	{"without the first 10 MiB", func(size int64) (int64, int64) { return 10 << 20, size }},
	{"only the first half", func(size int64) (int64, int64) { return 0, size / 2 }},
	{"only the second half", func(size int64) (int64, int64) { return size / 2, size }},
}

// kindsSeen counts what TestKindsOfDisks has looked at.
type kindsSeen struct {
	sync.Mutex
	used, named, empty, middle, same int
	types                            map[string]bool
	missed                           []string
}

// TestKindsOfDisks fills disks by Debian's mkfs, RAID, volume and partition programs, and with superblocks of other systems, and keeps all of a disk, or one
// part. A disk with a byte other than zero in its beginning or end must count as used, by libblkid's name, and be refused without consent and unchanged.
func TestKindsOfDisks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test attaches loop devices: run it as root")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	t.Setenv("LC_ALL", "C")
	all := madeHere(t, slices.Concat(madeKinds, writtenKinds))
	seen := &kindsSeen{types: map[string]bool{}}
	tree := filepath.Join(t.TempDir(), "tree")
	testkit.Must(t, os.MkdirAll(tree, 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(tree, "file"), bytes.Repeat([]byte("content "), 40_000), 0o644))
	t.Run("kinds", func(t *testing.T) {
		for _, k := range all {
			t.Run(k.name, func(t *testing.T) {
				t.Parallel()
				seen.look(t, k, tree)
			})
		}
	})
	if len(all) < 60 {
		t.Errorf("%d kinds, 60 are wanted", len(all))
	}
	out, err := exec.CommandContext(t.Context(), "blkid", "-k").Output()
	testkit.Must(t, err)
	var without []string
	for _, name := range strings.Fields(string(out)) {
		if !seen.types[name] {
			without = append(without, name)
		}
	}
	t.Logf("%d kinds: %d disks used (%d named by libblkid), %d without a byte, %d with bytes in the middle alone, %d as other parts of their kind", len(all), seen.used, seen.named, seen.empty,
		seen.middle, seen.same)
	t.Logf("libblkid knows, and no disk here holds: %v", without)
	t.Logf("taken for empty, for their bytes are outside of the first and last %d MiB and of the samples between them:\n%s", disks.Edge>>20, strings.Join(seen.missed, "\n"))
}

// madeHere returns the kinds whose programs are installed. On Debian 12, from which hack/setup can install all of them, it fails if one is not.
func madeHere(t *testing.T, all []diskKind) (here []diskKind) {
	t.Helper()
	missing := map[string]bool{}
	for _, k := range all {
		found := true
		for _, command := range []string{k.command, k.reads} {
			if program, _, _ := strings.Cut(command, " "); program != "" && !strings.Contains(program, "=") {
				if _, err := exec.LookPath(program); err != nil {
					missing[program], found = true, false
				}
			}
		}
		if found {
			here = append(here, k)
		}
	}
	if system := testkit.Value(os.ReadFile("/etc/os-release"))(t); len(missing) > 0 && strings.Contains(string(system), "VERSION_CODENAME=bookworm\n") {
		t.Fatalf("programs are missing: %v: run hack/setup test", slices.Sorted(maps.Keys(missing)))
	} else if len(missing) > 0 {
		t.Logf("this system has no %v: their kinds of disks are left out", slices.Sorted(maps.Keys(missing)))
	}
	return here
}

// look makes the image of a kind, and checks each part of it.
func (s *kindsSeen) look(t *testing.T, k diskKind, tree string) {
	image := filepath.Join(t.TempDir(), "image")
	d := newSparseDisk(t, image, k)
	if k.command != "" {
		d.fill(t, k.command, tree)
	}
	if k.written != nil {
		k.written(d)
	}
	testkit.Must(t, d.f.Sync())
	if command, word, ok := strings.Cut(k.reads, " => "); ok {
		if out := d.run(t, command, tree); !strings.Contains(out, word) {
			t.Errorf("%s does not recognize it: %s", command, out)
		}
	}
	known := map[string]bool{}
	for _, part := range keptParts {
		t.Run(part.name, func(t *testing.T) {
			path := image
			if part.name != "whole" {
				path = filepath.Join(t.TempDir(), "part")
				from, to := part.kept(d.size)
				d.copyPart(t, path, from, to)
			}
			sum := digestOf(t, path)
			if known[sum] { // seen already: the cut region was zeros
				s.Lock()
				s.same++
				s.Unlock()
				return
			}
			known[sum] = true
			s.check(t, k, part.name, path, sum)
		})
	}
}

// check compares the product's finding about an image with the image's bytes and with libblkid.
func (s *kindsSeen) check(t *testing.T, k diskKind, part, image, sum string) {
	t.Helper()
	edges, middle := nonzero(t, image)
	types := blkidTypes(t, image)
	root, disk := attached(t, image)
	s.Lock()
	defer s.Unlock()
	for _, name := range types {
		s.types[name] = true
		want, other := called[name]
		if !other {
			want = name
		}
		if !slices.Contains(disk.Holds, want) && want != "" {
			t.Errorf("libblkid says %s, the product %q", name, disk.Holds)
		}
	}
	if k.wants != "" && part == "whole" && !slices.Contains(disk.Holds, k.wants) {
		t.Errorf("it holds %q, not %s", disk.Holds, k.wants)
	}
	switch {
	case !edges && !middle:
		s.empty++
		if len(disk.Holds) > 0 {
			t.Errorf("zeros hold %q", disk.Holds)
		}
		return
	case !edges && len(types) == 0 && len(disk.Holds) == 0:
		if part == "whole" {
			t.Error("the disk counts as empty")
		}
		s.middle++
		s.missed = append(s.missed, k.name+", "+part)
		return
	case len(disk.Holds) == 0:
		t.Fatalf("the disk counts as empty; libblkid says %v", types)
	}
	s.used++
	if len(types) > 0 {
		s.named++
	}
	refused(t, root, disk, image, sum)
}

// refused fails if an installation takes a disk without consent, or with consent to another.
func refused(t *testing.T, root host.Root, disk facts.Disk, image, sum string) {
	t.Helper()
	large := disk
	large.SizeBytes = 1 << 40 // every disk here is too small for a system
	other := facts.Disk{Path: "/dev/sdb", Serial: "OTHER", SizeBytes: 1 << 30}
	owner := Owners(root, t.TempDir())
	for _, o := range []order.Order{
		{UUID: "m"}, {UUID: "m", Disk: order.Disk{Serial: disk.Serial}}, {UUID: "m", Disk: order.Disk{Consent: []string{"OTHER"}}},
		{UUID: "m", Disk: order.Disk{Serial: disk.Serial, Consent: []string{"OTHER"}}},
	} {
		_, err := Choose(&o, []facts.Disk{large, other}, owner)
		testkit.Fails(t, err, fail.Refused, "holds "+strings.Join(disk.Holds, ", ")+", which is not ours", disk.Serial)
	}
	chosen, err := Choose(&order.Order{UUID: "m", Disk: order.Disk{Consent: []string{disk.Serial}}}, []facts.Disk{large, other}, owner)
	if err != nil || chosen.Path != disk.Path {
		t.Errorf("with consent: %v, %v", chosen.Path, err)
	}
	testkit.Fails(t, clearDisk(root, disk, false), fail.Conflict, strings.Join(disk.Holds, ", "))
	if digestOf(t, image) != sum {
		t.Error("a refused disk was written")
	}
}

// attached makes an image the only disk of a machine, and returns the product's report about the disk.
func attached(t *testing.T, image string) (host.Root, facts.Disk) {
	t.Helper()
	root := host.Root(t.TempDir())
	info := testkit.Value(os.Stat(image))(t)
	for path, content := range map[string]string{"/sys/block/sda/size": fmt.Sprintln(info.Size() / slots.Sector), "/sys/block/sda/device/serial": "KIND-1\n"} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(root.Path(path)), 0o755))
		testkit.Must(t, os.WriteFile(root.Path(path), []byte(content), 0o644))
	}
	testkit.Must(t, os.MkdirAll(root.Path("/dev"), 0o755))
	testkit.Must(t, os.Symlink(image, root.Path("/dev/sda")))
	found := disks.List(root)
	if len(found) != 1 || found[0].Unreadable != "" || found[0].SizeBytes != info.Size() {
		t.Fatalf("%+v", found)
	}
	return root, found[0]
}

// blkidTypes returns libblkid's names for an image's content and partition table.
func blkidTypes(t *testing.T, image string) (types []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "blkid", "-p", "-o", "export", image).Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 2 && exit.ExitCode() != 8) { // 2: nothing, 8: several
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "TYPE" || key == "PTTYPE" {
			types = append(types, value)
		}
	}
	return types
}

// sparseDisk is an image that most bytes are missing from.
type sparseDisk struct {
	t    *testing.T
	f    *os.File
	size int64
}

func newSparseDisk(t *testing.T, image string, k diskKind) *sparseDisk {
	t.Helper()
	d := &sparseDisk{t: t, size: k.size}
	if d.size == 0 {
		d.size = usualDisk
	}
	d.f = testkit.Value(os.Create(image))(t)
	t.Cleanup(func() { _ = d.f.Close() })
	testkit.Must(t, d.f.Truncate(d.size))
	return d
}

// put writes data at an offset; a negative one counts from the end.
func (d *sparseDisk) put(at int64, data string) {
	d.t.Helper()
	if at < 0 {
		at += d.size
	}
	testkit.Value(d.f.WriteAt([]byte(data), at))(d.t)
}

// fill runs the command that makes the kind.
func (d *sparseDisk) fill(t *testing.T, command, tree string) {
	t.Helper()
	d.run(t, command, tree)
	// Programs that write an image file replace or shorten it.
	f := testkit.Value(os.OpenFile(d.f.Name(), os.O_RDWR, 0))(t)
	_ = d.f.Close()
	d.f = f
	if info := testkit.Value(f.Stat())(t); info.Size() > d.size {
		d.size = info.Size() / slots.Sector * slots.Sector
	}
	testkit.Must(t, f.Truncate(d.size))
}

// run runs a command of sh, and returns its output. It attaches a loop device if the command names $device.
func (d *sparseDisk) run(t *testing.T, command, tree string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	env := append(os.Environ(), "image="+d.f.Name(), "tree="+tree, "dir="+filepath.Dir(d.f.Name()))
	if strings.Contains(command, "$device") {
		loop := exec.CommandContext(ctx, "losetup", "--find", "--show", d.f.Name())
		out, err := loop.Output()
		if err != nil {
			t.Fatalf("attach a loop device: %v", err)
		}
		device := strings.TrimSpace(string(out))
		defer func() {
			if out, err := exec.CommandContext(context.WithoutCancel(ctx), "losetup", "--detach", device).CombinedOutput(); err != nil {
				t.Errorf("detach %s: %v: %s", device, err, out)
			}
		}()
		env = append(env, "device="+device)
	}
	cmd := exec.CommandContext(ctx, "sh", "-ec", command)
	cmd.Env, cmd.Dir = env, filepath.Dir(d.f.Name())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// data calls each for every range of a file that is not a hole.
func data(t *testing.T, f *os.File, size int64, each func(at int64, b []byte)) {
	t.Helper()
	buffer := make([]byte, 1<<20)
	for at := int64(0); at < size; {
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return
		}
		testkit.Must(t, err)
		to := testkit.Value(unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE))(t)
		for at = from; at < to; {
			n, err := f.ReadAt(buffer[:min(int64(len(buffer)), to-at)], at)
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			each(at, buffer[:n])
			at += int64(n)
		}
	}
}

// copyPart writes an image of the same size that keeps a range.
func (d *sparseDisk) copyPart(t *testing.T, path string, from, to int64) {
	t.Helper()
	out := testkit.Value(os.Create(path))(t)
	defer out.Close()
	testkit.Must(t, out.Truncate(d.size))
	data(t, d.f, d.size, func(at int64, b []byte) {
		first, last := max(at, from), min(at+int64(len(b)), to)
		if first < last {
			if part := b[first-at : last-at]; !allZero(part) {
				testkit.Value(out.WriteAt(part, first))(t)
			}
		}
	})
}

var zeros = make([]byte, 1<<20)

func allZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }

// nonzero reports whether an image has bytes other than zero in its beginning or end, and between them.
func nonzero(t *testing.T, image string) (edges, middle bool) {
	t.Helper()
	f := testkit.Value(os.Open(image))(t)
	defer f.Close()
	size := testkit.Value(f.Stat())(t).Size()
	data(t, f, size, func(at int64, b []byte) {
		for _, r := range []struct {
			from, to int64
			found    *bool
		}{{0, disks.Edge, &edges}, {disks.Edge, size - disks.Edge, &middle}, {size - disks.Edge, size, &edges}} {
			if first, last := max(at, r.from), min(at+int64(len(b)), r.to); first < last && !allZero(b[first-at:last-at]) {
				*r.found = true
			}
		}
	})
	return edges, middle
}

// digestOf identifies the data of a sparse file.
func digestOf(t *testing.T, image string) string {
	t.Helper()
	f := testkit.Value(os.Open(image))(t)
	defer f.Close()
	size := testkit.Value(f.Stat())(t).Size()
	h := xxhash.New()
	data(t, f, size, func(at int64, b []byte) {
		for len(b) > 0 { // blocks, because the file system may report a block of zeros as data or as a hole
			block := b[:min(len(b), 4096)]
			if !allZero(block) {
				fmt.Fprintf(h, "%d:", at)
				_, _ = h.Write(block) // never fails
			}
			at, b = at+int64(len(block)), b[len(block):]
		}
	})
	return fmt.Sprintf("%x", h.Sum(nil))
}
