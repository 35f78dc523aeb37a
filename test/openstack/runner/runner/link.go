package runner

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// ensureOutside gives this host an address in every external network, as a cloud's router has, so that packets for floating IPs have a route and
// a source. The addresses are on a link of their own: an empty bridge, because not every kernel has dummy links. Networks to which the host has a
// route already are skipped and returned.
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

// routed reports whether a route other than the default route leads to prefix over a link other than own.
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

// setVIPs sets the bridge's addresses to exactly vips and keep, the bridge's own address. It ignores a bridge that no longer exists.
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

// setAddresses adds the missing addresses of want to a link and removes those in neither want nor keep.
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

// whole calls list until the kernel returns a consistent result, at most 50 times.
func whole[T any](list func() ([]T, error)) (out []T, err error) {
	for range 50 {
		if out, err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return out, err
		}
	}
	return nil, err
}
