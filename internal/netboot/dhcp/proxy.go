package dhcp

import "github.com/insomniacslk/dhcp/dhcpv4"

// Proxy answers machines that boot from the network and get their addresses from another DHCP server. It ignores all others.
type Proxy struct{ Boot Boot }

// Answer implements Handler: it offers on discovery, and acknowledges requests to this server itself at port 4011.
func (p *Proxy) Answer(m *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	var kind dhcpv4.MessageType
	switch m.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		kind = dhcpv4.MessageTypeOffer
	case dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeInform:
		if server := addrOf(m.ServerIdentifier()); server.IsValid() && !server.IsUnspecified() && server != p.Boot.Server {
			return nil // the client accepts another server's address
		}
		kind = dhcpv4.MessageTypeAck
	default:
		return nil
	}
	return p.answer(m, kind)
}

func (p *Proxy) answer(m *dhcpv4.DHCPv4, kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	c, ok := identify(m)
	if !ok {
		return nil
	}
	file, ok := p.Boot.file(c)
	reply := answer(m, kind)
	if !ok || reply == nil {
		return nil
	}
	p.Boot.put(reply, m, c, file)
	if c.kind != http {
		reply.UpdateOption(dhcpv4.OptClassIdentifier(pxe))
		control := dhcpv4.Options{discoveryControl: []byte{bootThis}}
		reply.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, append(control.ToBytes(), dhcpv4.OptionEnd.Code())))
	}
	return reply
}
