package facts

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"

	"github.com/naupegos/naupegos/internal/fail"
)

// normalInterfaces checks interfaces. Only the address that the machine has booted by has to be a good one: those of others may be of InfiniBand, of
// virtual functions without one, or no address at all, and are left out.
func (d *Discovery) normalInterfaces() error {
	seen := map[string]string{}
	for i := range d.Interfaces {
		n := &d.Interfaces[i]
		cleanAll(&n.Name, &n.MAC, &n.IPv4, &n.CIDRv4, &n.Gateway, &n.Driver, &n.Bus, &n.Permanent)
		n.FQDN, n.Addresses = cleanList(n.FQDN, 16, maxText), cleanList(n.Addresses, 64, maxText)
		n.Ignored = ""
		n.Permanent, _ = ParseMAC(n.Permanent) // one that is none is not permanent
		d.normalMAC(n, seen)
		if err := n.normalAddresses(n.is(d.Boot.MAC)); err != nil {
			return err
		}
		if n.Ignored == "" && !n.is(d.Boot.MAC) {
			n.Ignored = n.notOwn()
		}
	}
	return nil
}

// normalMAC puts an address into its one form. One that is no Ethernet address, or that another interface has, is left out.
func (d *Discovery) normalMAC(n *Interface, seen map[string]string) {
	if n.MAC == "" { // tunnels have none
		return
	}
	mac, err := ParseMAC(n.MAC)
	other, twice := seen[mac]
	switch {
	case err != nil:
		n.MAC, n.Ignored = "", fmt.Sprintf("%q is no MAC address of Ethernet", clean(n.MAC, 64))
	case twice: // a bond and its parts, a VLAN
		n.MAC = ""
		if n.Permanent == "" {
			n.Ignored = "it has the MAC address of " + other
		}
	default:
		n.MAC, seen[mac] = mac, n.Name
	}
}

// normalAddresses checks IP addresses. What is none is refused only where the machine booted.
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

// is reports whether an interface has an address, or was made with it.
func (i *Interface) is(mac string) bool { return mac != "" && (i.MAC == mac || i.Permanent == mac) }

// virtualNames are those of interfaces that exist only in a kernel. Reports of the older system say no more than the name.
var virtualNames = regexp.MustCompile(`^(lo|bond|team|br|virbr|docker|cni|cali|cilium|flannel|kube|vxlan|veth|dummy|tun|tap|wg|macvlan|ipvlan|usb|cdc|wwan|ib)[-_]?\w*$|[.@:]`)

// notOwn says why an interface's address does not identify the machine; empty if it does.
func (i *Interface) notOwn() string {
	switch {
	case i.Bus == "usb":
		return "it is on USB: BMCs show every server the same card"
	case i.Virtual:
		return "it is a virtual function"
	case i.Bus != "" && i.Permanent == "":
		return "the card has no permanent MAC address"
	case i.Bus == "" && virtualNames.MatchString(i.Name):
		return "it is virtual"
	}
	return ""
}

// own is the address by which an interface identifies the machine; empty if there is none.
func (i *Interface) own() string {
	switch {
	case i.Ignored != "":
		return ""
	case i.Permanent != "":
		return i.Permanent
	}
	return i.MAC
}

// BootInterface returns the interface that the machine has booted by; nil if it names none of that MAC address.
func (d *Discovery) BootInterface() *Interface {
	for i := range d.Interfaces {
		if d.Interfaces[i].is(d.Boot.MAC) {
			return &d.Interfaces[i]
		}
	}
	return nil
}

// MACs returns the MAC addresses that identify the machine, the one that it has booted by first.
func (d *Discovery) MACs() []string {
	all := []string{d.Boot.MAC}
	for i := range d.Interfaces {
		if mac := d.Interfaces[i].own(); mac != "" && !slices.Contains(all, mac) {
			all = append(all, mac)
		}
	}
	return all
}

// Share marks the interface of an address that another machine has, too, so that it identifies neither. The boot interface's is never marked.
func (d *Discovery) Share(mac, other string) {
	for i := range d.Interfaces {
		if n := &d.Interfaces[i]; n.own() == mac && mac != d.Boot.MAC {
			n.Ignored = "the machine " + other + " has the same MAC address"
		}
	}
}
