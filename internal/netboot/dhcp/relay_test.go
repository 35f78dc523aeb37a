package dhcp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
)

// relay makes a message look as if a relay had forwarded it, with sub-options of option 82.
func relay(gateway string, sub ...dhcpv4.Option) dhcpv4.Modifier {
	return func(m *dhcpv4.DHCPv4) {
		m.GatewayIPAddr = net.ParseIP(gateway)
		if len(sub) > 0 {
			m.UpdateOption(dhcpv4.OptRelayAgentInfo(sub...))
		}
	}
}

func subOption(code dhcpv4.OptionCode, v ...byte) dhcpv4.Option { return dhcpv4.OptGeneric(code, v) }

// TestRelays leads clients behind relays from discovery to a lease and its renewal.
func TestRelays(t *testing.T) {
	override, selection := dhcpv4.ServerIdentifierOverrideSubOption, dhcpv4.LinkSelectionSubOption
	for name, c := range map[string]struct {
		relay    dhcpv4.Modifier
		identity string // of the server in its answers; empty: no answer
	}{
		"a relay without option 82":                 {relay("10.0.0.254"), "10.0.0.1"},
		"a circuit's name":                          {relay("10.0.0.254", subOption(dhcpv4.AgentCircuitIDSubOption, 'x')), "10.0.0.1"},
		"the relay in the server's place":           {relay("10.0.0.254", subOption(override, 10, 0, 0, 254)), "10.0.0.254"},
		"in its place, asked from another network":  {relay("192.168.9.9", subOption(override, 10, 0, 0, 254), subOption(selection, 10, 0, 0, 0)), "10.0.0.254"},
		"another network is selected":               {relay("10.0.0.254", subOption(selection, 10, 9, 9, 0)), ""},
		"a relay of another network":                {relay("10.9.9.1", subOption(override, 10, 9, 9, 1)), ""},
		"an address that is cut off":                {relay("10.0.0.254", subOption(override, 10, 0)), "10.0.0.1"},
		"an address of zeros":                       {relay("10.0.0.254", subOption(override, 0, 0, 0, 0)), "10.0.0.1"},
		"option 82 without a relay, as clients lie": {relay("0.0.0.0", subOption(override, 10, 0, 0, 66)), "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := testFull(t, "", time.Now)
			uefi := firmware(pxe, iana.EFI_BC)
			offer := f.Answer(discover(t, 1, uefi, c.relay))
			if c.identity == "" {
				if offer != nil {
					t.Fatalf("it is offered %s", offer.YourIPAddr)
				}
				return
			}
			if offer == nil || offer.ServerIdentifier().String() != c.identity || offer.ServerIPAddr.String() != "10.0.0.1" || offer.BootFileName != "snponly.efi" {
				t.Fatalf("the offer is %v", offer)
			}
			addr := offer.YourIPAddr.String()
			ack := f.Answer(request(t, 1, addr, uefi, c.relay, dhcpv4.WithOption(dhcpv4.OptServerIdentifier(offer.ServerIdentifier()))))
			if ack == nil || ack.MessageType() != dhcpv4.MessageTypeAck || ack.ServerIdentifier().String() != c.identity || ack.YourIPAddr.String() != addr {
				t.Fatalf("the request is answered by %v", ack)
			}
			renewal := discover(t, 1, c.relay, dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithClientIP(ack.YourIPAddr))
			if a := f.Answer(renewal); a == nil || a.MessageType() != dhcpv4.MessageTypeAck || a.ServerIdentifier().String() != c.identity {
				t.Errorf("the renewal is answered by %v", a)
			}
			if a := f.Answer(request(t, 2, addr, c.relay)); a == nil || a.MessageType() != dhcpv4.MessageTypeNak || a.ServerIdentifier().String() != c.identity {
				t.Errorf("a request for the address of another is answered by %v", a)
			}
			other := dhcpv4.WithOption(dhcpv4.OptServerIdentifier(netip.MustParseAddr("10.0.0.2").AsSlice()))
			if a := f.Answer(request(t, 3, "10.0.0.12", c.relay, other)); a != nil {
				t.Errorf("a request to another server is answered by %v", a)
			}
			if got, want := string(offer.Options.Get(dhcpv4.OptionRelayAgentInformation)), string(discover(t, 1, c.relay).Options.Get(dhcpv4.OptionRelayAgentInformation)); got != want {
				t.Errorf("option 82 was %q and is %q", want, got)
			}
		})
	}
}
