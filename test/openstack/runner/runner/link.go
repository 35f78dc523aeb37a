package runner

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// ensureOutside gives this host an address in every external network, on a link of its own (a bridge with nothing on it:
// not every kernel has dummy links), as the machine that routes for a cloud has: packets for floating IPs then have a route and a source whatever else this host is connected to. A network
// that the host has a route to already is left alone and told.
func ensureOutside(link string, nets []subnet) (skipped []netip.Prefix, err error) {
	l, err := netlink.LinkByName(link)
	if notFound(err) {
		if err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: link}}); err == nil {
			l, err = netlink.LinkByName(link)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make link %s: %w", link, err)
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return nil, fmt.Errorf("switch on link %s: %w", link, err)
	}
	var want []netip.Prefix
	for _, n := range nets {
		taken, err := routed(n.Prefix, l.Attrs().Index)
		switch {
		case err != nil:
			return nil, err
		case taken:
			skipped = append(skipped, n.Prefix)
		case n.Gateway.IsValid():
			want = append(want, netip.PrefixFrom(n.Gateway, n.Prefix.Bits()))
		default:
			want = append(want, netip.PrefixFrom(n.Prefix.Addr().Next(), n.Prefix.Bits()))
		}
	}
	return skipped, setAddresses(l, want, nil)
}

// routed reports whether another link than own leads into prefix, other than by a default route.
func routed(prefix netip.Prefix, own int) (bool, error) {
	routes, err := whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return false, err
	}
	for _, r := range routes {
		if r.Dst == nil || r.LinkIndex == own {
			continue
		}
		bits, _ := r.Dst.Mask.Size()
		if a, ok := netip.AddrFromSlice(r.Dst.IP.To4()); ok && bits > 0 && netip.PrefixFrom(a, bits).Overlaps(prefix) {
			return true, nil
		}
	}
	return false, nil
}

// setVIPs makes the bridge carry exactly the given addresses beside keep, its own. A bridge that is gone carries none.
func setVIPs(bridge string, keep netip.Prefix, vips []netip.Addr) error {
	l, err := netlink.LinkByName(bridge)
	if notFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", bridge, err)
	}
	var want []netip.Prefix
	for _, v := range vips {
		want = append(want, netip.PrefixFrom(v, 32))
	}
	return setAddresses(l, want, []netip.Prefix{keep})
}

// setAddresses adds what is missing of want to a link and removes what is neither in want nor in keep.
func setAddresses(l netlink.Link, want, keep []netip.Prefix) error {
	have, err := whole(func() ([]netlink.Addr, error) { return netlink.AddrList(l, netlink.FAMILY_V4) })
	if err != nil {
		return err
	}
	var present []netip.Prefix
	for _, a := range have {
		ip, ok := netip.AddrFromSlice(a.IP.To4())
		bits, _ := a.Mask.Size()
		p := netip.PrefixFrom(ip, bits)
		if !ok || slices.Contains(want, p) || slices.Contains(keep, p) {
			present = append(present, p)
			continue
		}
		if err := netlink.AddrDel(l, &a); err != nil {
			return fmt.Errorf("take %s off %s: %w", p, l.Attrs().Name, err)
		}
	}
	for _, p := range want {
		if slices.Contains(present, p) {
			continue
		}
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}}
		if err := netlink.AddrReplace(l, addr); err != nil {
			return fmt.Errorf("give %s to %s: %w", p, l.Attrs().Name, err)
		}
	}
	return nil
}

func removeLink(name string) error {
	l, err := netlink.LinkByName(name)
	if notFound(err) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(l)
	}
	if err != nil {
		return fmt.Errorf("remove link %s: %w", name, err)
	}
	return nil
}

func notFound(err error) bool {
	var nf netlink.LinkNotFoundError
	return errors.As(err, &nf)
}

// whole returns what list returns once nothing changed while the kernel told it; asked at most 50 times.
func whole[T any](list func() ([]T, error)) (out []T, err error) {
	for range 50 {
		if out, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
	return nil, err
}
