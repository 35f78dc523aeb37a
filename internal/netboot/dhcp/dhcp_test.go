package dhcp

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

var testBoot = Boot{
	Server: netip.MustParseAddr("10.0.0.1"), Script: "http://10.0.0.1:8080/boot.ipxe", Programs: "http://10.0.0.1:8080/netboot/",
	Program: func(a iana.Arch) (string, bool) {
		name := map[iana.Arch]string{iana.INTEL_X86PC: "undionly.kpxe", iana.EFI_BC: "snponly.efi", iana.EFI_X86_64_HTTP: "snponly.efi"}[a]
		return name, name != ""
	},
}

func testFull(t testing.TB, path string, now func() time.Time) *Full {
	t.Helper()
	pool := testkit.Value(NewPool(testkit.Value(ParseRange("10.0.0.10-10.0.0.13"))(t), time.Hour, path, now, netip.MustParseAddr("10.0.0.11")))(t)
	t.Cleanup(func() { pool.Close() })
	return &Full{Boot: testBoot, Link: netip.MustParsePrefix("10.0.0.1/24"), Pool: pool, Router: netip.MustParseAddr("10.0.0.254"), DNS: []netip.Addr{netip.MustParseAddr("10.0.0.53")}, Log: slog.New(slog.DiscardHandler)}
}

func mac(n byte) net.HardwareAddr { return net.HardwareAddr{0x52, 0x54, 0, 0, 0, n} }

func discover(t testing.TB, n byte, more ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	return testkit.Value(dhcpv4.NewDiscovery(mac(n), more...))(t)
}

// firmware makes a message look like one of a kind of firmware.
func firmware(class string, arch iana.Arch) dhcpv4.Modifier {
	return func(m *dhcpv4.DHCPv4) {
		m.UpdateOption(dhcpv4.OptClassIdentifier(fmt.Sprintf("%s:Arch:%05d:UNDI:003016", class, arch)))
		m.UpdateOption(dhcpv4.OptClientArch(arch))
		m.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, bytes.Repeat([]byte{7}, 17)))
	}
}

func ipxe(m *dhcpv4.DHCPv4) {
	m.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionUserClassInformation, []byte("iPXE")))
}

// TestWhatEachFirmwareLoads checks the answers of both modes.
func TestWhatEachFirmwareLoads(t *testing.T) {
	for name, c := range map[string]struct {
		more        []dhcpv4.Modifier
		file, class string // class: of the proxy's answer
	}{
		"BIOS":                    {[]dhcpv4.Modifier{firmware(pxe, iana.INTEL_X86PC)}, "undionly.kpxe", pxe},
		"UEFI":                    {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_BC)}, "snponly.efi", pxe},
		"UEFI by HTTP":            {[]dhcpv4.Modifier{firmware(http, iana.EFI_X86_64_HTTP)}, "http://10.0.0.1:8080/netboot/snponly.efi", http},
		"iPXE":                    {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_BC), ipxe}, testBoot.Script, pxe},
		"iPXE of another machine": {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_ARM32), ipxe}, testBoot.Script, pxe},
		"no program for it":       {[]dhcpv4.Modifier{firmware(pxe, iana.EFI_ITANIUM)}, "", ""},
		"no firmware":             {nil, "", ""},
	} {
		m := discover(t, 1, c.more...)
		p := (&Proxy{testBoot}).Answer(m)
		switch {
		case c.file == "" && p != nil:
			t.Errorf("%s: the proxy answers %s", name, p.Summary())
		case c.file == "":
		case p == nil || p.BootFileName != c.file || p.ClassIdentifier() != c.class || !p.YourIPAddr.IsUnspecified() || p.MessageType() != dhcpv4.MessageTypeOffer:
			t.Errorf("%s: the proxy answers %v", name, p)
		case len(p.Options.Get(dhcpv4.OptionClientMachineIdentifier)) != 17:
			t.Errorf("%s: the proxy does not return the machine's identity", name)
		}
		f := testFull(t, "", time.Now).Answer(m)
		if f == nil || f.BootFileName != c.file || f.YourIPAddr.IsUnspecified() {
			t.Errorf("%s: mode on answers %v", name, f)
		}
	}
}

// TestProxyGivesNoAddress: the proxy does not answer clients that want an address, nor unrelated messages.
func TestProxyGivesNoAddress(t *testing.T) {
	p := &Proxy{testBoot}
	release := discover(t, 1, firmware(pxe, iana.INTEL_X86PC), dhcpv4.WithMessageType(dhcpv4.MessageTypeRelease))
	reply := testkit.Value(dhcpv4.NewReplyFromRequest(discover(t, 1, firmware(pxe, iana.INTEL_X86PC)), dhcpv4.WithMessageType(dhcpv4.MessageTypeDiscover)))(t)
	for name, m := range map[string]*dhcpv4.DHCPv4{"a release": release, "a reply": reply} {
		if a := p.Answer(m); a != nil {
			t.Errorf("%s is answered by %s", name, a.Summary())
		}
	}
}

func request(t testing.TB, n byte, addr string, more ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	return discover(t, n, append(more, dhcpv4.WithMessageType(dhcpv4.MessageTypeRequest), dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(net.ParseIP(addr))))...)
}

