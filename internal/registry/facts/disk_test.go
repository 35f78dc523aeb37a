package facts

import (
	"strings"
	"testing"
)

// TestDiskNames: the names on the label, and from lsblk, udev, smartctl or the kernel, identify a disk; no others do.
func TestDiskNames(t *testing.T) {
	sata := Disk{Path: "/dev/sda", Serial: "S1YJNX0H502216", WWID: "naa.5002538e40a0f2b1"}
	nvme := Disk{Path: "/dev/nvme0n1", Serial: "S4EVNX0M", WWID: "eui.002538b1a1234567"}
	for _, name := range []string{"S1YJNX0H502216", "s1yjnx0h502216", " S1YJNX0H502216  ", "naa.5002538e40a0f2b1", "0x5002538e40a0f2b1", "0x5002538E40A0F2B1", "wwn-0x5002538e40a0f2b1",
		"/dev/disk/by-id/wwn-0x5002538e40a0f2b1", "5002538e40a0f2b1"} {
		if !sata.Is(name) {
			t.Errorf("%q does not name %+v", name, sata)
		}
	}
	for _, name := range []string{"", " ", "_", "0x", "naa.", "S1YJNX0H50221", "S1YJNX0H5022166", "/dev/sda", "sda"} {
		if sata.Is(name) || (Disk{Path: "/dev/sdb"}).Is(name) {
			t.Errorf("%q names a disk", name)
		}
	}
	for _, name := range []string{"S4EVNX0M", "eui.002538b1a1234567", "nvme-eui.002538b1a1234567"} {
		if !nvme.Is(name) {
			t.Errorf("%q does not name %+v", name, nvme)
		}
	}
	ata := Disk{Serial: "X", WWID: "t10.ATA     QEMU HARDDISK                           QM00001"}
	if !ata.Is("t10.ATA_____QEMU_HARDDISK___________________________QM00001") || !(Disk{Serial: "AB CD  1"}).Is("AB_CD_1") {
		t.Error("blanks make a difference")
	}
	for wwid, distinct := range map[string]bool{"": false, "naa.0000000000000000": false, "eui.ffffffffffffffff": false, "uuid.00000000-0000-0000-0000-000000000000": false, "naa.5002538e40a0f2b1": true,
		"t10.ATA     QEMU HARDDISK  QM00001": true, "0x": false} {
		if Distinct(wwid) != distinct {
			t.Errorf("%q: %t", wwid, Distinct(wwid))
		}
	}
	if got := strings.Join(Missing([]Disk{sata, nvme}, "S4EVNX0M", "ZA1B", "", "0x5002538e40a0f2b1", "ZA1C"), " "); got != "ZA1B ZA1C" {
		t.Error(got)
	}
}

func TestObstacles(t *testing.T) {
	good := Disk{Path: "/dev/sda", SizeBytes: 1 << 40}
	if o := good.Obstacles(); o != "" {
		t.Error(o)
	}
	for words, change := range map[string]func(*Disk){
		"2 paths (/dev/sda, /dev/sdb)": func(d *Disk) { d.Paths = []string{"/dev/sdb"} }, "persistent memory": func(d *Disk) { d.Type = DiskPmem }, "flash": func(d *Disk) { d.Type = DiskFlash },
		"read-only": func(d *Disk) { d.ReadOnly = true }, "host-managed": func(d *Disk) { d.Zoned = "host-managed" }, "4096": func(d *Disk) { d.SectorBytes = 4096 },
		"can't be read: no medium": func(d *Disk) { d.Unreadable = "no medium" }, "no size": func(d *Disk) { d.SizeBytes = 0 },
	} {
		d := good
		change(&d)
		if o := d.Obstacle(); !strings.Contains(o, words) || d.Obstacles() != o {
			t.Errorf("%q instead of %q", o, words)
		}
	}
	good.Zoned, good.SectorBytes = "host-aware", 512 // written as any other
	if good.Obstacle() != "" || !strings.Contains(good.Obstacles(), "host-aware") {
		t.Error(good.Obstacles())
	}
}

// TestUnasked: sticks, USB modules and disks on a network need a name; a machine's own disks do not.
func TestUnasked(t *testing.T) {
	for words, d := range map[string]Disk{
		"can be taken out": {Removable: true, Type: "usb"}, "is on USB": {Type: "usb"}, "is on a network (fc)": {Type: DiskFC}, "is on a network (iscsi)": {Type: DiskISCSI},
		"is on a network (nvme-of)": {Type: DiskNVMeoF},
	} {
		if why := d.Unasked(); !strings.HasPrefix(why, words) {
			t.Errorf("%+v: %q, not %q", d, why, words)
		}
	}
	for _, kind := range []string{"nvme", "sata", "scsi", "virtio", "mmc", ""} {
		if why := (Disk{Type: kind}).Unasked(); why != "" {
			t.Errorf("%s: %q", kind, why)
		}
	}
}
