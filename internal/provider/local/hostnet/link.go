package hostnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/naupegos/naupegos/internal/provider/local/address"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/vishvananda/netlink"
)

// EnsureBridge makes the cluster's bridge if it is missing, sets its alias to owner, gives it the host's address and switches it on.
func EnsureBridge(name, owner string, subnet netip.Prefix) error {
	l, err := netlink.LinkByName(name)
	if NotFound(err) {
		if err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}); err == nil {
			l, err = netlink.LinkByName(name)
		}
	}
	if err != nil {
		return fmt.Errorf("make bridge %s: %w", name, err)
	}
	if err := netlink.LinkSetAlias(l, owner); err != nil {
		return fmt.Errorf("write on bridge %s whose it is: %w", name, err)
	}
	// Setting the hardware address pins it. Otherwise the bridge takes the lowest address of its links, which changes when that machine
	// goes; the other machines would send to the old address until they resolve it again, half a minute later.
	if err := netlink.LinkSetHardwareAddr(l, l.Attrs().HardwareAddr); err != nil {
		return fmt.Errorf("have bridge %s keep its hardware address: %w", name, err)
	}
	if err := netlink.AddrReplace(l, bridgeAddress(subnet)); err != nil {
		return fmt.Errorf("give bridge %s its address: %w", name, err)
	}
	// Ask a booting machine for its hardware address ten times a second, not once: waiting for its SSH server is mostly
	// waiting for this address.
	if err := files.Set(files.ProcSys, "net/ipv4/neigh/"+name+"/retrans_time_ms", "100"); err != nil {
		return fmt.Errorf("hasten address resolution on %s: %w", name, err)
	}
	return netlink.LinkSetUp(l)
}

// OwnerOf returns a bridge's owner, which is its alias; empty if the bridge is missing or has no alias.
func OwnerOf(name string) (string, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return "", ignoreLinkGone(err)
	}
	return l.Attrs().Alias, nil
}

// BridgeReady reports whether the bridge exists, is up, and has the host's address.
func BridgeReady(name string, subnet netip.Prefix) (bool, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return false, ignoreLinkGone(err)
	}
	addrs, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(l, netlink.FAMILY_V4) })
	if err != nil {
		return false, err
	}
	for _, a := range addrs {
		if a.IPNet.String() == bridgeAddress(subnet).IPNet.String() {
			return l.Attrs().Flags&net.FlagUp != 0, nil
		}
	}
	return false, nil
}

func bridgeAddress(subnet netip.Prefix) *netlink.Addr {
	ip := address.Nth(subnet, address.ThisHost)
	return &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(subnet.Bits(), 32)}}
}

// AttachLink puts the host's end of a machine's link on the bridge and switches it on. NotFound(err) means that the link does not exist (yet).
func AttachLink(link, bridge string) error {
	b, err := netlink.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("find bridge %s: %v", bridge, err) //nolint:errorlint // NotFound(err) is to mean the link
	}
	l, err := netlink.LinkByName(link)
	if err != nil {
		return fmt.Errorf("find link %s: %w", link, err)
	}
	if err := netlink.LinkSetMaster(l, b); err != nil {
		return fmt.Errorf("put link %s on bridge %s: %w", link, bridge, err)
	}
	return netlink.LinkSetUp(l)
}

// Attached reports whether link is on bridge and up.
func Attached(link, bridge string) (bool, error) {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return false, ignoreLinkGone(err)
	}
	b, err := netlink.LinkByName(bridge)
	if err != nil {
		return false, ignoreLinkGone(err)
	}
	return l.Attrs().MasterIndex == b.Attrs().Index && l.Attrs().Flags&net.FlagUp != 0, nil
}

// RemoveLink removes a link, if it exists.
func RemoveLink(name string) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return ignoreLinkGone(err)
	}
	if err := netlink.LinkDel(l); err != nil {
		if _, again := netlink.LinkByName(name); NotFound(again) {
			return nil
		}
		return fmt.Errorf("remove link %s: %w", name, err)
	}
	return nil
}

// LinksOf lists the host's links whose names begin with prefix.
func LinksOf(prefix string) ([]string, error) {
	links, err := whole(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, prefix) {
			out = append(out, l.Attrs().Name)
		}
	}
	return out, nil
}

// NotFound reports whether err means that a link does not exist.
func NotFound(err error) bool {
	var nf netlink.LinkNotFoundError
	return errors.As(err, &nf)
}

func ignoreLinkGone(err error) error {
	if NotFound(err) {
		return nil
	}
	return err
}
