package rack

import (
	"fmt"
	"strings"
)

// Disk is a further disk of a machine, behind virtio-scsi. Its file must exist.
type Disk struct {
	File        string
	Serial      string // page 0x80 of its vital product data
	SectorBytes int    // 0: 512
}

// Odd is unusual hardware of a machine.
type Odd struct {
	TwoPorts  bool   // the system's disk is a namespace of an NVMe subsystem with two controllers
	Disks     []Disk // in addition to the system's disk
	SharedMAC string // of a USB card and a PCI card, both without a link; other machines may have the same address
	Cards     int    // further network cards without a link
}

// systemDisk returns the arguments for the system's disk.
func (m *Machine) systemDisk(index string) []string {
	if !m.TwoPorts {
		return []string{"-device", "virtio-blk-pci,drive=disk,bootindex=" + index + ",serial=" + m.serial()}
	}
	return []string{
		"-device", "nvme-subsys,id=subsystem,nqn=" + m.Name, "-device", "nvme,id=port1,subsys=subsystem,serial=" + m.serial(), "-device", "nvme,id=port2,subsys=subsystem,serial=" + m.serial(),
		"-device", "nvme-ns,bus=port1,drive=disk,nsid=1,shared=on,bootindex=" + index,
	}
}

// devices returns the arguments for all other odd hardware.
func (o Odd) devices() (args []string) {
	if len(o.Disks) > 0 {
		args = append(args, "-device", "virtio-scsi-pci,id=scsi")
	}
	for i, d := range o.Disks {
		drive := fmt.Sprintf("data%d", i)
		device := fmt.Sprintf("scsi-hd,bus=scsi.0,scsi-id=%d,drive=%s,serial=%s", i, drive, d.Serial)
		if d.SectorBytes > 0 {
			device += fmt.Sprintf(",logical_block_size=%d,physical_block_size=%[1]d", d.SectorBytes)
		}
		args = append(args, "-drive", "if=none,format=raw,cache=unsafe,id="+drive+",file="+d.File, "-device", device)
	}
	if o.SharedMAC != "" {
		args = append(args, "-device", "qemu-xhci", "-netdev", "hubport,hubid=1,id=bmc", "-device", "usb-net,netdev=bmc,mac="+o.SharedMAC, "-device", "virtio-net-pci,romfile=,mac="+o.SharedMAC)
	}
	return append(args, o.cards()...)
}

// cards returns the arguments for cards behind bridges, eight to a slot. They have no interrupts of their own, which could exhaust the processor's.
func (o Odd) cards() (args []string) {
	const slots, functions = 31, 8
	if o.Cards > 0 {
		args = append(args, "-device", "pcie-pci-bridge,id=cards")
	}
	for i := range o.Cards {
		bridge := fmt.Sprintf("cards%d", i/(slots*functions))
		if i%(slots*functions) == 0 {
			args = append(args, "-device", fmt.Sprintf("pci-bridge,id=%s,bus=cards,chassis_nr=%d,shpc=off", bridge, 2+i/(slots*functions)))
		}
		slot, function := i/functions%slots+1, i%functions
		card := []string{"virtio-net-pci", "bus=" + bridge, fmt.Sprintf("addr=%#x.%d", slot, function), "disable-legacy=on", "vectors=0", "romfile=", fmt.Sprintf("mac=52:54:01:00:%02x:%02x", i>>8, i&255)}
		if function == 0 {
			card = append(card, "multifunction=on")
		}
		args = append(args, "-device", strings.Join(card, ","))
	}
	return args
}
