package disks

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/testkit"
)

// device is a block device in sysfs.
type device struct {
	name  string
	files map[string]string // below /sys/block/NAME
	data  string            // the disk's beginning; the rest is zero
	none  bool              // without device node
}

const size = 32 * mib // of the disks in these tests

func (d device) put(t *testing.T, root host.Root) {
	t.Helper()
	dir := root.Path("/sys/block/" + d.name)
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "device"), 0o755))
	sectors := size / 512
	for path, content := range d.files {
		if path == "size" {
			sectors = testkit.Value(strconv.ParseInt(strings.TrimSpace(content), 10, 64))(t)
		}
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644))
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "size"), []byte(strconv.FormatInt(sectors, 10)+"\n"), 0o644))
	if d.none {
		return
	}
	node := root.Path("/dev/" + strings.ReplaceAll(d.name, "!", "/"))
	testkit.Must(t, os.MkdirAll(filepath.Dir(node), 0o755))
	testkit.Must(t, os.WriteFile(node, []byte(d.data), 0o644))
	testkit.Must(t, os.Truncate(node, sectors*512))
}

// page is page 0x80 of a disk's vital product data.
func page(serial string) string { return "\x00\x80\x00" + string(rune(len(serial))) + serial }

// in returns a disk's files.
func in(pairs ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// TestList: each kind of device in Linux' sysfs, and the reported disk.
func TestList(t *testing.T) {
	disk := func(path string, change func(*facts.Disk)) facts.Disk {
		d := facts.Disk{Path: path, SizeBytes: size}
		change(&d)
		return d
	}
	for name, c := range map[string]struct {
		devices []device
		want    []facts.Disk
	}{
		"NVMe multipath": {[]device{{name: "nvme0c0n1", files: in("hidden", "1\n", "device/serial", "S4EVNX0M            \n"), none: true},
			{name: "nvme0n1", files: in("hidden", "0\n", "device/serial", "S4EVNX0M            \n", "device/model", "PM1733   \n", "wwid", "eui.01\n")}},
			[]facts.Disk{disk("/dev/nvme0n1", func(d *facts.Disk) { d.Serial, d.Model, d.Type, d.WWID = "S4EVNX0M", "PM1733", "nvme", "eui.01" })}},
		"NVMe multipath before the kernel said hidden": {[]device{{name: "nvme10c3n12", none: true}}, []facts.Disk{}},
		"SATA": {[]device{{name: "sda", files: in("device/vpd_pg80", page("S1YJNX0H502216      "), "device/wwid", "naa.5002538e40a0f2b1\n")}},
			[]facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.Serial, d.WWID, d.Type = "S1YJNX0H502216", "naa.5002538e40a0f2b1", "scsi" })}},
		"SATA without a WWN": {[]device{{name: "sda", files: in("device/vpd_pg80", page("        ZA1B"), "device/wwid", "t10.ATA     QEMU HARDDISK                           ZA1B\n")}},
			[]facts.Disk{disk("/dev/sda", func(d *facts.Disk) {
				d.Serial, d.WWID, d.Type = "ZA1B", "t10.ATA     QEMU HARDDISK                           ZA1B", "scsi"
			})}},
		"a newer kernel": {[]device{{name: "sda", files: in("device/serial", "ZA1B\n")}}, []facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.Serial, d.Type = "ZA1B", "scsi" })}},
		"a blank serial number": {[]device{{name: "sda", files: in("device/vpd_pg80", page("                "), "device/wwid", "naa.5\n")}},
			[]facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.WWID, d.Type = "naa.5", "scsi" })}},
		"nothing to know it by": {[]device{{name: "sda"}}, []facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.Type = "scsi" })}},
		"virtio":                {[]device{{name: "vda", files: in("serial", "DISK-1")}}, []facts.Disk{disk("/dev/vda", func(d *facts.Disk) { d.Serial, d.Type = "DISK-1", "virtio" })}},
		"eMMC with boot areas": {[]device{{name: "mmcblk0", files: in("device/serial", "0xdeadbeef\n")}, {name: "mmcblk0boot0", files: in("ro", "1\n", "device/serial", "0xdeadbeef\n")},
			{name: "mmcblk0boot1", files: in("device/serial", "0xdeadbeef\n")}, {name: "mmcblk0rpmb"}}, []facts.Disk{disk("/dev/mmcblk0", func(d *facts.Disk) { d.Serial, d.Type = "0xdeadbeef", "mmc" })}},
		"no disks":                 {[]device{{name: "loop0"}, {name: "ram15"}, {name: "zram0"}, {name: "sr0"}, {name: "fd0"}, {name: "dm-3"}, {name: "md127"}, {name: "md_d0"}, {name: "nbd4"}, {name: "zd16"}, {name: "rbd0"}}, []facts.Disk{}},
		"a drive without a medium": {[]device{{name: "sdb", files: in("size", "0\n", "removable", "1\n", "device/model", "Virtual Floppy\n")}}, []facts.Disk{}},
		"two paths to one LUN": {[]device{{name: "sda", files: in("device/wwid", "naa.600508b1001c4d41\n", "device/vpd_pg80", page("LUN1"))}, {name: "sdb", files: in("device/wwid", "naa.600508b1001c4d41\n", "device/vpd_pg80", page("LUN1")), data: "x"},
			{name: "dm-0", files: in("dm/name", "mpatha")}}, []facts.Disk{disk("/dev/sda", func(d *facts.Disk) {
			d.Serial, d.WWID, d.Type, d.Paths, d.Holds = "LUN1", "naa.600508b1001c4d41", "scsi", []string{"/dev/sdb"}, []string{Unknown}
		})}},
		"one WWID, other sizes (UFS)": {[]device{{name: "sda", files: in("device/wwid", "naa.8ce38e0000000000\n")}, {name: "sdb", files: in("device/wwid", "naa.8ce38e0000000000\n", "size", "8192\n")}},
			[]facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.WWID, d.Type = "naa.8ce38e0000000000", "scsi" }), disk("/dev/sdb", func(d *facts.Disk) { d.WWID, d.Type, d.SizeBytes = "naa.8ce38e0000000000", "scsi", 4*mib })}},
		"a WWID of zeros": {[]device{{name: "sda", files: in("device/wwid", "naa.0000000000000000\n")}, {name: "sdb", files: in("device/wwid", "naa.0000000000000000\n")}},
			[]facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.WWID, d.Type = "naa.0000000000000000", "scsi" }), disk("/dev/sdb", func(d *facts.Disk) { d.WWID, d.Type = "naa.0000000000000000", "scsi" })}},
		"two namespaces of a drive": {[]device{{name: "nvme0n1", files: in("device/serial", "X1\n", "wwid", "eui.01\n")}, {name: "nvme0n2", files: in("device/serial", "X1\n", "wwid", "eui.02\n")}},
			[]facts.Disk{disk("/dev/nvme0n1", func(d *facts.Disk) { d.Serial, d.WWID, d.Type = "X1", "eui.01", "nvme" }), disk("/dev/nvme0n2", func(d *facts.Disk) { d.Serial, d.WWID, d.Type = "X1", "eui.02", "nvme" })}},
		"read-only":            {[]device{{name: "sda", files: in("ro", "1\n")}}, []facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.Type, d.ReadOnly = "scsi", true })}},
		"4Kn":                  {[]device{{name: "sda", files: in("queue/logical_block_size", "4096\n")}}, []facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.Type, d.SectorBytes = "scsi", 4096 })}},
		"512e":                 {[]device{{name: "sda", files: in("queue/logical_block_size", "512\n", "queue/physical_block_size", "4096\n")}}, []facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.Type = "scsi" })}},
		"zoned":                {[]device{{name: "sda", files: in("queue/zoned", "host-managed\n")}}, []facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.Type, d.Zoned = "scsi", "host-managed" })}},
		"not zoned":            {[]device{{name: "sda", files: in("queue/zoned", "none\n")}}, []facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.Type = "scsi" })}},
		"persistent memory":    {[]device{{name: "pmem0"}, {name: "mtdblock0"}}, []facts.Disk{disk("/dev/mtdblock0", func(d *facts.Disk) { d.Type = facts.DiskFlash }), disk("/dev/pmem0", func(d *facts.Disk) { d.Type = facts.DiskPmem })}},
		"an old Smart Array":   {[]device{{name: "cciss!c0d0", files: in("device/wwid", "naa.8\n")}}, []facts.Disk{disk("/dev/cciss/c0d0", func(d *facts.Disk) { d.WWID = "naa.8" })}},
		"raw data":             {[]device{{name: "sda", data: "PGDATA raw"}}, []facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.Type, d.Holds = "scsi", []string{Unknown} })}},
		"an unfinished system": {[]device{{name: "sda", data: Unfinished}}, []facts.Disk{disk("/dev/sda", func(d *facts.Disk) { d.Type, d.Holds = "scsi", []string{HoldsUnfinished} })}},
	} {
		t.Run(name, func(t *testing.T) {
			root := host.Root(t.TempDir())
			for _, d := range c.devices {
				d.put(t, root)
			}
			if diff := cmp.Diff(c.want, List(root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAddresses: a bridge's serial number, and units at one address of a host adapter, which are separate disks.
func TestAddresses(t *testing.T) {
	root := host.Root(t.TempDir())
	for name, where := range map[string]string{"sda": "usb1/1-2/1-2:1.0/host4/target4:0:0/4:0:0:0", "sdb": "ufs/host0/target0:0:0/0:0:0:0", "sdc": "ufs/host0/target0:0:0/0:0:0:1", "sdd": "fc/host1/target1:0:0/1:0:0:0", "sde": "fc/host2/target2:0:0/2:0:0:0"} {
		(device{name: name}).put(t, root)
		dir, here := root.Path("/sys/devices/pci0/"+where), root.Path("/sys/block/"+name)
		testkit.Must(t, os.MkdirAll(dir, 0o755))
		testkit.Must(t, os.Remove(filepath.Join(here, "device")))
		testkit.Must(t, os.Symlink(dir, filepath.Join(here, "device")))
		wwid := map[byte]string{'u': "naa.8ce38e0000000000\n", 'f': "naa.600508b1001c4d41\n"}[where[0]]
		if !strings.HasPrefix(where, "usb") {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "wwid"), []byte(wwid), 0o644))
		}
	}
	testkit.Must(t, os.WriteFile(root.Path("/sys/devices/pci0/usb1/1-2/idVendor"), []byte("152d\n"), 0o644))
	testkit.Must(t, os.WriteFile(root.Path("/sys/devices/pci0/usb1/1-2/serial"), []byte("USB-1\n"), 0o644))
	var got []string
	for _, d := range List(root) {
		got = append(got, d.Path+" "+d.Serial+" "+strings.Join(d.Paths, ","))
	}
	if diff := cmp.Diff([]string{"/dev/sda USB-1 ", "/dev/sdb  ", "/dev/sdc  ", "/dev/sdd  /dev/sde"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPage80(t *testing.T) {
	for data, want := range map[string]string{"": "", "\x00": "", "\x00\x80\x00\x04ZA1B": "ZA1B", "\x00\x80\x00\x08  ZA1B  ": "ZA1B", "\x00\x80\x00\x04ZA": "ZA", "\x00\x80\x00\x02ZA1B": "ZA", "\x00\x83\x00\x04ZA1B": "",
		"\x00\x80\x00\x00": "", "\x00\x80\xff\xffZA1B\x00\x00": "ZA1B", "\x00\x80\x00\x06\x00ZA\xff1B": "ZA 1B", "\x00\x80\x00\x04\x00\x00\x00\x00": ""} {
		if got := page80([]byte(data)); got != want {
			t.Errorf("%q: %q instead of %q", data, got, want)
		}
	}
}

// TestUnreadable: an unreadable disk is not empty.
func TestUnreadable(t *testing.T) {
	root := host.Root(t.TempDir())
	(device{name: "sda", none: true}).put(t, root)
	short := device{name: "sdb", data: "XFSB"}
	short.put(t, root)
	testkit.Must(t, os.Truncate(root.Path("/dev/sdb"), 8192))
	found := List(root)
	if !strings.Contains(found[0].Unreadable, "no such file") || !strings.Contains(found[1].Unreadable, "read") || found[1].Holds[0] != "xfs" || found[0].Obstacle() == "" {
		t.Errorf("%+v", found)
	}
}

// TestAgain: a disk that changed between choosing and writing is not written.
func TestAgain(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, root host.Root){
		"":           func(*testing.T, host.Root) {},
		"it is gone": func(t *testing.T, root host.Root) { testkit.Must(t, os.RemoveAll(root.Path("/sys/block/sda"))) },
		`it was "A" (), and is "B`: func(t *testing.T, root host.Root) {
			(device{name: "sda", files: in("device/serial", "B\n")}).put(t, root)
		},
		"naa.6": func(t *testing.T, root host.Root) {
			(device{name: "sda", files: in("device/serial", "A\n", "device/wwid", "naa.6\n")}).put(t, root)
		},
		"8192": func(t *testing.T, root host.Root) {
			(device{name: "sda", files: in("device/serial", "A\n", "size", "16\n"), none: true}).put(t, root)
		},
		"read-only: true": func(t *testing.T, root host.Root) {
			(device{name: "sda", files: in("device/serial", "A\n", "ro", "1\n")}).put(t, root)
		},
		"its device has": func(t *testing.T, root host.Root) { testkit.Must(t, os.Truncate(root.Path("/dev/sda"), 4096)) },
	} {
		root := host.Root(t.TempDir())
		(device{name: "sda", files: in("device/serial", "A\n")}).put(t, root)
		chosen := List(root)[0]
		change(t, root)
		f := testkit.Value(os.OpenFile(root.Path("/dev/sda"), os.O_RDWR, 0))(t)
		_, err := Again(root, chosen, f)
		testkit.Must(t, f.Close())
		if name == "" {
			testkit.Must(t, err)
			continue
		}
		testkit.Fails(t, err, fail.Conflict, name)
	}
	root := host.Root(t.TempDir())
	(device{name: "sda", data: "something"}).put(t, root)
	f := testkit.Value(os.Open(root.Path("/dev/sda")))(t)
	defer f.Close()
	if holds, err := Again(root, facts.Disk{Path: "/dev/sda", SizeBytes: size, Type: "scsi"}, f); err != nil || len(holds) != 1 {
		t.Error(holds, err)
	}
}
