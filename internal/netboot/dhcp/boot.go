package dhcp

import (
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// Boot says from where machines boot.
type Boot struct {
	Server   netip.Addr                     // this server, as machines reach it: TFTP, and who has answered
	Script   string                         // the URL of what iPXE runs
	Programs string                         // the URL below which iPXE's programs lie
	Program  func(iana.Arch) (string, bool) // the name of the program for a kind of firmware
}

// Handler is a mode: what it answers to a message. Nil is no answer.
type Handler interface {
	Answer(m *dhcpv4.DHCPv4) *dhcpv4.DHCPv4
}

const (
	// PXE's vendor options have one, discovery control, whose bit 3 says: boot what this message names, and look for no other boot server.
	discoveryControl = 6
	bootThis         = 8
	// iPXE's own options have one that says: do not wait for answers of a ProxyDHCP.
	ipxeOptions = 175
	noProxyDHCP = 176
	httpFeature = 0x13
)

// file returns the file that a client loads, and false if the site has none for it. An iPXE without HTTP loads our iPXE, which supports HTTP.
func (b Boot) file(c client) (string, bool) {
	if !c.ipxe || c.bare {
		for _, arch := range c.archs {
			name, ok := b.Program(arch)
			if ok && c.kind == http && !c.bare {
				name = b.Programs + name
			}
			if ok {
				return name, true
			}
		}
	}
	return b.Script, c.ipxe
}

// put writes into an answer what the client is to load, and from where.
func (b Boot) put(reply, m *dhcpv4.DHCPv4, c client, file string) {
	server := b.Server.AsSlice()
	reply.ServerIPAddr, reply.BootFileName = server, file
	reply.UpdateOption(dhcpv4.OptServerIdentifier(server))
	for _, code := range m.ParameterRequestList() {
		switch code {
		case dhcpv4.OptionTFTPServerName:
			reply.UpdateOption(dhcpv4.OptTFTPServerName(b.Server.String()))
		case dhcpv4.OptionBootfileName:
			reply.UpdateOption(dhcpv4.OptBootFileName(file))
		}
	}
	if c.kind == http {
		reply.UpdateOption(dhcpv4.OptClassIdentifier(http)) // without it the firmware takes the URL for something else
		reply.UpdateOption(dhcpv4.OptBootFileName(file))
	}
	if uuid := m.Options.Get(dhcpv4.OptionClientMachineIdentifier); len(uuid) > 0 && len(uuid) <= 255 {
		reply.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, uuid))
	}
}

// answer begins an answer of a type. It is nil where the message is no request.
func answer(m *dhcpv4.DHCPv4, kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	reply, err := dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(kind))
	if err != nil || m.OpCode != dhcpv4.OpcodeBootRequest || len(m.ClientHWAddr) != 6 {
		return nil
	}
	return reply
}
