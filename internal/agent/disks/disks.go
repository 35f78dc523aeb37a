// Package disks finds the machine's disks: their serial numbers, their content, and the reasons against installing a system on them. It reads sysfs and the
// disks, and writes nothing.
//
// It knows nothing about orders or servers.
package disks

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// A failing disk can block a reader for minutes. Disks are read concurrently, and one that takes longer is reported as unreadable.
const (
	atOnce  = 16
	patient = time.Minute
)

// List returns the machine's disks and their content. It combines several paths to one disk.
func List(root host.Root) []facts.Disk {
	found, _ := filepath.Glob(root.Path("/sys/block/*")) // the pattern is valid
	var names []string
	var all []facts.Disk
	for _, path := range found {
		if d, ok := describe(root, filepath.Base(path)); ok {
			names, all = append(names, filepath.Base(path)), append(all, d)
		}
	}
	var wait sync.WaitGroup
	turn := make(chan struct{}, atOnce)
	for i := range all {
		wait.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			read(root, names[i], &all[i])
		})
	}
	wait.Wait()
	return joinPaths(root, all)
}

// left reports which block devices to leave out: memory, loop devices, removable media, further areas of an eMMC, and the hidden paths of NVMe multipath devices,
// which have no device node.
func left(name string, read func(string) string) bool {
	for _, prefix := range []string{"loop", "ram", "zram", "sr", "fd", "dm-", "md", "nbd", "drbd", "rbd", "bcache", "zd"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && strings.Trim(rest, "0123456789_dp") == "" {
			return true
		}
	}
	if area := strings.TrimLeft(strings.TrimPrefix(name, "mmcblk"), "0123456789"); strings.HasPrefix(name, "mmcblk") && area != "" {
		return true // boot0, rpmb, gp1: further areas of the same chip
	}
	return read("hidden") == "1" || hiddenPath().MatchString(name)
}

// hiddenPath matches the name of a hidden path to an NVMe namespace. Kernels before 4.15 lack the attribute.
var hiddenPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^nvme\d+c\d+n\d+$`) })

// describe returns the kernel's data about a block device, or false if it is not a disk.
func describe(root host.Root, name string) (facts.Disk, bool) {
	sys := "/sys/block/" + name
	read := func(p string) string { return root.Read(sys + "/" + p) }
	if _, err := os.Stat(root.Path(sys + "/device")); err != nil || left(name, read) {
		return facts.Disk{}, false
	}
	sectors, err := strconv.ParseInt(read("size"), 10, 64) // always of 512 bytes
	if err != nil || sectors <= 0 {
		return facts.Disk{}, false // a drive without a medium
	}
	where, _ := filepath.EvalSymlinks(root.Path(sys)) // empty on error
	d := facts.Disk{
		Path: "/dev/" + strings.ReplaceAll(name, "!", "/"), SizeBytes: sectors * 512, Model: read("device/model"), Rotates: read("queue/rotational") == "1",
		Removable: read("removable") == "1", ReadOnly: read("ro") == "1", Type: diskType(root, name, where), Serial: serial(root, sys), WWID: firstOf(read, "device/wwid", "wwid"),
	}
	if read("device/type") == "SD" && d.Type == "mmc" {
		d.Removable = true // the kernel marks only the reader as removable
	}
	if zoned := read("queue/zoned"); zoned != "none" {
		d.Zoned = zoned
	}
	if n, err := strconv.Atoi(read("queue/logical_block_size")); err == nil && n != 512 {
		d.SectorBytes = n
	}
	return d, true
}

func firstOf(read func(string) string, names ...string) string {
	for _, n := range names {
		if v := read(n); v != "" {
			return v
		}
	}
	return ""
}

// serial returns the serial number on the disk's label. SCSI and SATA disks have it in their vital product data; device/serial exists only since Linux 6.15.
// If a USB bridge hides it, serial returns the bridge's number.
func serial(root host.Root, sys string) string {
	data, _ := os.ReadFile(root.Path(sys + "/device/vpd_pg80")) // most disks have none
	if n := page80(data); n != "" {
		return n
	}
	if n := firstOf(func(p string) string { return root.Read(sys + "/" + p) }, "device/serial", "serial"); n != "" {
		return n
	}
	device, _ := filepath.EvalSymlinks(root.Path(sys + "/device"))
	for top := root.Path("/sys"); strings.HasPrefix(device, top+"/"); device = filepath.Dir(device) {
		if _, err := os.Stat(filepath.Join(device, "idVendor")); err == nil {
			n, _ := os.ReadFile(filepath.Join(device, "serial")) // many have none
			return strings.TrimSpace(string(n))
		}
	}
	return ""
}

// page80 parses the serial number in page 0x80 of the vital product data (SPC-4, 7.8.18).
func page80(data []byte) string {
	if len(data) < 5 || data[1] != 0x80 {
		return ""
	}
	long := min(int(data[2])<<8|int(data[3]), len(data)-4)
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, string(data[4:4+long])))
}

// onNetwork matches the place of SCSI disks behind a port of Fibre Channel, or a session of iSCSI.
var onNetwork = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/(rport-|session\d)`) })

