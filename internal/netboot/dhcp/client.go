package dhcp

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// client is the sender of a message, as far as the message describes it.
type client struct {
	archs []iana.Arch // its kinds of firmware, in order of preference
	ipxe  bool        // the sender is iPXE
	bare  bool        // that iPXE lacks HTTP
	kind  string      // PXEClient or HTTPClient, as sent by firmware; empty: neither
}

const pxe, http = "PXEClient", "HTTPClient"

// identify returns the sender of a message, or false if it does not boot from the network.
func identify(m *dhcpv4.DHCPv4) (client, bool) {
	c := client{ipxe: runsIPXE(m)}
	c.bare = c.ipxe && !hasHTTP(m)
	class := m.ClassIdentifier()
	for _, kind := range []string{pxe, http} {
		if strings.HasPrefix(class, kind) {
			c.kind = kind
		}
	}
	if c.kind == "" && !c.ipxe {
		return c, false
	}
	c.archs = archsOf(m, class)
	return c, len(c.archs) > 0 || c.ipxe
}

// runsIPXE reports whether iPXE sent the message. iPXE sends its user class without the length byte that RFC 3004 requires.
func runsIPXE(m *dhcpv4.DHCPv4) bool {
	class := m.Options.Get(dhcpv4.OptionUserClassInformation)
	return bytes.Equal(class, []byte("iPXE")) || bytes.Equal(class, []byte("\x04iPXE"))
}

// hasHTTP reports whether an iPXE supports HTTP. iPXE lists its features among its own options; hasHTTP assumes HTTP if the list is missing.
func hasHTTP(m *dhcpv4.DHCPv4) bool {
	raw := m.Options.Get(dhcpv4.GenericOptionCode(ipxeOptions))
	if len(raw) == 0 {
		return true
	}
	own := dhcpv4.Options{}
	if own.FromBytes(raw) != nil || len(own) == 0 {
		return true
	}
	v := own[httpFeature]
	return len(v) > 0 && v[0] != 0
}

// archsOf returns the client's kinds of firmware, the preferred kind first: from option 93, else from a class such as
// PXEClient:Arch:00007:UNDI:003016.
func archsOf(m *dhcpv4.DHCPv4, class string) (out []iana.Arch) {
	for v := m.Options.Get(dhcpv4.OptionClientSystemArchitectureType); len(v) >= 2; v = v[2:] {
		out = append(out, iana.Arch(uint16(v[0])<<8|uint16(v[1])))
	}
	fields := strings.Split(class, ":")
	if len(out) > 0 || len(fields) < 3 || fields[1] != "Arch" {
		return out
	}
	if n, err := strconv.ParseUint(fields[2], 10, 16); err == nil {
		out = append(out, iana.Arch(n))
	}
	return out
}
