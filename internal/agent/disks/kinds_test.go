package disks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/testkit"
)

// placed is a block device at its place in the tree of devices. Its own directory is where/block/NAME, as the kernel's is.
type placed struct {
	where  string // below /sys/devices
	device string // the target of its link device, below /sys/devices; empty: where
	block  device
}

func (p placed) put(t *testing.T, root host.Root) {
	t.Helper()
	p.block.put(t, root)
	entry, home := root.Path("/sys/block/"+p.block.name), root.Path("/sys/devices/"+p.where+"/block/"+p.block.name)
	target := root.Path("/sys/devices/" + p.where)
	if p.device != "" {
		target = root.Path("/sys/devices/" + p.device)
	}
	testkit.Must(t, os.MkdirAll(filepath.Dir(home), 0o755))
	testkit.Must(t, os.MkdirAll(target, 0o755))
	files, err := os.ReadDir(filepath.Join(entry, "device"))
	testkit.Must(t, err)
	for _, f := range files {
		testkit.Must(t, os.Rename(filepath.Join(entry, "device", f.Name()), filepath.Join(target, f.Name())))
	}
	testkit.Must(t, os.RemoveAll(filepath.Join(entry, "device")))
	testkit.Must(t, os.Rename(entry, home))
	testkit.Must(t, os.Symlink(home, entry))
	testkit.Must(t, os.Symlink(target, filepath.Join(home, "device")))
}

// placedAt places a device.
func placedAt(where, name string, files ...string) placed {
	return placed{where: where, block: device{name: name, files: in(files...)}}
}

// inSubsystem places the head of an NVMe disk with multipath, whose device is its subsystem.
func inSubsystem(subsystem, name string, files ...string) placed {
	p := placedAt("virtual/nvme-subsystem/"+subsystem+"/x", name, files...)
	p.device = "virtual/nvme-subsystem/" + subsystem
	return p
}

// hidden places a path that the kernel hides.
func hidden(controller, name string, files ...string) placed {
	p := placedAt(controller, name, append(files, "hidden", "1\n")...)
	p.block.none = true
	return p
}

