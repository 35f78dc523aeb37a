package facts

import (
	"fmt"
	"strings"
)

// Disk is a disk.
type Disk struct {
	Path      string   `json:"path"`
	SizeBytes int64    `json:"size-bytes"`
	Serial    string   `json:"serial,omitempty"` // as on its label and in lsblk
	WWID      string   `json:"wwid,omitempty"`   // "naa.…", "eui.…", "t10.…": unique in the world; empty if the disk has none
	Model     string   `json:"model,omitempty"`
	Type      string   `json:"type,omitempty"`    // nvme, sata, scsi, virtio, usb, mmc, a type that no firmware boots from, or a network type
	Rotates   bool     `json:"rotates,omitempty"` // not an SSD
	Removable bool     `json:"removable,omitempty"`
	Holds     []string `json:"holds,omitempty"` // content: "gpt", "ext", "lvm"…, "something unknown"; none: the disk is empty
	// Obstacles, which most disks don't have.
	SectorBytes int      `json:"sector-bytes,omitempty"` // other than 512
	ReadOnly    bool     `json:"read-only,omitempty"`
	Zoned       string   `json:"zoned,omitempty"`      // "host-managed": the disk must be written in order
	Paths       []string `json:"paths,omitempty"`      // further devices that are the same disk
	Unreadable  string   `json:"unreadable,omitempty"` // why the content is unknown
}

// Types of devices that no firmware boots from.
const (
	DiskPmem  = "pmem"
	DiskFlash = "mtd"
)

// DiskUSB is the type of disks on USB: sticks, few of which are marked as removable, and internal modules with tools of the vendor or the operator.
const DiskUSB = "usb"

// Types of disks on a network. Other machines may have them, too.
const (
	DiskFC     = "fc"
	DiskISCSI  = "iscsi"
	DiskNVMeoF = "nvme-of"
)

// Sector is the size of sectors that system images require.
const Sector = 512

// Obstacle says why a disk can't hold a system, regardless of the order; empty if it can.
func (d Disk) Obstacle() string {
	switch {
	case len(d.Paths) > 0:
		return fmt.Sprintf("is reached by %d paths (%s), and Naupegos does not combine them: leave one path", len(d.Paths)+1, strings.Join(append([]string{d.Path}, d.Paths...), ", "))
	case d.Type == DiskPmem:
		return "is persistent memory, which no firmware boots from"
	case d.Type == DiskFlash:
		return "is a flash chip (MTD), which no firmware boots from"
	case d.ReadOnly:
		return "is read-only"
	case d.Zoned == "host-managed":
		return "is zoned (host-managed), and has to be written in order"
	case d.SectorBytes != 0 && d.SectorBytes != Sector:
		return fmt.Sprintf("has sectors of %d bytes, and system images boot from sectors of %d", d.SectorBytes, Sector)
	case d.Unreadable != "":
		return "can't be read: " + d.Unreadable
	case d.SizeBytes <= 0:
		return "has no size"
	}
	return ""
}

// Unasked says why a disk holds the system only if an order names it; empty if it needs no name.
func (d Disk) Unasked() string {
	switch {
	case d.Removable:
		return "can be taken out"
	case d.Type == DiskUSB:
		return "is on USB"
	case d.Type == DiskFC || d.Type == DiskISCSI || d.Type == DiskNVMeoF:
		return "is on a network (" + d.Type + "), where other machines may have it, too"
	}
	return ""
}

// Obstacles lists in words all facts about a disk except its content.
func (d Disk) Obstacles() string {
	var all []string
	if o := d.Obstacle(); o != "" {
		all = append(all, o)
	}
	if why := d.Unasked(); why != "" {
		all = append(all, why)
	}
	if d.Zoned != "" && d.Zoned != "host-managed" {
		all = append(all, "is zoned ("+d.Zoned+")")
	}
	return strings.Join(all, ", ")
}

// Is reports whether a serial number or WWID names a disk. It ignores case, blanks, and the prefixes that programs put before a WWID.
func (d Disk) Is(name string) bool {
	n := DiskName(name)
	return n != "" && (n == DiskName(d.Serial) || n == DiskName(d.WWID))
}

// IsAny reports whether one of several names names a disk.
func (d Disk) IsAny(names []string) bool {
	for _, n := range names {
		if d.Is(n) {
			return true
		}
	}
	return false
}

// Title names a disk for people.
func (d Disk) Title() string {
	switch {
	case d.Serial != "" && d.WWID != "":
		return fmt.Sprintf("%s (serial number %q, WWID %q)", d.Path, d.Serial, d.WWID)
	case d.WWID != "":
		return fmt.Sprintf("%s (no serial number, WWID %q)", d.Path, d.WWID)
	case d.Serial != "":
		return fmt.Sprintf("%s (serial number %q)", d.Path, d.Serial)
	}
	return d.Path + " (neither serial number nor WWID: it can't be named)"
}

// DiskName returns a serial number or WWID in the form for comparisons: lsblk and udev write "0x5000c500a1b2c3d4" and "wwn-0x5000c500a1b2c3d4"
// for the kernel's "naa.5000c500a1b2c3d4", and underscores for blanks.
func DiskName(name string) string {
	n := strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == ' ' || r == '\t' || r == '_' }), " ")
	for _, prefix := range []string{"/dev/disk/by-id/", "wwn-", "nvme-eui.", "naa.", "eui.", "uuid.", "0x"} {
		n = strings.TrimPrefix(n, prefix)
	}
	return n
}

// Distinct reports whether a WWID can identify a disk: some firmware reports zeros, or one repeated digit.
func Distinct(wwid string) bool {
	n := DiskName(wwid)
	return strings.Trim(n, "0-. ") != "" && strings.Trim(n, n[:1]+"-. ") != ""
}

// Missing returns the names that no disk has, in their order.
func Missing(disks []Disk, names ...string) (missing []string) {
	for _, name := range names {
		found := name == ""
		for _, d := range disks {
			found = found || d.Is(name)
		}
		if !found {
			missing = append(missing, name)
		}
	}
	return missing
}

// DiskTitles names all disks for people.
func DiskTitles(disks []Disk) string {
	if len(disks) == 0 {
		return "none"
	}
	all := make([]string, 0, len(disks))
	for _, d := range disks {
		title := d.Title()
		if len(d.Holds) > 0 {
			title += ", which holds " + strings.Join(d.Holds, ", ")
		}
		all = append(all, title)
	}
	return strings.Join(all, ", ")
}

// Consents reports whether one of the names names this disk and no other.
func Consents(all []Disk, d Disk, names []string) bool {
	for _, n := range names {
		if d.Is(n) && count(all, n) == 1 {
			return true
		}
	}
	return false
}

// Ambiguous describes names that name this disk and others, so that they don't count as consent; empty if there are none.
func Ambiguous(all []Disk, d Disk, names []string) string {
	for _, n := range names {
		if c := count(all, n); d.Is(n) && c > 1 {
			return fmt.Sprintf(" (%d disks have the serial number %s: name this one by its WWID)", c, n)
		}
	}
	return ""
}

// count returns the number of disks that a name names.
func count(all []Disk, name string) (n int) {
	for _, d := range all {
		if d.Is(name) {
			n++
		}
	}
	return n
}

// Contents of a disk that Naupegos has installed, or partly installed: it may be installed again without consent.
const (
	Ours       = "naupegos"
	Unfinished = "an unfinished installation"
)
