package dhcp

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// client is what a message says of who has sent it.
type client struct {
	arch iana.Arch
	ipxe bool   // iPXE runs there already
	kind string // PXEClient or HTTPClient, as firmware names itself; empty: it does not
}

const pxe, http = "PXEClient", "HTTPClient"

// identify says who has sent a message. It reports false for those that do not boot from the network.
func identify(m *dhcpv4.DHCPv4) (client, bool) {
	c := client{ipxe: runsIPXE(m)}
	class := m.ClassIdentifier()
	for _, kind := range []string{pxe, http} {
		if strings.HasPrefix(class, kind) {
			c.kind = kind
		}
	}
	if c.kind == "" && !c.ipxe {
		return c, false
	}
	arch, ok := archOf(m, class)
	c.arch = arch
	return c, ok || c.ipxe
}

// runsIPXE reports whether iPXE has sent the message. It writes its user class as it is, without the length that RFC 3004 wants.
func runsIPXE(m *dhcpv4.DHCPv4) bool {
	class := m.Options.Get(dhcpv4.OptionUserClassInformation)
	return bytes.Equal(class, []byte("iPXE")) || bytes.Equal(class, []byte("\x04iPXE"))
}

// archOf returns the kind of firmware: of option 93, else of the class, which is PXEClient:Arch:00007:UNDI:003016.
func archOf(m *dhcpv4.DHCPv4, class string) (iana.Arch, bool) {
	if v := m.Options.Get(dhcpv4.OptionClientSystemArchitectureType); len(v) >= 2 {
		return iana.Arch(uint16(v[0])<<8 | uint16(v[1])), true
	}
	fields := strings.Split(class, ":")
	if len(fields) < 3 || fields[1] != "Arch" {
		return 0, false
	}
	n, err := strconv.ParseUint(fields[2], 10, 16)
	return iana.Arch(n), err == nil
}
