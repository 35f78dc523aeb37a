package netboot

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/pin/tftp/v3"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot/programs"
	"github.com/naupegos/naupegos/internal/testkit"
)

// testPrograms returns the programs of a host with Debian's file names.
func testPrograms(t testing.TB) *programs.Set {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"undionly.kpxe", "snponly.efi", "ipxe.efi"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte(name), 500), 0o644))
	}
	return testkit.Value(programs.Find(dir))(t)
}

func TestPrograms(t *testing.T) {
	set := testPrograms(t)
	for arch, want := range map[iana.Arch]string{iana.INTEL_X86PC: "undionly.kpxe", iana.EFI_BC: "snponly.efi", iana.EFI_X86_64: "snponly.efi", iana.EFI_X86_64_HTTP: "snponly.efi", iana.EFI_ARM64: "", iana.EFI_IA32: ""} {
		if name, ok := set.For(arch); name != want || ok != (want != "") {
			t.Errorf("%v loads %q %v, not %q", arch, name, ok, want)
		}
	}
	for _, name := range []string{"snponly.efi", "/snponly.efi", `\snponly.efi`, "//a/../snponly.efi", "snponly.efi\xff", "snponly.efi\x00"} {
		if program(set, name) == nil {
			t.Errorf("%q is not served", name)
		}
	}
	for _, name := range []string{"", "/", "ipxe.efi", "../snponly", "/etc/passwd", "/usr/lib/ipxe/snponly.efi"} {
		if program(set, name) != nil {
			t.Errorf("%q is served", name)
		}
	}
	dir := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "ipxe-arm64.efi"), []byte("x"), 0o644))
	_, err := programs.Find(dir)
	testkit.Fails(t, err, fail.NotFound, "undionly.kpxe", "apt-get install ipxe")
}

func TestWhereAnswersGo(t *testing.T) {
	from := netip.MustParseAddrPort("10.0.0.7:1234")
	nobody := netip.MustParseAddrPort("0.0.0.0:68")
	message := func(more ...dhcpv4.Modifier) *dhcpv4.DHCPv4 { return testkit.Value(dhcpv4.New(more...))(t) }
	own := dhcpv4.WithClientIP(net.ParseIP("10.0.0.7"))
	nak := message(dhcpv4.WithMessageType(dhcpv4.MessageTypeNak))
	for name, c := range map[string]struct {
		m, reply *dhcpv4.DHCPv4
		from     netip.AddrPort
		port     int
		want     string
	}{
		"a machine without an address": {message(), message(), nobody, dhcpPort, "255.255.255.255:68"},
		"a relay":                      {message(dhcpv4.WithRelay(net.ParseIP("10.9.0.1"))), message(), netip.MustParseAddrPort("10.9.0.1:67"), dhcpPort, "10.9.0.1:67"},
		"one that renews":              {message(own), message(), netip.MustParseAddrPort("10.0.0.7:68"), dhcpPort, "10.0.0.7:68"},
		"one that lies":                {message(own), message(), netip.MustParseAddrPort("10.0.0.8:68"), dhcpPort, "255.255.255.255:68"},
		"one that is refused":          {message(own), nak, from, dhcpPort, "255.255.255.255:68"},
		"who asks the proxy":           {message(), message(), from, proxyPort, "10.0.0.7:1234"},
	} {
		if got := destination(c.m, c.reply, c.from, c.port); got.String() != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
	if a := lastOf(netip.MustParsePrefix("10.0.1.7/22")); a.String() != "10.0.3.255" {
		t.Errorf("the broadcast address is %s", a)
	}
}

// TestOneAddressLeavesRoomForOthers: a client that does not acknowledge packets gets no more than its share of transfers, and other addresses are
// served.
func TestOneAddressLeavesRoomForOthers(t *testing.T) {
	at := serveTFTP(t)
	greedy := fromAnotherAddress(t)
	for range 2 * tftpTransfers {
		testkit.Value(greedy.WriteToUDP([]byte("\x00\x01snponly.efi\x00octet\x00"), at))(t)
	}
	testkit.Must(t, fetchUndionly(at))
	packet := make([]byte, 1500)
	testkit.Must(t, greedy.SetReadDeadline(time.Now().Add(10*time.Second)))
	for n := 0; !bytes.Contains(packet[:n], []byte("too many transfers")); {
		n = testkit.Value(greedy.Read(packet))(t)
	}
}

// serveTFTP starts a server and returns its address.
func serveTFTP(t testing.TB) *net.UDPAddr {
	conn := testkit.Value(net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	s := newTFTP(conn, testPrograms(t), "http://10.0.0.1:8080/boot.ipxe", slog.New(slog.DiscardHandler))
	s.SetRetries(1) // the client acknowledges nothing
	s.SetTimeout(200 * time.Millisecond)
	ended := make(chan error, 1)
	go func() { ended <- s.serve() }()
	t.Cleanup(func() {
		s.stop()
		testkit.Must(t, <-ended)
	})
	return conn.LocalAddr().(*net.UDPAddr)
}

// TestAutoexec checks that the server serves the script that iPXE requests.
func TestAutoexec(t *testing.T) {
	client := testkit.Value(tftp.NewClient(serveTFTP(t).String()))(t)
	for _, name := range []string{"autoexec.ipxe", "/autoexec.ipxe"} {
		var got bytes.Buffer
		testkit.Value(testkit.Value(client.Receive(name, "octet"))(t).WriteTo(&got))(t)
		if got.String() != "#!ipxe\nchain http://10.0.0.1:8080/boot.ipxe\n" {
			t.Errorf("%s: %q", name, got.String())
		}
	}
}

// fetchUndionly fetches a file, from the local address that the system chooses.
func fetchUndionly(at *net.UDPAddr) error {
	client, err := tftp.NewClient(at.String())
	if err != nil {
		return err
	}
	from, err := client.Receive("undionly.kpxe", "octet")
	if err != nil {
		return err
	}
	n, err := from.WriteTo(io.Discard)
	if want := int64(500 * len("undionly.kpxe")); err == nil && n != want {
		err = fmt.Errorf("the file has %d bytes, want %d", n, want)
	}
	return err
}

// fromAnotherAddress returns a socket with another local address than fetchUndionly's.
func fromAnotherAddress(t testing.TB) *net.UDPConn {
	c := testkit.Value(net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}))(t)
	t.Cleanup(func() { testkit.Must(t, c.Close()) })
	return c
}

// FuzzTFTP sends arbitrary packets to a server, which must still answer afterwards.
func FuzzTFTP(f *testing.F) {
	f.Add([]byte("\x00\x01snponly.efi\x00octet\x00"))
	f.Add([]byte("\x00\x01/snponly.efi\x00octet\x00blksize\x00" + "99999999999\x00tsize\x00" + "0\x00"))
	f.Add([]byte("\x00\x02x\x00octet\x00"))
	f.Add([]byte("\x00\x05\x00\x01no\x00"))
	at := serveTFTP(f)
	sender := fromAnotherAddress(f)
	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) > 1400 {
			return
		}
		testkit.Value(sender.WriteToUDP(packet, at))(t)
		if err := fetchUndionly(at); err != nil {
			t.Fatalf("after %q: %v", packet, err)
		}
	})
}
