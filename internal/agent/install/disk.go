package install

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/disks"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/agent/install/slots"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// run runs a program, in a root file system of its own unless chroot is empty. Its error contains the end of the program's output.
func run(ctx context.Context, chroot, stdin, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	if chroot != "" {
		cmd = exec.CommandContext(ctx, "/usr/bin/env", append([]string{name}, args...)...)
		cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Chroot: chroot}, "/"
	}
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.Stdin = strings.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		words := strings.TrimSpace(said.String() + " " + out.String())
		return "", fail.New(fail.Refused, "%s: %v: %s", filepath.Base(name), err, words[max(0, len(words)-500):])
	}
	return out.String(), nil
}

// newID generates the ID of a partition.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// sectorSize returns a disk's sector size.
func sectorSize(disk string) (int, error) {
	f, err := os.Open(disk)
	if err != nil {
		return 0, fail.Wrap(fail.Refused, err, "open the disk")
	}
	defer f.Close() // read only
	return unix.IoctlGetInt(int(f.Fd()), unix.BLKSSZGET)
}

// partition writes a new partition table and waits until the kernel has read the partitions. The disk's old content no longer boots.
func partition(ctx context.Context, disk facts.Disk, slot int64) ([]slots.Partition, error) {
	if n, err := sectorSize(disk.Path); err != nil || n != int(slots.Sector) {
		return nil, fail.New(fail.Refused, "the disk has sectors of %d bytes, and GRUB for BIOS wants 512: %v", n, err).At(disk.Path).Do("set the disk to sectors of 512 bytes (nvme format), or name another one")
	}
	table := slots.Table(disk.SizeBytes, slot, newID)
	if _, err := run(ctx, "", slots.Script(table, newID()), "sfdisk", "--wipe", "always", "--wipe-partitions", "always", disk.Path); err != nil {
		return nil, fail.Wrap(fail.KindOf(err), err, "partition the disk").At(disk.Path)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, p := range table {
		dev := slots.Device(disk.Path, p.Number)
		for size := int64(0); size != p.Size; {
			if f, err := os.Open(dev); err == nil {
				size, _ = f.Seek(0, io.SeekEnd)
				_ = f.Close() // read only
			}
			if size == p.Size {
				break
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return nil, fail.New(fail.NotReady, "the kernel does not show the partition of %d bytes after a minute", p.Size).At(dev).Do("is something on the disk in use? Boot the machine again")
			}
		}
	}
	return table, nil
}

// clearDisk zeroes a disk's beginning and end, boot loaders included, so that an interrupted installation leaves nothing that half boots. It opens
// the disk exclusively, and checks again that it is the chosen disk, and still empty unless it may be overwritten.
func clearDisk(root host.Root, disk facts.Disk, overwrite bool) (err error) {
	f, err := os.OpenFile(root.Path(disk.Path), os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "open the disk for writing").At(disk.Path).Do("is something on it mounted?")
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fail.Wrap(fail.Refused, e, "wipe the disk").At(disk.Path)
		}
	}()
	holds, err := disks.Again(root, disk, f)
	if err != nil {
		return err
	}
	if len(holds) > 0 && !overwrite {
		return fail.New(fail.Conflict, "the disk was empty when it was chosen, and holds %s now", strings.Join(holds, ", ")).At(disk.Path).
			Do("nothing was written; see what writes to it, or agree to it being overwritten: naupegos machine install --wipe SERIAL")
	}
	if err := zero(f, disk.SizeBytes); err != nil {
		return fail.Wrap(fail.Refused, err, "wipe the disk's beginning and end").At(disk.Path).Do("the disk may be failing: look at the kernel's log")
	}
	return nil
}

// zero zeroes the places in which a disk's content is recognized. It writes the mark of an unfinished installation first, so that the disk is
// recognized as ours after an interruption at any point.
func zero(f *os.File, size int64) error {
	mark := make([]byte, slots.Sector)
	copy(mark, disks.Unfinished)
	if _, err := f.WriteAt(mark, 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	zeros := make([]byte, slots.MiB)
	for _, part := range [][2]int64{{max(slots.Sector, size-disks.Edge), size}, {slots.Sector, min(size, slots.HeadSize+4*slots.MiB)}} {
		for at := part[0]; at < part[1]; at += slots.MiB {
			if _, err := f.WriteAt(zeros[:min(slots.MiB, part[1]-at)], at); err != nil {
				return err
			}
		}
	}
	return f.Sync()
}

// mount mounts a device and returns the function that unmounts it.
func mount(dev, dir, kind string, flags uintptr) (func() error, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fail.Wrap(fail.Refused, err, "make %s", dir)
	}
	data := ""
	if kind == "ext4" && flags&unix.MS_RDONLY != 0 {
		data = "noload" // replaying the journal would write to a disk that is only inspected
	}
	if err := unix.Mount(dev, dir, kind, flags, data); err != nil {
		return nil, fail.Wrap(fail.Refused, err, "mount %s (%s)", dev, kind).At(dir)
	}
	return func() error {
		if err := unix.Unmount(dir, 0); err != nil {
			return fail.Wrap(fail.Refused, err, "unmount").At(dir)
		}
		return nil
	}, nil
}

// Owner is the owner of a disk's system: Foreign, Unknown, or the UUID of a machine.
type Owner string

// The owners that are not machines.
const (
	Foreign Owner = ""        // Naupegos did not install it
	Unknown Owner = "unknown" // Naupegos installed it on an unknown machine: the installation was interrupted, or the disk fails
)

// Owners returns a function that finds the owner of a disk's system. It mounts the disk read-only at dir meanwhile.
func Owners(root host.Root, dir string) func(facts.Disk) Owner {
	known := map[string]Owner{}
	return func(d facts.Disk) Owner {
		if _, ok := known[d.Path]; !ok {
			known[d.Path] = ownerOf(root, d, dir)
		}
		return known[d.Path]
	}
}

func ownerOf(root host.Root, d facts.Disk, dir string) Owner {
	if dev := partitionNamed(root.Path("/sys"), d, slots.NameState); dev != "" {
		if id, err := identityOn(root.Path(dev), dir); err == nil {
			return Owner(id.UUID)
		}
		return Unknown
	}
	if slices.Contains(d.Holds, disks.HoldsUnfinished) {
		return Unknown
	}
	return Foreign
}

// partitionNamed returns the device of a disk's partition with this name, or "" if it does not exist.
func partitionNamed(sys string, d facts.Disk, partition string) string {
	name := filepath.Base(d.Path)
	found, _ := filepath.Glob(filepath.Join(sys, "block", name, name+"*", "uevent")) // the pattern is valid
	for _, f := range found {
		data, err := os.ReadFile(f)
		if err == nil && strings.Contains("\n"+string(data), "\nPARTNAME="+partition+"\n") {
			return filepath.Join(filepath.Dir(d.Path), filepath.Base(filepath.Dir(f)))
		}
	}
	return ""
}
