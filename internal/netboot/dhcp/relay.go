package dhcp

import (
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// relayed returns an address that a relay adds to a client's message as a sub-option of option 82. It is invalid if no relay forwarded the message.
func relayed(m *dhcpv4.DHCPv4, code dhcpv4.OptionCode) netip.Addr {
	info := m.RelayAgentInfo()
	if info == nil || !addrOf(m.GatewayIPAddr).IsValid() {
		return netip.Addr{}
	}
	return addrOf(info.Get(code))
}

// subnetOf returns an address in the network of a client behind a relay: the one that the relay names (RFC 3527), or the relay's own.
func subnetOf(m *dhcpv4.DHCPv4) netip.Addr {
	if a := relayed(m, dhcpv4.LinkSelectionSubOption); a.IsValid() {
		return a
	}
	return addrOf(m.GatewayIPAddr)
}

// identity returns the address that a client knows this server by: the relay's, if the relay wants to see the client's later messages, too (RFC 5107).
func (f *Full) identity(m *dhcpv4.DHCPv4) netip.Addr {
	if a := relayed(m, dhcpv4.ServerIdentifierOverrideSubOption); a.IsValid() {
		return a
	}
	return f.Boot.Server
}
