package dhcp

import (
	"net"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// features sets iPXE's own options: the protocols that it supports.
func features(tags ...byte) dhcpv4.Modifier {
	var v []byte
	for _, tag := range tags {
		v = append(v, tag, 1, 1)
	}
	return dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(ipxeOptions), v))
}

func archs(v ...byte) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientSystemArchitectureType, v))
}

// TestKindsOfClients sends messages of firmware and of iPXE builds that differ from the usual.
func TestKindsOfClients(t *testing.T) {
	for name, c := range map[string]struct {
		more []dhcpv4.Modifier
		file string
	}{
		"iPXE with HTTP":                     {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_BC), ipxe, features(0x13, 0x17)}, testBoot.Script},
		"iPXE without HTTP":                  {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_BC), ipxe, features(0x15, 0x17)}, "snponly.efi"},
		"iPXE of BIOS without HTTP":          {[]dhcpv4.Modifier{firmware(pxe, iana.INTEL_X86PC), ipxe, features(0x17)}, "undionly.kpxe"},
		"iPXE without HTTP, nothing for it":  {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_ITANIUM), ipxe, features(0x17)}, testBoot.Script},
		"iPXE that says it has HTTP no more": {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_BC), ipxe, dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(ipxeOptions), []byte{0x13, 1, 0}))}, "snponly.efi"},
		"iPXE's options cut off":             {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_BC), ipxe, dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.GenericOptionCode(ipxeOptions), []byte{0x13}))}, "snponly.efi"},
		"several kinds, the second is ours":  {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_BC), archs(0, 6, 0, 9)}, "snponly.efi"},
		"several kinds, the first is ours":   {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_BC), archs(0, 0, 0, 9)}, "undionly.kpxe"},
		"several kinds, none is ours":        {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_BC), archs(0, 6, 0, 2)}, ""},
		"an odd octet":                       {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_BC), archs(0, 9, 0)}, "snponly.efi"},
	} {
		got := ""
		if p := (&Proxy{testBoot}).Answer(discover(t, 1, c.more...)); p != nil {
			got = p.BootFileName
		}
		if got != c.file {
			t.Errorf("%s loads %q, not %q", name, got, c.file)
		}
	}
}

// TestRequestsToOthers: the proxy ignores clients that accept another DHCP server's address (RFC 2131, 4.3.2), and answers at port 4011.
func TestRequestsToOthers(t *testing.T) {
	for server, answered := range map[string]bool{"": true, "10.0.0.1": true, "10.77.0.2": false, "0.0.0.0": true} {
		more := []dhcpv4.Modifier{firmware(pxe, iana.INTEL_X86PC), dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest)}
		if server != "" {
			more = append(more, dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP(server))))
		}
		if a := (&Proxy{testBoot}).Answer(discover(t, 1, more...)); (a != nil) != answered {
			t.Errorf("a request for %q is answered by %v", server, a)
		}
	}
}
