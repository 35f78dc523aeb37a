package discover

import (
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// interfaces lists the kernel's network cards. Loopback, bridges, bonds, VLANs and tunnels are no cards.
func interfaces(root host.Root) ([]facts.Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "list the network interfaces")
	}
	permanent, err := permanentAddresses()
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "ask for the permanent addresses of network interfaces")
	}
	gateways := defaultGateways(root.Read("/proc/net/route"))
	out := []facts.Interface{}
	for _, n := range all {
		i, ok := card(root, n.Name)
		if !ok {
			continue
		}
		i.MAC, i.Gateway = n.HardwareAddr.String(), gateways[n.Name]
		if root.Read("/sys/class/net/"+n.Name+"/addr_assign_type") != randomAddress {
			i.Permanent = permanent[n.Index]
		}
		addresses, _ := n.Addrs() // one that goes away meanwhile has none
		for _, a := range addresses {
			address(&i, a)
		}
		out = append(out, i)
	}
	return out, nil
}

// randomAddress is NET_ADDR_RANDOM: the driver found no address, and made one up.
const randomAddress = "1"

// card says what the kernel knows of the device behind an interface; false if there is none.
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
		i.Bus = "unknown" // a card all the same
	}
	_, err := os.Lstat(root.Path(device + "/device/physfn"))
	i.Virtual = err == nil
	return i, true
}

// permanentAddresses returns the addresses that cards were made with, by index. Bonds and people change the current ones.
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