// TestKindsOfMachines reads the disks of unusual machines: multipath, networks, card readers, persistent memory.
func TestKindsOfMachines(t *testing.T) {
	const pci = "pci0000:00/0000:00:1d.0"
	lun := func(host, name, wwid, serial string) placed {
		return placedAt(pci+"/host"+host+"/rport-"+host+":0-0/target"+host+":0:0/"+host+":0:0:0", name, "device/wwid", wwid+"\n", "device/vpd_pg80", page(serial))
	}
	for name, c := range map[string]struct {
		devices []placed
		files   map[string]string // further ones, below /sys/devices
		want    string            // per disk: path, type, serial number, WWID, further paths, why it is not chosen
	}{
		"one port, multipath on": {[]placed{inSubsystem("nvme-subsys0", "nvme0n1", "device/serial", "S4EVNX0M            \n", "wwid", "eui.01\n", "hidden", "0\n"), hidden(pci+"/nvme/nvme0", "nvme0c0n1")},
			map[string]string{"virtual/nvme-subsystem/nvme-subsys0/nvme0/transport": "pcie\n"}, "nvme0n1 nvme S4EVNX0M eui.01"},
		"two ports, multipath on": {[]placed{inSubsystem("nvme-subsys0", "nvme0n1", "device/serial", "S1\n", "wwid", "eui.01\n"), hidden(pci+"/nvme/nvme0", "nvme0c0n1"), hidden(pci+"/nvme/nvme1", "nvme0c1n1")},
			map[string]string{"virtual/nvme-subsystem/nvme-subsys0/nvme0/transport": "pcie\n", "virtual/nvme-subsystem/nvme-subsys0/nvme1/transport": "pcie\n"}, "nvme0n1 nvme S1 eui.01"},
		"two ports, multipath off": {[]placed{placedAt(pci+"/nvme/nvme0", "nvme0n1", "device/serial", "S1\n", "wwid", "eui.01\n", "device/transport", "pcie\n"),
			placedAt(pci+"/nvme/nvme1", "nvme1n1", "device/serial", "S1\n", "wwid", "eui.01\n", "device/transport", "pcie\n")}, nil, "nvme0n1 nvme S1 eui.01 nvme1n1: is reached by 2 paths"},
		"two namespaces behind two ports": {[]placed{inSubsystem("nvme-subsys0", "nvme0n1", "device/serial", "S1\n", "wwid", "eui.01\n"), inSubsystem("nvme-subsys0", "nvme0n2", "device/serial", "S1\n", "wwid", "eui.02\n"),
			hidden(pci+"/nvme/nvme0", "nvme0c0n1"), hidden(pci+"/nvme/nvme0", "nvme0c0n2"), hidden(pci+"/nvme/nvme1", "nvme0c1n1"), hidden(pci+"/nvme/nvme1", "nvme0c1n2")}, nil, "nvme0n1 nvme S1 eui.01\nnvme0n2 nvme S1 eui.02"},
		"NVMe over TCP, multipath on": {[]placed{inSubsystem("nvme-subsys1", "nvme1n1", "device/serial", "S1\n", "wwid", "uuid.5\n"), hidden("virtual/nvme-fabrics/ctl/nvme1", "nvme1c1n1")},
			map[string]string{"virtual/nvme-subsystem/nvme-subsys1/nvme1/transport": "tcp\n"}, "nvme1n1 nvme-of S1 uuid.5: is on a network"},
		"NVMe over RDMA, multipath off": {[]placed{placedAt("virtual/nvme-fabrics/ctl/nvme1", "nvme1n1", "device/serial", "S1\n", "device/transport", "rdma\n")}, nil, "nvme1n1 nvme-of S1: is on a network"},
		"NVMe with sectors of 4096 bytes": {[]placed{placedAt(pci+"/nvme/nvme0", "nvme0n1", "device/serial", "S1\n", "queue/logical_block_size", "4096\n", "queue/physical_block_size", "4096\n")}, nil,
			"nvme0n1 nvme S1: has sectors of 4096 bytes"},
		"NVMe with zones":  {[]placed{placedAt(pci+"/nvme/nvme0", "nvme0n1", "device/serial", "S1\n", "queue/zoned", "host-managed\n")}, nil, "nvme0n1 nvme S1: is zoned"},
		"a read-only NVMe": {[]placed{placedAt(pci+"/nvme/nvme0", "nvme0n1", "device/serial", "S1\n", "ro", "1\n")}, nil, "nvme0n1 nvme S1: is read-only"},
		"virtio-scsi with a serial number": {[]placed{placedAt(pci+"/virtio1/host2/target2:0:0/2:0:0:0", "sda", "device/vpd_pg80", page("DISK-1"), "device/wwid", "t10.ATA     QEMU HARDDISK DISK-1\n")}, nil,
			"sda scsi DISK-1 t10.ATA     QEMU HARDDISK DISK-1"},
		"virtio-scsi without": {[]placed{placedAt(pci+"/virtio1/host2/target2:0:0/2:0:0:0", "sda"), placedAt(pci+"/virtio1/host2/target2:0:0/2:0:0:1", "sdb")}, nil, "sda scsi\nsdb scsi"},
		"virtio-scsi, one serial number for two units": {[]placed{placedAt(pci+"/virtio1/host2/target2:0:0/2:0:0:0", "sda", "device/vpd_pg80", page("A")), placedAt(pci+"/virtio1/host2/target2:0:0/2:0:0:1", "sdb", "device/vpd_pg80", page("A"))},
			nil, "sda scsi A\nsdb scsi A"},
		"virtio-blk":                 {[]placed{placedAt(pci+"/virtio0", "vda", "serial", "12345678901234567890\n")}, nil, "vda virtio 12345678901234567890"},
		"Xen":                        {[]placed{placedAt("vbd-51712", "xvda")}, nil, "xvda"},
		"Fibre Channel, one path":    {[]placed{lun("1", "sda", "naa.600a0b80", "L1")}, nil, "sda fc L1 naa.600a0b80: is on a network"},
		"Fibre Channel, four paths":  {[]placed{lun("1", "sda", "naa.600a0b80", "L1"), lun("2", "sdb", "naa.600a0b80", "L1"), lun("3", "sdc", "naa.600a0b80", "L1"), lun("4", "sdd", "naa.600a0b80", "L1")}, nil, "sda fc L1 naa.600a0b80 sdb,sdc,sdd: is reached by 4 paths"},
		"Fibre Channel, two LUNs":    {[]placed{lun("1", "sda", "naa.600a0b80", "L1"), lun("2", "sdb", "naa.600a0b81", "L2"), lun("3", "sdc", "naa.600a0b80", "L1")}, nil, "sda fc L1 naa.600a0b80 sdc: is reached by 2 paths\nsdb fc L2 naa.600a0b81: is on a network"},
		"iSCSI":                      {[]placed{placedAt("platform/host3/session1/target3:0:0/3:0:0:0", "sda", "device/wwid", "naa.600a0b80\n")}, nil, "sda iscsi  naa.600a0b80: is on a network"},
		"SATA":                       {[]placed{placedAt(pci+"/ata1/host0/target0:0:0/0:0:0:0", "sda", "device/vpd_pg80", page("ZA1B"))}, nil, "sda sata ZA1B"},
		"SAS behind an expander":     {[]placed{placedAt(pci+"/host0/port-0:0/expander-0:0/port-0:0:1/end_device-0:0:1/target0:0:1/0:0:1:0", "sda", "device/vpd_pg80", page("ZA1B"))}, nil, "sda scsi ZA1B"},
		"SAS with two ports":         {[]placed{placedAt(pci+"/host0/port-0:0/end_device-0:0/target0:0:0/0:0:0:0", "sda", "device/wwid", "naa.5000c500\n"), placedAt(pci+"/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0", "sdb", "device/wwid", "naa.5000c500\n")}, nil, "sda scsi  naa.5000c500 sdb: is reached by 2 paths"},
		"a RAID controller's volume": {[]placed{placedAt(pci+"/host0/target0:2:0/0:2:0:0", "sda", "device/wwid", "naa.64cd98f0b4518d002f355bc93432dc00\n")}, nil, "sda scsi  naa.64cd98f0b4518d002f355bc93432dc00"},
		"a card of a reader":         {[]placed{placedAt(pci+"/mmc_host/mmc1/mmc1:aaaa", "mmcblk1", "device/type", "SD\n", "device/serial", "0x1\n")}, nil, "mmcblk1 mmc 0x1: can be taken out"},
		"a chip's further areas":     {[]placed{placedAt(pci+"/mmc_host/mmc0/mmc0:0001", "mmcblk0", "device/type", "MMC\n", "device/serial", "0x1\n"), placedAt(pci+"/mmc0:0001/a", "mmcblk0boot0"), placedAt(pci+"/mmc0:0001/b", "mmcblk0gp1"), placedAt(pci+"/mmc0:0001/c", "mmcblk0rpmb")}, nil, "mmcblk0 mmc 0x1"},
		"persistent memory by sectors": {[]placed{placedAt("LNXSYSTM:00/ndbus0/region0/btt0.0", "pmem0s"), placedAt("LNXSYSTM:00/ndbus0/region0/pmem1.1", "pmem1.1"), placedAt("LNXSYSTM:00/ndbus0/region1/blk1.0", "ndblk1.0")}, nil,
			"ndblk1.0 pmem: is persistent memory\npmem0s pmem: is persistent memory\npmem1.1 pmem: is persistent memory"},
		"a BMC's virtual media": {[]placed{placedAt("pci0000:00/usb1/1-2/1-2:1.0/host4/target4:0:0/4:0:0:0", "sda", "removable", "1\n", "device/model", "Virtual HDisk0\n")}, nil, "sda usb: can be taken out"},
		"a stick":               {[]placed{placedAt("pci0000:00/usb1/1-2/1-2:1.0/host4/target4:0:0/4:0:0:0", "sda", "removable", "0\n", "device/model", "Extreme\n")}, nil, "sda usb: is on USB"},
		"host-aware zones":      {[]placed{placedAt(pci+"/ata1/host0/target0:0:0/0:0:0:0", "sda", "queue/zoned", "host-aware\n")}, nil, "sda sata"},
	} {
		t.Run(name, func(t *testing.T) {
			root := host.Root(t.TempDir())
			for _, d := range c.devices {
				d.put(t, root)
			}
			for path, content := range c.files {
				file := root.Path("/sys/devices/" + path)
				testkit.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
				testkit.Must(t, os.WriteFile(file, []byte(content), 0o644))
			}
			var lines []string
			for _, d := range List(root) {
				lines = append(lines, shown(d))
			}
			if diff := cmp.Diff(c.want, strings.Join(lines, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// shown describes a disk in one line.
func shown(d facts.Disk) string {
	var more []string
	for _, p := range d.Paths {
		more = append(more, strings.TrimPrefix(p, "/dev/"))
	}
	line := strings.TrimRight(strings.Join([]string{strings.TrimPrefix(d.Path, "/dev/"), d.Type, d.Serial, d.WWID, strings.Join(more, ",")}, " "), " ")
	why := d.Obstacle()
	if why == "" {
		why = d.Unasked()
	}
	if why == "" {
		return line
	}
	for _, end := range []string{" (", ","} {
		why, _, _ = strings.Cut(why, end)
	}
	return line + ": " + why
}
