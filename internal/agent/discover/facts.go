// Package discover runs on a machine that the server does not know yet: it examines the machine, creates a key, reports both to the server, and waits
// until an operator approves the machine.
//
// It shares only the body of a discovery with the server. It changes nothing on the machine except its clock, and the clock only on request.
package discover

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/disks"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// Look collects the kernel's facts about the machine. boot is the MAC address of the boot interface; empty: that of the interface with the default
// route. Listen finds the neighbours.
func Look(root host.Root, boot string) (*facts.Discovery, error) {
	const at = "/sys/class/dmi/id/product_uuid"
	said := root.Read(at)
	uuid, err := facts.ParseUUID(said)
	switch {
	case said == "":
		return nil, fail.New(fail.Refused, "the machine's UUID can't be read").At(at).Do("the agent has to run as root, on a machine with SMBIOS")
	case err != nil:
		return nil, fail.Wrap(fail.Refused, err, "read the machine's UUID").At(at) // err has the hint
	}
	d := &facts.Discovery{Boot: facts.BootInfo{UUID: uuid, RandomID: root.Read("/proc/sys/kernel/random/boot_id")},
		LLDP: facts.LLDP{Data: facts.LLDPData{Interfaces: []facts.Neighbour{}}}, Journal: []string{}}
	if d.Interfaces, err = interfaces(root); err != nil {
		return nil, err
	}
	if d.Boot.MAC, err = bootMAC(root, d.Interfaces, boot); err != nil {
		return nil, err
	}
	d.Disks, d.System = disks.List(root), system(root)
	return d, nil
}

// bootMAC returns the MAC address of the boot interface: from the kernel's arguments (BOOTIF, as pxelinux and iPXE write it), else that of the
// interface with the default route.
func bootMAC(root host.Root, all []facts.Interface, said string) (string, error) {
	for word := range strings.FieldsSeq(root.Read("/proc/cmdline")) {
		if v, ok := strings.CutPrefix(word, "BOOTIF="); ok && said == "" {
			said = strings.TrimPrefix(v, "01-") // hardware type: Ethernet
		}
	}
	if said != "" {
		return facts.ParseMAC(said)
	}
	for _, i := range all {
		if mac, err := facts.ParseMAC(cmp.Or(i.Permanent, i.MAC)); err == nil && i.Gateway != "" {
			return mac, nil
		}
	}
	return "", fail.New(fail.NotReady, "no network card leads to a default route, and the card that the machine has booted by is not named").
		Do("name it by its address: --mac ADDRESS, or BOOTIF=01-${mac:hexhyp} among the kernel's arguments")
}

func address(i *facts.Interface, a net.Addr) {
	n, ok := a.(*net.IPNet)
	if !ok {
		return
	}
	i.Addresses = append(i.Addresses, n.String())
	if i.IPv4 == "" && n.IP.To4() != nil {
		i.IPv4, i.CIDRv4 = n.IP.String(), n.String()
		i.Netmask, _ = n.Mask.Size()
	}
}

// defaultGateways reads /proc/net/route, which has addresses in the host's byte order.
func defaultGateways(routes string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(routes) {
		f := strings.Fields(line)
		if len(f) < 8 || f[1] != "00000000" || f[7] != "00000000" || f[2] == "00000000" {
			continue
		}
		if n, err := strconv.ParseUint(f[2], 16, 32); err == nil {
			out[f[0]] = net.IP(binary.NativeEndian.AppendUint32(nil, uint32(n))).String()
		}
	}
	return out
}

// defaultGateways6 reads /proc/net/ipv6_route, which has addresses as hexadecimal digits in network byte order.
func defaultGateways6(routes string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(routes) {
		f := strings.Fields(line)
		if len(f) < 10 || strings.Trim(f[0]+f[1], "0") != "" || strings.Trim(f[4], "0") == "" {
			continue
		}
		if raw, err := hex.DecodeString(f[4]); err == nil && len(raw) == net.IPv6len {
			out[f[9]] = net.IP(raw).String()
		}
	}
	return out
}

// system collects the facts about the machine as a whole.
func system(root host.Root) *facts.System {
	dmi := func(name string) string { return root.Read("/sys/class/dmi/id/" + name) }
	s := &facts.System{Manufacturer: dmi("sys_vendor"), Product: dmi("product_name"), Serial: dmi("product_serial"), Firmware: "bios", CPUs: runtime.NumCPU(),
		Kernel: strings.TrimPrefix(host.ModulesDir(), "/lib/modules/"), Architecture: runtime.GOARCH}
	if host.IsDir(root.Path("/sys/firmware/efi")) {
		s.Firmware = "efi"
	}
	for line := range strings.Lines(root.Read("/proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			s.CPU = strings.TrimSpace(value)
			break
		}
	}
	for line := range strings.Lines(root.Read("/proc/meminfo")) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64) // the kernel writes digits
			s.MemoryBytes = kib << 10
		}
	}
	if found, _ := filepath.Glob(root.Path("/sys/class/ipmi/ipmi*")); len(found) > 0 {
		s.BMC = "/dev/" + filepath.Base(slices.Min(found))
	}
	return s
}
