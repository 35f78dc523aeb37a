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

// EnsureBridge makes the cluster's bridge with the host's address on it, writes on it whose it is, and switches it on.
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
	// One that was not set by hand is the lowest of the links' on the bridge, and changes when that machine goes: the others would send to
	// the former one until they ask again, half a minute later.
	if err := netlink.LinkSetHardwareAddr(l, l.Attrs().HardwareAddr); err != nil {
		return fmt.Errorf("have bridge %s keep its hardware address: %w", name, err)
	}
	if err := netlink.AddrReplace(l, bridgeAddress(subnet)); err != nil {
		return fmt.Errorf("give bridge %s its address: %w", name, err)
	}
	// A machine that is booting is asked for its hardware address ten times a second, not once: this is what waiting for
	// its SSH server mostly waits for.
	if err := files.Set(files.ProcSys, "net/ipv4/neigh/"+name+"/retrans_time_ms", "100"); err != nil {
		return fmt.Errorf("hasten address resolution on %s: %w", name, err)
	}
	return netlink.LinkSetUp(l)
}

// OwnerOf returns whose a bridge is; empty where there is none, or it does not say.
func OwnerOf(name string) (string, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return "", ignoreLinkGone(err)
	}
	return l.Attrs().Alias, nil
}

// BridgeReady reports whether the bridge is there, up, and has the host's address.
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

// AttachLink puts a machine's host end on the bridge and switches it on. NotFound(err) tells that the link is not there (yet).
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

// RemoveLink removes a link; one that is gone is as good.
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

// NotFound reports whether err says that there is no such link.
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
