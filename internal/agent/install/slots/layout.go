// Package slots describes the disk of an installed machine: its partitions, and the boot loader's state about the two systems on it.
//
// The image builder, the installer, and the agent of an installed machine use it. The package knows none of them, and writes no disk.
package slots

import (
	"fmt"
	"strings"
)

// The beginning of the disk, in bytes. The boot loaders are where an image has them: see package image.
const (
	Sector    = int64(512)
	MiB       = int64(1) << 20
	BootCode  = int64(440) // of the first sector; the partition table follows
	BIOSStart = MiB
	BIOSSize  = 3 * MiB
	ESPStart  = BIOSStart + BIOSSize
	ESPSize   = 64 * MiB
	HeadSize  = ESPStart + ESPSize // size of the image's head
	endSize   = MiB                // size of the second partition table

	// MinState is the minimum size of the state partition.
	MinState = int64(1) << 30
)

// The names and numbers of the partitions. The names identify an installed disk.
const (
	NameA     = "naupegos-a"
	NameB     = "naupegos-b"
	NameState = "naupegos-state"
	NameBIOS  = "naupegos-bios"
	NameESP   = "naupegos-esp"

	NumberA     = 1
	NumberB     = 2
	NumberState = 3
	NumberBIOS  = 14
	NumberESP   = 15
)

// A and B are the slots.
const (
	A = "a"
	B = "b"
)

// Other returns the other slot.
func Other(slot string) string {
	if slot == A {
		return B
	}
	return A
}

// Number returns the number of a slot's partition.
func Number(slot string) int {
	if slot == B {
		return NumberB
	}
	return NumberA
}

// Needs returns the minimum size of a disk for two slots of a size.
func Needs(slot int64) int64 { return HeadSize + 2*slot + MinState + endSize }

// Partition is an entry of a table.
type Partition struct {
	Number      int
	Name        string
	Start, Size int64 // bytes
	Type, ID    string
}

// Table returns the partition table of a disk: slot is the size of each slot in whole MiB, and id generates the IDs of partitions.
func Table(disk, slot int64, id func() string) []Partition {
	a, b := HeadSize, HeadSize+slot
	state := b + slot
	const linux = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
	end := (disk - endSize) / MiB * MiB
	return []Partition{
		{NumberA, NameA, a, slot, linux, id()},
		{NumberB, NameB, b, slot, linux, id()},
		{NumberState, NameState, state, end - state, linux, id()},
		{NumberBIOS, NameBIOS, BIOSStart, BIOSSize, "21686148-6449-6E6F-744E-656564454649", id()},
		{NumberESP, NameESP, ESPStart, ESPSize, "C12A7328-F81F-11D2-BA4B-00A0C93EC93B", id()},
	}
}

// Script renders a table for sfdisk.
func Script(table []Partition, diskID string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "label: gpt\nlabel-id: %s\nunit: sectors\nsector-size: 512\n", diskID)
	for _, p := range table {
		fmt.Fprintf(&s, "%d : start=%d, size=%d, type=%s, uuid=%s, name=%s\n", p.Number, p.Start/Sector, p.Size/Sector, p.Type, p.ID, p.Name)
	}
	return s.String()
}

// Device returns the device of a disk's partition: /dev/sda1, /dev/nvme0n1p1.
func Device(disk string, number int) string {
	if last := disk[len(disk)-1]; last >= '0' && last <= '9' {
		return fmt.Sprintf("%sp%d", disk, number)
	}
	return fmt.Sprintf("%s%d", disk, number)
}
