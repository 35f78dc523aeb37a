package order

import (
	"net"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/naupegos/naupegos/internal/fail"
)

var (
	uuidForm  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`) })
	hostForm  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) })
	sumForm   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })
	pathForm  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/[A-Za-z0-9._+/-]+$`) })
	groupForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9.-]{0,64}$`) })
)

// Limits of an order.
const (
	maxImage = int64(1) << 40 // of a slot
	maxList  = 256
	maxPool  = 1000 // data disks of a pool of machines
	maxLine  = 16 << 10
	minTrial = 30
	maxTrial = 24 * 60 * 60
)

// Check refuses an order that no machine can execute: fail.Invalid, which names the first mistake.
func (o *Order) Check() error {
	wrong := func(format string, a ...any) error { return fail.New(fail.Invalid, format, a...).At(o.UUID) }
	switch {
	case o.Schema != Schema:
		return fail.New(fail.Invalid, "the installation order is of version %d, and this program knows %d", o.Schema, Schema).Do("use server and discovery image of the same version of naupegos")
	case !uuidForm().MatchString(o.UUID):
		return fail.New(fail.Invalid, "the installation order names no machine")
	case !hostForm().MatchString(o.Hostname):
		return wrong("%q is not a host name", o.Hostname)
	case !strings.HasPrefix(o.System.ID, "sha256:") || !sumForm().MatchString(o.System.ID[7:]):
		return wrong("the system has no ID")
	case len(o.Data) > maxList || len(o.Elsewhere) > maxPool || len(o.Disk.Consent) > maxList || len(o.SSHKeys) > maxList || len(o.Network) > maxList:
		return wrong("a list has more than %d entries", maxList)
	case o.Disk.Serial != "" && slices.ContainsFunc(o.Data, func(d string) bool { return strings.EqualFold(d, o.Disk.Serial) }):
		return wrong("the disk with the serial number %s is to be the system's, and is a data disk, which is never touched", o.Disk.Serial)
	case o.Disk.MinBytes < 0 || o.Disk.SlotBytes < 0 || o.Disk.SlotBytes > maxImage:
		return wrong("a size on the disk is below zero, or more than 1 TiB for a slot")
	case !slices.Contains([]string{"", Reboot, Kexec, Poweroff}, o.First):
		return wrong("a machine begins by %s, %s or %s, not by %q", Reboot, Kexec, Poweroff, o.First)
	case !groupForm().MatchString(o.Group):
		return wrong("%q is not a group of machines", o.Group)
	case o.TrialSeconds != 0 && (o.TrialSeconds < minTrial || o.TrialSeconds > maxTrial):
		return wrong("a system is tried for %d to %d seconds, not %d", minTrial, maxTrial, o.TrialSeconds)
	}
	for _, list := range [][]string{o.Data, o.Elsewhere, o.Disk.Consent, o.SSHKeys} {
		for _, line := range list {
			if line == "" || len(line) > maxLine || strings.ContainsFunc(line, unicode.IsControl) {
				return wrong("%q is not a single line of text", line)
			}
		}
	}
	for name, b := range map[string]Blob{"root": o.System.Root, "head": o.System.Head} {
		if err := b.check(); err != nil {
			return fail.Wrap(fail.Invalid, err, "the system's %s", name).At(o.UUID)
		}
	}
	for _, n := range o.Network {
		if err := n.check(); err != nil {
			return fail.Wrap(fail.Invalid, err, "the network").At(o.UUID)
		}
	}
	return nil
}

func (b Blob) check() error {
	switch {
	case len(b.Path) > 400 || !pathForm().MatchString(b.Path) || path.Clean(b.Path) != b.Path:
		return fail.New(fail.Invalid, "%q is not a path on the server", b.Path)
	case !sumForm().MatchString(b.SHA256) || !sumForm().MatchString(b.RawSHA256):
		return fail.New(fail.Invalid, "a checksum is missing")
	case b.Size <= 0 || b.RawSize <= 0 || b.RawSize > maxImage || b.Size > maxImage:
		return fail.New(fail.Invalid, "a size is missing, or more than 1 TiB")
	}
	return nil
}

func (i Interface) check() error {
	if _, err := net.ParseMAC(i.MAC); err != nil {
		return fail.New(fail.Invalid, "%q is no MAC address", i.MAC) // cause withheld: it repeats the value as it is
	}
	if len(i.Addresses) == 0 {
		return fail.New(fail.Invalid, "the interface %s has no address", i.MAC).Do("leave the interface out if DHCP configures it")
	}
	for _, a := range i.Addresses {
		if _, err := netip.ParsePrefix(a); err != nil {
			return fail.Wrap(fail.Invalid, err, "%q is not an address with a prefix length", a)
		}
	}
	for _, a := range append(slices.Clone(i.DNS), i.Gateway) {
		if ip, err := netip.ParseAddr(a); a != "" && (err != nil || ip.Zone() != "") {
			return fail.New(fail.Invalid, "%q is not an address", a)
		}
	}
	return nil
}
