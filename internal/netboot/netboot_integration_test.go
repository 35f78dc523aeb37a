//go:build integration

package netboot_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot"
	"github.com/naupegos/naupegos/internal/netboot/boot"
	"github.com/naupegos/naupegos/internal/netboot/dhcp"
	"github.com/naupegos/naupegos/internal/testkit"
)

const (
	bios = "PXEClient:Arch:00000:UNDI:002001"
	uefi = "PXEClient:Arch:00007:UNDI:003016"
)

// holds reports lines that are missing in a client's output.
func holds(t *testing.T, told string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !slices.Contains(strings.Split(told, "\n"), want) {
			t.Errorf("the client did not get %s:\n%s", want, told)
		}
	}
}

// TestGivesAddresses lets BusyBox's DHCP client request an address and load the file that the server names.
func TestGivesAddresses(t *testing.T) {
	if !testkit.OwnNetwork(t) {
		return
	}
	bridge(t, "rack", "10.77.0.1/24")
	l := newLab(t)
	leases := filepath.Join(t.TempDir(), "leases")
	s := l.serve(t, netboot.Config{Interface: "rack", DHCP: netboot.On, Range: testkit.Value(dhcp.ParseRange("10.77.0.100-10.77.0.101"))(t), Leases: leases})
	m := newMachine(t, "rack", "m1")
	told := m.udhcpc(t, "-V", bios, "-x", "0x5d:0000")
	holds(t, told, "serverid=10.77.0.1", "siaddr=10.77.0.1", "boot_file=undionly.kpxe", "mask=24", "lease=3600", "tftp=10.77.0.1", "bootfile=undionly.kpxe")
	if !strings.Contains(told, "\nip=10.77.0.10") {
		t.Errorf("the address is outside of the range:\n%s", told)
	}
	again := m.udhcpc(t, "-V", uefi, "-x", "0x5d:0007")
	holds(t, again, "boot_file=snponly.efi")
	if data := testkit.Value(os.ReadFile(leases))(t); bytes.Count(data, []byte("\n")) != 2 {
		t.Errorf("the leases are:\n%s", data)
	}

	for _, name := range []string{"undionly.kpxe", "snponly.efi"} {
		want := testkit.Value(os.ReadFile("/usr/lib/ipxe/" + name))(t)
		file := filepath.Join(t.TempDir(), name)
		m.run(t, "busybox", "tftp", "-g", "-r", "/"+name, "-l", file, "-b", "1400", "10.77.0.1")
		if got := testkit.Value(os.ReadFile(file))(t); !bytes.Equal(got, want) {
			t.Errorf("%s by TFTP has %d bytes, not the %d of the package", name, len(got), len(want))
		}
		w := httptest.NewRecorder()
		s.Handler(boot.Handler(boot.Options{})).ServeHTTP(w, httptest.NewRequest("GET", "/netboot/"+name, nil))
		if !bytes.Equal(w.Body.Bytes(), want) {
			t.Errorf("%s by HTTP: %d, %d bytes", name, w.Code, w.Body.Len())
		}
	}
	for _, name := range []string{"/etc/hostname", "../../etc/hostname", "absent"} {
		if out, err := m.command("busybox", "tftp", "-g", "-r", name, "-l", filepath.Join(t.TempDir(), "x"), "10.77.0.1").CombinedOutput(); err == nil || !strings.Contains(string(out), "file not found") {
			t.Errorf("%s by TFTP: %v: %s", name, err, out)
		}
	}
	if out, err := m.command("busybox", "tftp", "-p", "-r", "x", "-l", leases, "10.77.0.1").CombinedOutput(); err == nil {
		t.Errorf("the server accepted a file: %s", out)
	}

	// A second interface on the same link.
	run(t, "ip", "link", "add", "second", "type", "veth", "peer", "name", "second-p")
	plug(t, "rack", "second-p")
	run(t, "ip", "address", "add", "10.77.0.2/24", "dev", "second")
	run(t, "ip", "link", "set", "second", "up")
	_, err := netboot.New(t.Context(), netboot.Config{Interface: "second", DHCP: netboot.On, Range: testkit.Value(dhcp.ParseRange("10.77.0.200-10.77.0.210"))(t)})
	testkit.Fails(t, err, fail.Refused, "10.77.0.1", "second", "--dhcp proxy")
}