func diskType(root host.Root, name, where string) string {
	switch found := onNetwork().FindStringSubmatch(where); {
	case strings.HasPrefix(name, "nvme") && overFabric(root, name):
		return facts.DiskNVMeoF
	case found == nil:
	case found[1] == "rport-":
		return facts.DiskFC
	default:
		return facts.DiskISCSI
	}
	for _, t := range []struct{ prefix, kind string }{{"nvme", "nvme"}, {"vd", "virtio"}, {"pmem", facts.DiskPmem}, {"ndblk", facts.DiskPmem}, {"mtdblock", facts.DiskFlash}, {"ubiblock", facts.DiskFlash}, {"mmcblk", "mmc"}} {
		if strings.HasPrefix(name, t.prefix) {
			return t.kind
		}
	}
	switch {
	case strings.Contains(where, "/usb"):
		return facts.DiskUSB
	case strings.Contains(where, "/ata"):
		return "sata"
	case strings.HasPrefix(name, "sd"):
		return "scsi"
	}
	return ""
}

// overFabric reports whether a controller of an NVMe disk is not on this machine's PCI bus. The disk's device is its controller, or with multipath its
// subsystem, below which the controllers are.
func overFabric(root host.Root, name string) bool {
	device := root.Path("/sys/block/" + name + "/device")
	for _, pattern := range []string{"transport", "nvme*/transport"} {
		found, _ := filepath.Glob(filepath.Join(device, pattern)) // the pattern is valid
		for _, path := range found {
			if transport, err := os.ReadFile(path); err == nil && slices.Contains([]string{"tcp", "rdma", "fc", "loop"}, strings.TrimSpace(string(transport))) {
				return true
			}
		}
	}
	return false
}

// read adds the content of a disk and its partitions.
func read(root host.Root, name string, d *facts.Disk) {
	type answer struct {
		holds []string
		err   error
	}
	said := make(chan answer, 1)
	go func() {
		holds, err := contentOf(root.Path(d.Path), d.SizeBytes)
		said <- answer{append(holds, ofPartitions(root, name)...), err}
	}()
	select {
	case a := <-said:
		for _, h := range a.holds {
			if !slices.Contains(d.Holds, h) {
				d.Holds = append(d.Holds, h)
			}
		}
		if a.err != nil {
			d.Unreadable = a.err.Error()
		}
	case <-time.After(patient): // the reader ends when the kernel returns
		d.Unreadable = fmt.Sprintf("it did not answer for %s", patient)
	}
}

func contentOf(device string, size int64) ([]string, error) {
	f, err := os.Open(device)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	return Content(f, size)
}

