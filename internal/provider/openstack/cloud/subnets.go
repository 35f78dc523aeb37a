package cloud

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
)

// Room counts the allocatable addresses of a subnet.
func Room(sub subnets.Subnet) int {
	n := 0
	for _, p := range sub.AllocationPools {
		first, err1 := netip.ParseAddr(p.Start)
		last, err2 := netip.ParseAddr(p.End)
		if err1 == nil && err2 == nil && first.Is4() && last.Is4() {
			a, b := first.As4(), last.As4()
			n += int(binary.BigEndian.Uint32(b[:])) - int(binary.BigEndian.Uint32(a[:])) + 1
		}
	}
	return n
}

// Taken counts the allocatable addresses of a subnet that ports have. Of a network of another project only the own ports are seen.
func (c *Cloud) Taken(ctx context.Context, sub subnets.Subnet) (n int, err error) {
	all, err := Pages(ctx, ports.List(c.Network, ports.ListOpts{NetworkID: sub.NetworkID}), ports.ExtractPorts)
	if err != nil {
		return 0, Wrap(err, "count the addresses of subnet %s that are in use", sub.Name)
	}
	for _, o := range all {
		for _, ip := range o.FixedIPs {
			a, err := netip.ParseAddr(ip.IPAddress)
			if err != nil || ip.SubnetID != sub.ID {
				continue
			}
			if slices.ContainsFunc(sub.AllocationPools, func(p subnets.AllocationPool) bool {
				first, err1 := netip.ParseAddr(p.Start)
				last, err2 := netip.ParseAddr(p.End)
				return err1 == nil && err2 == nil && a.Compare(first) >= 0 && a.Compare(last) <= 0
			}) {
				n++
			}
		}
	}
	return n, nil
}

// Beside says which ranges, named by the document's fields, overlap subnets that a router connects already: Neutron would refuse the cluster's own once
// it is made. ours are the cluster's subnets. Subnets that the cloud does not show are not compared.
func (c *Cloud) Beside(ctx context.Context, router string, ranges [][2]string, ours []subnets.Subnet) (found []string, err error) {
	at, err := Pages(ctx, ports.List(c.Network, ports.ListOpts{DeviceID: router}), ports.ExtractPorts)
	if err != nil {
		return nil, Wrap(err, "look at the networks of router %s", router)
	}
	var ids []string
	for _, o := range at {
		for _, ip := range o.FixedIPs {
			if !strings.HasSuffix(o.DeviceOwner, "router_gateway") && !slices.ContainsFunc(ours, func(s subnets.Subnet) bool { return s.ID == ip.SubnetID }) {
				ids = append(ids, ip.SubnetID)
			}
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		sub, err := subnets.Get(ctx, c.Network, id).Extract()
		if Untold(err) {
			continue
		}
		if err != nil {
			return nil, Wrap(err, "look at subnet %s of router %s", id, router)
		}
		theirs, err := netip.ParsePrefix(sub.CIDR)
		for _, r := range ranges {
			if p, wrong := netip.ParsePrefix(r[1]); err == nil && wrong == nil && p.Overlaps(theirs) {
				found = append(found, fmt.Sprintf("%s (%s) overlaps subnet %s (%s)", r[0], p, sub.Name, theirs))
			}
		}
	}
	return found, nil
}