// TestProxyBesideAnotherDHCP: clients take another server's address, and machines that boot load the file that this server names.
func TestProxyBesideAnotherDHCP(t *testing.T) {
	if !testkit.OwnNetwork(t) {
		return
	}
	bridge(t, "rack", "10.78.0.1/24")
	l := newLab(t)
	other := newMachine(t, "rack", "other")
	other.run(t, "ip", "address", "add", "10.78.0.2/24", "dev", "eth0")
	other.udhcpd(t, "10.78.0.50", "10.78.0.60")
	l.serve(t, netboot.Config{Interface: "rack", DHCP: netboot.Proxy})
	m := newMachine(t, "rack", "m1")
	told := m.udhcpc(t)
	holds(t, told, "serverid=10.78.0.2")
	if strings.Contains(told, "undionly") || strings.Contains(l.text(), "asked=DISCOVER") {
		t.Errorf("a client that does not boot from the network was answered:\n%s\n%s", told, l.text())
	}
	// udhcpc accepts any offer, even one without an address, so the proxy's answers to firmware are visible only in its log.
	_, _ = m.command("busybox", "udhcpc", "-i", "eth0", "-f", "-q", "-n", "-t", "1", "-T", "1", "-s", "/bin/true", "-V", bios, "-x", "0x5d:0000").CombinedOutput()
	testkit.Until(t, 10*time.Second, 50*time.Millisecond, testkit.That("the proxy has offered BIOS its program", func() bool {
		return strings.Contains(l.text(), "boot=undionly.kpxe")
	}))
	testkit.Until(t, 20*time.Second, 50*time.Millisecond, testkit.That("the other server is noticed", func() bool {
		return strings.Contains(l.text(), `msg="addresses come from another DHCP server" interface=rack server=10.78.0.2`)
	}))
}

// TestWhatIsInTheWay checks the error for everything that prevents a service from starting.
func TestWhatIsInTheWay(t *testing.T) {
	if !testkit.OwnNetwork(t) {
		return
	}
	bridge(t, "rack", "10.79.0.1/24")
	run(t, "ip", "link", "add", "bare", "type", "bridge")
	r := testkit.Value(dhcp.ParseRange("10.79.0.100-10.79.0.110"))(t)
	for _, c := range []struct {
		cfg   netboot.Config
		kind  fail.Kind
		words []string
	}{
		{netboot.Config{Interface: "absent", DHCP: netboot.Off}, fail.NotFound, []string{"absent"}},
		{netboot.Config{Interface: "bare", DHCP: netboot.Off}, fail.NotFound, []string{"no IPv4 address"}},
		{netboot.Config{Interface: "rack", DHCP: "maybe"}, fail.Invalid, []string{"off, proxy or on"}},
		{netboot.Config{Interface: "rack", DHCP: netboot.On}, fail.Invalid, []string{"--dhcp-range"}},
		{netboot.Config{Interface: "rack", DHCP: netboot.Proxy, Range: r}, fail.Invalid, []string{"mode on"}},
		{netboot.Config{Interface: "rack", DHCP: netboot.On, Range: testkit.Value(dhcp.ParseRange("10.80.0.1-10.80.0.2"))(t)}, fail.Invalid, []string{"10.79.0.0/24"}},
		{netboot.Config{Interface: "rack", DHCP: netboot.Off, Programs: []string{t.TempDir()}}, fail.NotFound, []string{"iPXE", "apt-get install ipxe"}},
	} {
		_, err := netboot.New(t.Context(), c.cfg)
		testkit.Fails(t, err, c.kind, c.words...)
	}
	l := newLab(t)
	l.serve(t, netboot.Config{Interface: "rack", DHCP: netboot.Off})
	m := newMachine(t, "rack", "m1")
	m.run(t, "ip", "address", "add", "10.79.0.9/24", "dev", "eth0")
	m.run(t, "busybox", "tftp", "-g", "-r", "snponly.efi", "-l", filepath.Join(t.TempDir(), "x"), "10.79.0.1")
	if out, err := m.command("busybox", "udhcpc", "-i", "eth0", "-f", "-q", "-n", "-t", "1", "-T", "1", "-s", "/bin/true", "-V", bios).CombinedOutput(); err == nil {
		t.Errorf("a server with mode off assigned an address: %s", out)
	}
}

// TestServerLeadsMachinesToItself runs the real command: a machine gets an address, the URL of the script, and the script.
func TestServerLeadsMachinesToItself(t *testing.T) {
	if !testkit.OwnNetwork(t) {
		return
	}
	program := filepath.Join(t.TempDir(), "naupegos")
	testkit.Must(t, testkit.Program(program, "cmd/naupegos", ""))
	bridge(t, "rack", "10.84.0.1/24")
	cmd := exec.Command(program, "server", "--state-dir", t.TempDir(), "--listen-http", "10.84.0.1:8080", "--netboot-interface", "rack", "--dhcp", "on", "--dhcp-range", "10.84.0.50-10.84.0.60", "--dhcp-router", "10.84.0.1")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	testkit.Must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	testkit.Until(t, time.Minute, 50*time.Millisecond, func() error {
		resp, err := http.Get("http://10.84.0.1:8080/healthz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && !strings.Contains(string(body), `"boot directory":true`) {
			err = fmt.Errorf("it answers %s", body)
		}
		return err
	})
	m := newMachine(t, "rack", "m1")
	told := m.udhcpc(t, "-V", bios, "-x", "0x5d:0000", "-x", "0x4d:69505845") // user class iPXE
	holds(t, told, "boot_file=http://10.84.0.1:8080/boot.ipxe", "router=10.84.0.1")
	if script := m.run(t, "busybox", "wget", "-q", "-O", "-", "http://10.84.0.1:8080/boot.ipxe"); script != boot.Inspect {
		t.Errorf("the script is %q", script)
	}
	testkit.Must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v:\n%s", err, said.String())
	}
}
