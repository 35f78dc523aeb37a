package facts

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
)

// normalInterfaces checks interfaces. Only the boot interface must have a valid address: others may be InfiniBand, virtual functions without an
// address, or invalid, and are left out.
func (d *Discovery) normalInterfaces() error {
	seen := map[string]string{}
	for i := range d.Interfaces {
		n := &d.Interfaces[i]
		cleanAll(&n.Name, &n.MAC, &n.IPv4, &n.CIDRv4, &n.Gateway, &n.Driver, &n.Bus, &n.Permanent)
		n.FQDN, n.Addresses = cleanList(n.FQDN, 16, maxText), cleanList(n.Addresses, 64, maxText)
		n.Ignored = ""
		n.Permanent, _ = ParseMAC(n.Permanent) // an invalid address is dropped
		d.normalMAC(n, seen)
		if err := n.normalAddresses(n.is(d.Boot.MAC)); err != nil {
			return err
		}
		if n.Ignored == "" && !n.is(d.Boot.MAC) {
			n.Ignored = n.notOwn()
		}
	}
	d.countFunctions()
	return nil
}

// mostFunctions is the number of virtual functions up to which each is kept.
const mostFunctions = 16

// countFunctions keeps of many virtual functions only their number: they identify nothing, and a machine may have a thousand.
func (d *Discovery) countFunctions() {
	function := func(i Interface) bool { return i.Virtual && !i.is(d.Boot.MAC) }
	n := 0
	for _, i := range d.Interfaces {
		if function(i) {
			n++
		}
	}
	if d.VirtualFunctions = n; n > mostFunctions {
		d.Interfaces = slices.DeleteFunc(d.Interfaces, function)
	}
}

// normalMAC normalizes an address. It drops an address that is not an Ethernet address, or that another interface has.
func (d *Discovery) normalMAC(n *Interface, seen map[string]string) {
	if n.MAC == "" { // tunnels have none
		return
	}
	mac, err := ParseMAC(n.MAC)
	other, twice := seen[mac]
	switch {
	case err != nil:
		n.MAC, n.Ignored = "", fmt.Sprintf("%q is no MAC address of Ethernet", clean(n.MAC, 64))
	case twice: // a bond and its parts, or a VLAN
		n.MAC = ""
		if n.Permanent == "" {
			n.Ignored = "it has the MAC address of " + other
		}
	default:
		n.MAC, seen[mac] = mac, n.Name
	}
}

// normalAddresses checks IP addresses. An invalid one is an error only on the boot interface.
func (i *Interface) normalAddresses(booted bool) error {
	if a, err := netip.ParseAddr(i.IPv4); i.IPv4 != "" && (err != nil || !a.Is4()) {
		if booted {
			return fail.New(fail.Invalid, "the interface %s has no IPv4 address: %q", i.Name, i.IPv4)
		}
		i.IPv4 = ""
	}
	if _, err := netip.ParsePrefix(i.CIDRv4); i.CIDRv4 != "" && err != nil {
		if booted {
			return fail.New(fail.Invalid, "the interface %s has no network: %q", i.Name, i.CIDRv4)
		}
		i.CIDRv4 = ""
	}
	return nil
}

// is reports whether an interface has an address, or has it built in.
func (i *Interface) is(mac string) bool { return mac != "" && (i.MAC == mac || i.Permanent == mac) }

// virtualNames matches interfaces that exist only in a kernel. Reports of the older system contain only the name.
var virtualNames = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(lo|bond|team|br|virbr|docker|cni|cali|cilium|flannel|kube|vxlan|veth|dummy|tun|tap|wg|macvlan|ipvlan|usb|cdc|wwan|ib)[-_]?\w*$|[.@:]`)
})

// notOwn says why an interface's address does not identify the machine; empty if it does.
func (i *Interface) notOwn() string {
	switch {
	case i.Bus == "usb":
		return "it is on USB: BMCs show every server the same card"
	case i.Virtual:
		return "it is a virtual function"
	case i.Bus != "" && i.Permanent == "":
		return "the card has no permanent MAC address"
	case i.Bus == "" && virtualNames().MatchString(i.Name):
		return "it is virtual"
	}
	return ""
}

// own returns the address by which an interface identifies the machine, or "".
func (i *Interface) own() string {
	switch {
	case i.Ignored != "":
		return ""
	case i.Permanent != "":
		return i.Permanent
	}
	return i.MAC
}

// BootInterface returns the interface that the machine has booted by, or nil.
func (d *Discovery) BootInterface() *Interface {
	for i := range d.Interfaces {
		if d.Interfaces[i].is(d.Boot.MAC) {
			return &d.Interfaces[i]
		}
	}
	return nil
}

// MACs returns the MAC addresses that identify the machine, the boot interface's first.
func (d *Discovery) MACs() []string {
	all := []string{d.Boot.MAC}
	for i := range d.Interfaces {
		if mac := d.Interfaces[i].own(); mac != "" && !slices.Contains(all, mac) {
			all = append(all, mac)
		}
	}
	return all
}

// Share marks an interface with an address that another machine has, too, so that it identifies neither. It never marks the boot interface.
func (d *Discovery) Share(mac, other string) {
	for i := range d.Interfaces {
		if n := &d.Interfaces[i]; n.own() == mac && mac != d.Boot.MAC {
			n.Ignored = "the machine " + other + " has the same MAC address"
		}
	}
}
