package dhcp

import (
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Full assigns addresses and says where to boot from.
type Full struct {
	Boot   Boot
	Link   netip.Prefix // the network of this server
	Pool   *Pool
	Router netip.Addr   // may be invalid
	DNS    []netip.Addr // may be empty
	Log    *slog.Logger
}

// Answer implements Handler.
func (f *Full) Answer(m *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	if subnet := subnetOf(m); subnet.IsValid() && !f.Link.Contains(subnet) {
		return nil // this server has no addresses for the client's network
	}
	if len(m.ClientHWAddr) != 6 {
		return nil
	}
	mac := m.ClientHWAddr.String()
	switch m.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		addr, ok := f.Pool.Offer(mac, addrOf(m.RequestedIPAddress()))
		if !ok {
			f.Log.Warn("no address is free", "mac", mac)
			return nil
		}
		return f.lease(m, dhcpv4.MessageTypeOffer, addr)
	case dhcpv4.MessageTypeRequest:
		return f.request(m, mac)
	case dhcpv4.MessageTypeDecline:
		if !addrOf(m.RequestedIPAddress()).IsValid() {
			return nil
		}
		f.Log.Warn("another host uses an address of this server's range", "address", m.RequestedIPAddress(), "mac", mac)
		f.Pool.Decline(mac, addrOf(m.RequestedIPAddress()))
	case dhcpv4.MessageTypeRelease:
		f.Pool.Release(mac, addrOf(m.ClientIPAddr))
	case dhcpv4.MessageTypeInform:
		reply := answer(m, dhcpv4.MessageTypeAck)
		if reply != nil {
			f.options(reply, m)
		}
		return reply
	}
	return nil
}

func (f *Full) request(m *dhcpv4.DHCPv4, mac string) *dhcpv4.DHCPv4 {
	if server := addrOf(m.ServerIdentifier()); server.IsValid() && server != f.Boot.Server && server != f.identity(m) {
		f.Log.Warn("a machine took the address of another DHCP server: there have to be none on this link, or this one has to be --dhcp proxy", "server", server, "mac", mac)
		f.Pool.Withdraw(mac)
		return nil
	}
	wanted := addrOf(m.RequestedIPAddress())
	if !wanted.IsValid() {
		wanted = addrOf(m.ClientIPAddr)
	}
	if err := f.Pool.Take(mac, wanted); err != nil {
		f.Log.Info("an address is refused", "address", wanted, "mac", mac, "reason", err.Error())
		reply := answer(m, dhcpv4.MessageTypeNak)
		if reply != nil {
			reply.UpdateOption(dhcpv4.OptServerIdentifier(f.identity(m).AsSlice()))
		}
		return reply
	}
	return f.lease(m, dhcpv4.MessageTypeAck, wanted)
}

// lease returns an answer with an address.
func (f *Full) lease(m *dhcpv4.DHCPv4, kind dhcpv4.MessageType, addr netip.Addr) *dhcpv4.DHCPv4 {
	reply := answer(m, kind)
	if reply == nil {
		return nil
	}
	reply.YourIPAddr = addr.AsSlice()
	reply.UpdateOption(dhcpv4.OptIPAddressLeaseTime(f.Pool.duration.Truncate(time.Second)))
	f.options(reply, m)
	return reply
}

// options adds the options that accompany an address.
func (f *Full) options(reply, m *dhcpv4.DHCPv4) {
	f.boot(reply, m)
	reply.UpdateOption(dhcpv4.OptServerIdentifier(f.identity(m).AsSlice())) // after boot, which writes its own
	reply.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(f.Link.Bits(), 32)))
	if f.Router.IsValid() {
		reply.UpdateOption(dhcpv4.OptRouter(f.Router.AsSlice()))
	}
	if len(f.DNS) > 0 {
		var list []net.IP
		for _, a := range f.DNS {
			list = append(list, a.AsSlice())
		}
		reply.UpdateOption(dhcpv4.OptDNS(list...))
	}
}

// boot adds the boot file and its server.
func (f *Full) boot(reply, m *dhcpv4.DHCPv4) {
	c, ok := identify(m)
	if !ok {
		return
	}
	if c.ipxe {
		quick := dhcpv4.Options{noProxyDHCP: []byte{1}}
		reply.UpdateOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(ipxeOptions), quick.ToBytes()))
	}
	if file, ok := f.Boot.file(c); ok {
		f.Boot.put(reply, m, c, file)
	}
}

// addrOf converts an address of a message. It returns an invalid address for a missing one and for 0.0.0.0.
func addrOf(ip net.IP) netip.Addr {
	a, ok := netip.AddrFromSlice(ip.To4())
	if !ok || a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}
