package dhcp

import (
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// Boot describes where machines boot from.
type Boot struct {
	Server   netip.Addr                     // this server's address for machines: for TFTP and as the server identifier
	Script   string                         // the URL of iPXE's script
	Programs string                         // the URL of the directory of iPXE's programs
	Program  func(iana.Arch) (string, bool) // returns the name of the program for a kind of firmware
}

// Handler is a mode. Answer returns the answer to a message, or nil for none.
type Handler interface {
	Answer(m *dhcpv4.DHCPv4) *dhcpv4.DHCPv4
}

const (
	// Bit 3 of discovery control, one of PXE's vendor options, means: boot what this message names, and look for no other boot server.
	discoveryControl = 6
	bootThis         = 8
	// One of iPXE's own options means: do not wait for a ProxyDHCP's answers.
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

// put adds the client's boot file and its server to an answer.
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
		reply.UpdateOption(dhcpv4.OptClassIdentifier(http)) // without it the firmware does not recognise the URL
		reply.UpdateOption(dhcpv4.OptBootFileName(file))
	}
	if uuid := m.Options.Get(dhcpv4.OptionClientMachineIdentifier); len(uuid) > 0 && len(uuid) <= 255 {
		reply.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, uuid))
	}
}

// answer returns an empty answer of a type, or nil if the message is not a request.
func answer(m *dhcpv4.DHCPv4, kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	reply, err := dhcpv4.NewReplyFromRequest(m, dhcpv4.WithMessageType(kind))
	if err != nil || m.OpCode != dhcpv4.OpcodeBootRequest || len(m.ClientHWAddr) != 6 {
		return nil
	}
	return reply
}
