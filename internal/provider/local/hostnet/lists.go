package hostnet

import (
	"errors"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// dumpAttempts bounds the attempts to read a list that keeps changing while the kernel sends it.
const dumpAttempts = 50

// whole repeats list until its result is consistent: other clusters' links and addresses may change while the kernel sends the list.
func whole[T any](list func() ([]T, error)) (out []T, err error) {
	for range dumpAttempts {
		if out, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
	return nil, err
}

// Subnets lists the networks that the host routes to or has addresses in, except those on the given bridge.
func Subnets(bridge string) ([]netip.Prefix, error) {
	var used []netip.Prefix
	ownIndex := -1
	if l, err := netlink.LinkByName(bridge); err == nil {
		ownIndex = l.Attrs().Index
	}
	routes, err := whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, err
	}
	for _, r := range routes {
		if r.Dst == nil || r.LinkIndex == ownIndex {
			continue
		}
		if a, ok := netip.AddrFromSlice(r.Dst.IP.To4()); ok {
			bits, _ := r.Dst.Mask.Size()
			used = append(used, netip.PrefixFrom(a, bits))
		}
	}
	addrs, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP.To4()); ok && a.LinkIndex != ownIndex {
			bits, _ := a.Mask.Size()
			used = append(used, netip.PrefixFrom(ip, bits).Masked())
		}
	}
	return used, nil
}

// Bridges lists the names of the host's bridges.
func Bridges() ([]string, error) {
	links, err := whole(netlink.LinkList)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, l := range links {
		if l.Type() == "bridge" {
			out = append(out, l.Attrs().Name)
		}
	}
	return out, nil
}
