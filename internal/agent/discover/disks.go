package discover

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// disks are the machine's block devices, but for what is no hardware.
func disks(root host.Root) []facts.Disk {
	found, _ := filepath.Glob(root.Path("/sys/block/*")) // the pattern is a good one
	out := []facts.Disk{}
	for _, path := range found {
		name := filepath.Base(path)
		read := func(p string) string { return root.Read("/sys/block/" + name + "/" + p) }
		if _, err := os.Stat(filepath.Join(path, "device")); err != nil || strings.HasPrefix(name, "sr") || strings.HasPrefix(name, "fd") {
			continue
		}
		sectors, _ := strconv.ParseInt(read("size"), 10, 64) // of 512 bytes, whatever the disk's are
		d := facts.Disk{Path: "/dev/" + name, SizeBytes: sectors * 512, Model: read("device/model"), Rotates: read("queue/rotational") == "1", Removable: read("removable") == "1"}
		for _, p := range []string{"device/serial", "serial", "device/wwid", "wwid"} {
			if d.Serial == "" {
				d.Serial = read(p)
			}
		}
		d.Type = diskType(name, path)
		parts, _ := filepath.Glob(filepath.Join(path, name+"*"))
		for _, dev := range append([]string{path}, parts...) {
			for _, h := range holds(root.Path("/dev/" + filepath.Base(dev))) {
				if !slices.Contains(d.Holds, h) {
					d.Holds = append(d.Holds, h)
				}
			}
		}
		out = append(out, d)
	}
	return out
}

func diskType(name, path string) string {
	where, _ := filepath.EvalSymlinks(path)
	switch {
	case strings.HasPrefix(name, "nvme"):
		return "nvme"
	case strings.HasPrefix(name, "vd"):
		return "virtio"
	case strings.Contains(where, "/usb"):
		return "usb"
	case strings.Contains(where, "/ata"):
		return "sata"
	case strings.HasPrefix(name, "sd"):
		return "scsi"
	}
	return ""
}

// mark says by which bytes something on a disk is known.
type mark struct {
	name   string
	offset int
	magic  string
}

var marks = []mark{
	{"gpt", 512, "EFI PART"}, {"gpt", 4096, "EFI PART"}, {"ext", 1080, "\x53\xef"}, {"xfs", 0, "XFSB"}, {"btrfs", 65600, "_BHRfS_M"}, {"luks", 0, "LUKS\xba\xbe"},
	{"lvm", 512, "LABELONE"}, {"lvm", 0, "LABELONE"}, {"raid", 4096, "\xfc\x4e\x2b\xa9"}, {"swap", 4086, "SWAPSPACE2"}, {"ntfs", 3, "NTFS    "}, {"vfat", 82, "FAT32   "},
	{"vfat", 54, "FAT16   "}, {"squashfs", 0, "hsqs"}, {"zfs", 16384, "\x0c\xb1\xba\x00"}, {"ceph", 0, "bluestore block device"}, {"mbr", 510, "\x55\xaa"},
}

// holds says what is on a device; what can't be read holds nothing that is known.
func holds(device string) (found []string) {
	f, err := os.Open(device)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 128<<10)) // what was read until then counts
	for _, m := range marks {
		if m.offset <= len(data) && bytes.HasPrefix(data[m.offset:], []byte(m.magic)) && !slices.Contains(found, m.name) {
			found = append(found, m.name)
		}
	}
	return found
}
