package discover

import (
	"encoding/binary"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// interfaces lists the kernel's network cards, without loopback, bridges, bonds, VLANs and tunnels.
func interfaces(root host.Root) ([]facts.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "list the network interfaces")
	}
	permanent, err := permanentAddresses()
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "ask for the permanent addresses of network interfaces")
	}
	out := []facts.Interface{}
	for _, n := range all {
		i, ok := card(root, n.Name)
		if !ok {
			continue
		}
		i.MAC = n.HardwareAddr.String()
		if root.Read("/sys/class/net/"+n.Name+"/addr_assign_type") != randomAddress {
			i.Permanent = permanent[n.Index]
		}
		addresses, _ := n.Addrs() // an interface that disappears meanwhile has none
		for _, a := range addresses {
			address(&i, a)
		}
		out = append(out, i)
	}
	uplinks(root, out)
	return out, nil
}

// uplinks assigns gateways to the cards that default routes use. A route through a bond, bridge or VLAN counts for the first card below it that has a
// link. IPv4 has precedence.
func uplinks(root host.Root, cards []facts.Interface) {
	routes := defaultGateways6(root.Read("/proc/net/ipv6_route"))
	maps.Copy(routes, defaultGateways(root.Read("/proc/net/route")))
	for _, device := range slices.Sorted(maps.Keys(routes)) {
		below := slices.DeleteFunc(under(root, device, 0), func(name string) bool { return cardNamed(cards, name) == nil })
		if len(below) == 0 { // an Open vSwitch bridge does not list its ports, but has the address of one
			mac := root.Read("/sys/class/net/" + device + "/address")
			for _, c := range cards {
				if mac != "" && (c.MAC == mac || c.Permanent == mac) {
					below = append(below, c.Name)
				}
			}
		}
		slices.SortStableFunc(below, func(a, b string) int { return linked(cardNamed(cards, b)) - linked(cardNamed(cards, a)) })
		if len(below) == 0 {
			continue
		}
		if c := cardNamed(cards, below[0]); c.Gateway == "" || device == c.Name {
			c.Gateway = routes[device]
		}
	}
}

func linked(i *facts.Interface) int {
	if i.Link {
		return 1
	}
	return 0
}

func cardNamed(cards []facts.Interface, name string) *facts.Interface {
	if i := slices.IndexFunc(cards, func(c facts.Interface) bool { return c.Name == name }); i >= 0 {
		return &cards[i]
	}
	return nil
}

// under lists a device and all devices below it: a VLAN is above a bond, and a bond above cards.
func under(root host.Root, device string, depth int) []string {
	all := []string{device}
	lower, _ := filepath.Glob(root.Path("/sys/class/net/"+device) + "/lower_*") // the pattern is valid
	for _, l := range lower {
		if depth < 8 {
			all = append(all, under(root, strings.TrimPrefix(filepath.Base(l), "lower_"), depth+1)...)
		}
	}
	return all
}

// randomAddress is NET_ADDR_RANDOM: the driver found no address and generated one.
const randomAddress = "1"

// card returns the kernel's data about the device behind an interface, or false if there is none.
func card(root host.Root, name string) (facts.Interface, bool) {
	device := "/sys/class/net/" + name
	if _, err := os.Stat(root.Path(device + "/device")); err != nil {
		return facts.Interface{}, false
	}
	i := facts.Interface{Name: name, FQDN: []string{}, Link: root.Read(device+"/carrier") == "1"}
	if speed, err := strconv.Atoi(root.Read(device + "/speed")); err == nil && speed > 0 {
		i.Speed = speed
	}
	linked := func(path string) string {
		link, err := os.Readlink(root.Path(device + path))
		if err != nil {
			return ""
		}
		return filepath.Base(link)
	}
	i.Driver, i.Bus = linked("/device/driver"), linked("/device/subsystem")
	if where, err := filepath.EvalSymlinks(root.Path(device + "/device")); err == nil && strings.Contains(where, "/usb") {
		i.Bus = "usb"
	}
	if i.Bus == "" {
		i.Bus = "unknown" // still a card
	}
	_, err := os.Lstat(root.Path(device + "/device/physfn"))
	i.Virtual = err == nil
	return i, true
}

// permanentAddresses returns the factory addresses of cards, by index. Bonds and administrators change the current ones.
func permanentAddresses() (map[int]string, error) {
	raw, err := syscall.NetlinkRIB(syscall.RTM_GETLINK, syscall.AF_UNSPEC)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseNetlinkMessage(raw)
	if err != nil {
		return nil, err
	}
	all := map[int]string{}
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWLINK || len(m.Data) < syscall.SizeofIfInfomsg {
			continue
		}
		attributes, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, err
		}
		index := int(int32(binary.NativeEndian.Uint32(m.Data[4:8]))) // struct ifinfomsg
		for _, a := range attributes {
			if a.Attr.Type == unix.IFLA_PERM_ADDRESS {
				all[index] = net.HardwareAddr(a.Value).String()
			}
		}
	}
	return all, nil
}