// ofPartitions names the partitions' content with known signatures.
func ofPartitions(root host.Root, name string) (all []string) {
	parts, _ := filepath.Glob(filepath.Join(root.Path("/sys/block/"+name), name+"*"))
	for _, p := range parts {
		if strings.Contains("\n"+root.Read("/sys/block/"+name+"/"+filepath.Base(p)+"/uevent")+"\n", "\nPARTNAME=naupegos-state\n") {
			all = append(all, facts.Ours)
		}
		f, err := os.Open(root.Path("/dev/" + strings.ReplaceAll(filepath.Base(p), "!", "/")))
		if err != nil {
			continue
		}
		if size, err := f.Seek(0, io.SeekEnd); err == nil {
			r, _ := look(f, size) // unreadable content has no name
			all = append(all, names(r)...)
		}
		_ = f.Close() // read only
	}
	return all
}

// joinPaths combines entries with the same WWID, size and serial number, which are paths to one disk. It keeps units at the same address of a host adapter
// separate, because UFS gives all units of a device one WWID.
func joinPaths(root host.Root, all []facts.Disk) []facts.Disk {
	out := []facts.Disk{}
	for _, d := range all {
		i := slices.IndexFunc(out, func(o facts.Disk) bool {
			return facts.Distinct(d.WWID) && o.WWID == d.WWID && o.SizeBytes == d.SizeBytes && o.Serial == d.Serial && target(root, o) != target(root, d)
		})
		if i < 0 {
			out = append(out, d)
			continue
		}
		o := &out[i]
		o.Paths = append(o.Paths, d.Path)
		if len(o.Holds) == 0 { // a passive path reads as empty, or fails
			o.Holds = d.Holds
		}
	}
	return out
}

// target returns a disk's kernel address without the unit number: "4:0:1" for 4:0:1:0. Disks without an address get distinct targets.
func target(root host.Root, d facts.Disk) string {
	device, err := os.Readlink(root.Path("/sys/block/" + strings.ReplaceAll(strings.TrimPrefix(d.Path, "/dev/"), "/", "!") + "/device"))
	if parts := strings.Split(filepath.Base(device), ":"); err == nil && len(parts) == 4 {
		return strings.Join(parts[:3], ":")
	}
	return d.Path
}

// Again checks that f is still the chosen disk: fail.Conflict if its serial number, size or device node differs. It returns the disk's current content.
func Again(root host.Root, chosen facts.Disk, f *os.File) ([]string, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(chosen.Path, "/dev/"), "/", "!")
	changed := func(format string, a ...any) error {
		return fail.New(fail.Conflict, "the disk changed after it was chosen: %s", fmt.Sprintf(format, a...)).At(chosen.Path).Do("nothing was written; boot the machine again")
	}
	now, ok := describe(root, name)
	switch {
	case !ok:
		return nil, changed("it is gone")
	case now.Serial != chosen.Serial || now.WWID != chosen.WWID:
		return nil, changed("it was %q (%s), and is %q (%s)", chosen.Serial, chosen.WWID, now.Serial, now.WWID)
	case now.SizeBytes != chosen.SizeBytes || now.ReadOnly != chosen.ReadOnly:
		return nil, changed("it had %d bytes, and has %d (read-only: %t)", chosen.SizeBytes, now.SizeBytes, now.ReadOnly)
	}
	if err := sameNode(root, name, f); err != nil {
		return nil, changed("%v", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil && size != chosen.SizeBytes {
		err = fmt.Errorf("its device has %d bytes, and %d were expected", size, chosen.SizeBytes)
	}
	if err != nil {
		return nil, changed("%v", err)
	}
	holds, err := Content(f, size)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the disk again before it is written").At(chosen.Path).Do("the disk may be failing: look at the kernel's log")
	}
	return holds, nil
}

// sameNode compares the device number of an open file with the kernel's number of the disk. Tests use files as disks.
func sameNode(root host.Root, name string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeDevice == 0 {
		return nil
	}
	number, want := deviceNumber(info), root.Read("/sys/block/"+name+"/dev")
	if number != want {
		return errors.New("its device node is " + number + ", and the kernel's disk is " + want)
	}
	return nil
}
