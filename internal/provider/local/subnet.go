package local

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/vishvananda/netlink"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/local/files"
)

// networkRecord is what network.json remembers of a cluster's network.
type networkRecord struct {
	Subnet netip.Prefix `json:"subnet"`
	Bridge string       `json:"bridge"`
	Table  string       `json:"table"` // of nftables, family inet
}

// chooseSubnet returns the first of 10.77.0.0/24 … 10.77.255.0/24 that overlaps none of used. It begins at a place that
// depends on the cluster, so that two clusters planned at the same moment hardly ever choose the same.
func chooseSubnet(short string, used []netip.Prefix) (netip.Prefix, error) {
	start, err := strconv.ParseUint(short[:2], 16, 8)
	if err != nil {
		return netip.Prefix{}, err
	}
	for i := range uint64(256) {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, byte(start + i), 0}), 24)
		if overlapping(p, used) == nil {
			return p, nil
		}
	}
	return netip.Prefix{}, fail.New(fail.Refused, "no free subnet in 10.77.0.0/16").Do("set the local provider's cidr in the document")
}

func overlapping(p netip.Prefix, used []netip.Prefix) *netip.Prefix {
	for _, u := range used {
		if u.Bits() > 0 && u.Overlaps(p) {
			return &u
		}
	}
	return nil
}

// usedSubnets lists the networks that the host routes to or has addresses in, and those of other clusters' records.
// What lies on the cluster's own bridge does not count.
func (p *Provider) usedSubnets() ([]netip.Prefix, error) {
	used, err := p.recordedSubnets()
	if err != nil {
		return nil, err
	}
	ownIndex := -1
	if l, err := netlink.LinkByName(p.n.bridge()); err == nil {
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

// recordedSubnets lists the subnets of all other clusters of all state roots.
func (p *Provider) recordedSubnets() ([]netip.Prefix, error) {
	recorded, err := p.inRoots(filepath.Base(p.n.network()))
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, f := range recorded {
		var r networkRecord
		if err := files.ReadJSON(f, &r); err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrPermission) {
				continue
			}
			return nil, err
		}
		if r.Bridge != p.n.bridge() {
			out = append(out, r.Subnet)
		}
	}
	return out, nil
}
