package address

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

// Host numbers within the subnet. hostRange defines those of machines.
const (
	ThisHost = 1  // the bridge, which is the machines' gateway
	VIP      = 10 // the virtual address for gateways
)

// hostRange returns the first and last host number for machines of a role in subnet.
func hostRange(role provider.Role, subnet netip.Prefix) (first, last uint32) {
	switch role {
	case provider.Gateway:
		return 11, 20
	case provider.ControlPlane:
		return 21, 100
	default:
		return 101, 1<<(32-subnet.Bits()) - 2
	}
}

// Nth returns the address of host number n in subnet.
func Nth(subnet netip.Prefix, n uint32) netip.Addr {
	base := subnet.Masked().Addr().As4()
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(base[:])+n)
	return netip.AddrFrom4(b)
}

// Number returns the host number of a in subnet; it is the inverse of Nth.
func Number(subnet netip.Prefix, a netip.Addr) uint32 {
	base, addr := subnet.Masked().Addr().As4(), a.As4()
	return binary.BigEndian.Uint32(addr[:]) - binary.BigEndian.Uint32(base[:])
}

// allocate returns the lowest host number for role that is not in taken, and adds it to taken.
func allocate(role provider.Role, subnet netip.Prefix, taken map[uint32]bool) (uint32, error) {
	first, last := hostRange(role, subnet)
	for n := first; n <= last; n++ {
		if !taken[n] {
			taken[n] = true
			return n, nil
		}
	}
	return 0, fail.New(fail.Refused, "no address left for a %s machine: %s holds %d of them", role, subnet, last-first+1).
		Do("use a larger provider CIDR (up to /16) or fewer machines")
}

// Place returns the host number of the address that spec requests, or else an allocated number, and adds it to taken.
// It is for new machines only: an existing machine keeps its address.
func Place(spec provider.MachineSpec, subnet netip.Prefix, taken map[uint32]bool) (uint32, error) {
	if spec.Address == "" {
		return allocate(spec.Role, subnet, taken)
	}
	addr, err := netip.ParseAddr(spec.Address)
	if err != nil || !addr.Is4() || !subnet.Contains(addr) {
		return 0, fail.New(fail.Invalid, "address %q is not an IPv4 address in %s", spec.Address, subnet).At(spec.Name)
	}
	n := Number(subnet, addr)
	switch {
	case n <= ThisHost || n >= 1<<(32-subnet.Bits())-1:
		return 0, fail.New(fail.Invalid, "address %s can't be a machine's: it is the network's, this host's or the broadcast address of %s", addr, subnet).
			At(spec.Name)
	case taken[n]:
		return 0, fail.New(fail.Conflict, "address %s is another machine's", addr).At(spec.Name)
	}
	taken[n] = true
	return n, nil
}

// ParseSubnet checks a user's CIDR for the machines.
func ParseSubnet(cidr string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(cidr)
	switch {
	case err != nil:
		return p, fail.Wrap(fail.Invalid, err, "local provider's CIDR %q", cidr).Do("write it like 10.77.0.0/24")
	case !p.Addr().Is4() || p.Masked() != p:
		return p, fail.New(fail.Invalid, "local provider's CIDR %q is not an IPv4 network address", cidr).Do("write it like 10.77.0.0/24")
	case p.Bits() < 16 || p.Bits() > 24:
		return p, fail.New(fail.Invalid, "local provider's CIDR %q is not between /16 and /24", cidr)
	case !p.Addr().IsPrivate():
		return p, fail.New(fail.Invalid, "local provider's CIDR %q is not private (RFC 1918)", cidr)
	}
	return p, nil
}

// ChooseSubnet returns the first of 10.77.0.0/24 … 10.77.255.0/24 that overlaps none of used. The search starts at a position
// derived from the cluster's short ID, so that two clusters planned at the same moment rarely choose the same subnet.
func ChooseSubnet(short string, used []netip.Prefix) (netip.Prefix, error) {
	start, err := strconv.ParseUint(short[:2], 16, 8)
	if err != nil {
		return netip.Prefix{}, err
	}
	for i := range uint64(256) {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, byte(start + i), 0}), 24)
		if Overlapping(p, used) == nil {
			return p, nil
		}
	}
	return netip.Prefix{}, fail.New(fail.Refused, "no free subnet in 10.77.0.0/16").Do("set the local provider's cidr in the document")
}

// Overlapping returns the first prefix in used that overlaps p, or nil. It ignores default routes.
func Overlapping(p netip.Prefix, used []netip.Prefix) *netip.Prefix {
	for _, u := range used {
		if u.Bits() > 0 && u.Overlaps(p) {
			return &u
		}
	}
	return nil
}