// TestLeases simulates machines that request, renew and release addresses.
func TestLeases(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "leases")
	f := testFull(t, path, func() time.Time { return now })
	got := map[string]byte{}
	for n := byte(1); n <= 3; n++ {
		offer := f.Answer(discover(t, n))
		addr := offer.YourIPAddr.String()
		if addr == "10.0.0.11" || got[addr] != 0 {
			t.Fatalf("machine %d is offered %s; given are %v", n, addr, got)
		}
		got[addr] = n
		ack := f.Answer(request(t, n, addr))
		if ack.MessageType() != dhcpv4.MessageTypeAck || ack.YourIPAddr.String() != addr || ack.IPAddressLeaseTime(0) != time.Hour || ack.Router()[0].String() != "10.0.0.254" || ack.DNS()[0].String() != "10.0.0.53" {
			t.Errorf("machine %d: %s", n, ack.Summary())
		}
	}
	if a := f.Answer(discover(t, 4)); a != nil {
		t.Errorf("a fourth machine is offered %s", a.YourIPAddr)
	}
	for addr, n := range got {
		if a := f.Answer(request(t, 9, addr)); a.MessageType() != dhcpv4.MessageTypeNak || !a.YourIPAddr.IsUnspecified() {
			t.Errorf("the address of machine %d was assigned to another: %s", n, a.Summary())
		}
	}
	if a := f.Answer(request(t, 1, "192.168.7.7")); a.MessageType() != dhcpv4.MessageTypeNak {
		t.Errorf("an address of another network: %s", a.Summary())
	}
	again := testFull(t, path, func() time.Time { return now })
	for addr, n := range got { // after a restart
		if a := again.Answer(discover(t, n)); a.YourIPAddr.String() != addr {
			t.Errorf("machine %d had %s and is offered %s", n, addr, a.YourIPAddr)
		}
	}
	now = now.Add(2 * time.Hour)
	if a := f.Answer(discover(t, 4)); a == nil {
		t.Error("no address is free after all leases have expired")
	}
}

func TestMachineThatTakesAnothersAddress(t *testing.T) {
	f := testFull(t, "", time.Now)
	f.Answer(discover(t, 1))
	if a := f.Answer(request(t, 1, "10.0.0.200", dhcpv4.WithOption(dhcpv4.OptServerIdentifier(net.ParseIP("10.0.0.2"))))); a != nil {
		t.Errorf("a request to another server is answered: %s", a.Summary())
	}
	addr := f.Answer(discover(t, 2)).YourIPAddr
	declined := discover(t, 2, dhcpv4.WithMessageType(dhcpv4.MessageTypeDecline), dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(addr)))
	if f.Answer(declined); f.Answer(discover(t, 2)).YourIPAddr.Equal(addr) {
		t.Errorf("%s is offered again although another host uses it", addr)
	}
	relayed := discover(t, 3, dhcpv4.WithRelay(net.ParseIP("10.9.9.1")))
	if a := f.Answer(relayed); a != nil {
		t.Errorf("a machine behind a relay elsewhere is offered %s", a.YourIPAddr)
	}
}

// TestJournalOfLeases opens a journal whose last line is incomplete after a power cut, and one that can't be written.
func TestJournalOfLeases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	testkit.Must(t, os.WriteFile(path, []byte(`{"mac":"52:54:00:00:00:01","address":"10.0.0.13","until":"2999-01-01T00:00:00Z"}`+"\n"+`{"mac":"52:54:00:00:00:02","addr`), 0o600))
	f := testFull(t, path, time.Now)
	if a := f.Answer(discover(t, 1)); a.YourIPAddr.String() != "10.0.0.13" {
		t.Errorf("machine 1 is offered %s", a.YourIPAddr)
	}
	for range 5000 { // renewals: the journal must not grow without limit
		f.Answer(request(t, 1, "10.0.0.13"))
	}
	if info := testkit.Value(os.Stat(path))(t); info.Size() > 200*1000 {
		t.Errorf("after 5000 renewals the journal has %d bytes", info.Size())
	}
	testkit.Must(t, f.Pool.Close())
	if a := f.Answer(request(t, 1, "10.0.0.13")); a.MessageType() != dhcpv4.MessageTypeNak {
		t.Errorf("a lease that could not be saved was granted: %s", a.Summary())
	}
}

func TestParseRange(t *testing.T) {
	for _, bad := range []string{"", "10.0.0.1", "10.0.0.9-10.0.0.1", "10.0.0.1-x", "::1-::2", "10.0.0.0-10.9.0.0", "-"} {
		_, err := ParseRange(bad)
		testkit.Fails(t, err, fail.Invalid)
	}
	if r := testkit.Value(ParseRange("10.0.0.255-10.0.1.2"))(t); r.size() != 4 || r.at(1).String() != "10.0.1.0" {
		t.Errorf("the range is %+v", r)
	}
}

// FuzzAnswer passes arbitrary messages to both modes: their answers must be valid and fit into the size that every client accepts.
func FuzzAnswer(f *testing.F) {
	for _, m := range []*dhcpv4.DHCPv4{discover(f, 1), discover(f, 1, firmware(pxe, iana.EFI_BC)), discover(f, 2, ipxe), request(f, 1, "10.0.0.10")} {
		f.Add(m.ToBytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := dhcpv4.FromBytes(data)
		if err != nil {
			return
		}
		for _, h := range []Handler{&Proxy{testBoot}, testFull(t, "", time.Now)} {
			a := h.Answer(m)
			if a == nil {
				continue
			}
			out := a.ToBytes()
			back, err := dhcpv4.FromBytes(out)
			if err != nil {
				t.Fatalf("%T answers what can't be read: %v\n%x", h, err, out)
			}
			if back.TransactionID != m.TransactionID || back.OpCode != dhcpv4.OpcodeBootReply || len(out) > 1200 {
				t.Fatalf("%T answers %d bytes: %s", h, len(out), back.Summary())
			}
			if _, proxy := h.(*Proxy); proxy && !back.YourIPAddr.IsUnspecified() {
				t.Fatalf("the proxy gives out %s", back.YourIPAddr)
			}
		}
	})
}
