//go:build integration

package netboot_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/netboot"
	"github.com/naupegos/naupegos/internal/netboot/dhcp"
	"github.com/naupegos/naupegos/internal/testkit"
)

// power is the way in which an emulated computer boots.
type power struct {
	uefi bool
	rom  bool // the network card contains iPXE; otherwise the firmware boots from the network
	http bool // UEFI boots by HTTP, not by PXE
}

// powerOn starts an emulated computer whose network card is in a bridge.
func powerOn(t *testing.T, bridge, mac string, p power) time.Time {
	t.Helper()
	tap := "tap" + mac[len(mac)-2:]
	run(t, "ip", "tuntap", "add", tap, "mode", "tap")
	plug(t, bridge, tap)
	dir := t.TempDir()
	args := []string{"-machine", "q35,accel=tcg", "-cpu", "qemu64", "-m", "256", "-nodefaults", "-display", "none", "-serial", "file:" + filepath.Join(dir, "console"),
		"-netdev", "tap,id=n,ifname=" + tap + ",script=no,downscript=no", "-boot", "n"}
	card := "virtio-net-pci,netdev=n,bootindex=1,mac=" + mac
	if !p.rom {
		card += ",romfile="
	}
	args = append(args, "-device", card, "-smbios", "type=1,uuid="+uuidOf(mac)+",serial=S-"+tap)
	if p.uefi {
		vars := filepath.Join(dir, "vars")
		testkit.Must(t, os.WriteFile(vars, testkit.Value(os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd"))(t), 0o600))
		args = append(args, "-drive", "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd", "-drive", "if=pflash,format=raw,unit=1,file="+vars)
		if !p.http {
			args = append(args, "-fw_cfg", "name=opt/org.tianocore/IPv6Support,string=n")
		}
	}
	cmd := exec.Command("qemu-system-x86_64", args...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			console, _ := os.ReadFile(filepath.Join(dir, "console"))
			t.Logf("QEMU: %s\nconsole: %q", said.String(), console)
		}
	})
	return time.Now()
}

func uuidOf(mac string) string {
	return "16e7d8a7-bfa9-428b-9117-3633" + strings.ReplaceAll(mac, ":", "")[4:]
}

// reaches waits until the machine has sent its labels to /ipxe. By then it has an address, iPXE and our first script.
func (l *lab) reaches(t *testing.T, what, mac string, began time.Time) {
	t.Helper()
	hyphened := strings.ReplaceAll(mac, ":", "-")
	// One minute suffices on an idle host; emulation on a busy one takes many times that.
	testkit.Until(t, 4*time.Minute, 20*time.Millisecond, testkit.That(what+" has asked for its script", func() bool {
		for _, r := range l.requests("/ipxe?") {
			if u, err := url.Parse(r); err == nil && u.Query().Get("mac") == hyphened && u.Query().Get("uuid") == uuidOf(mac) {
				return true
			}
		}
		return false
	}))
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%s: %.1f s from power-on to the first request over HTTP, %.1f s to its own script", what, l.asked["/boot.ipxe"].Sub(began).Seconds(), time.Since(began).Seconds())
	delete(l.asked, "/boot.ipxe")
}

// TestComputersBootFromTheNetwork boots computers with BIOS and with UEFI. With -full it also covers another DHCP server, iPXE on the card under
// UEFI, and HTTP boot.
func TestComputersBootFromTheNetwork(t *testing.T) {
	if !testkit.OwnNetwork(t) {
		return
	}
	bridge(t, "rack", "10.81.0.1/24")
	l := newLab(t)
	l.serve(t, netboot.Config{Interface: "rack", DHCP: netboot.On, Range: testkit.Value(dhcp.ParseRange("10.81.0.100-10.81.0.120"))(t)})
	cases := []struct {
		what string
		power
	}{{"BIOS, iPXE on the card", power{rom: true}}, {"UEFI, its own PXE, iPXE by TFTP", power{uefi: true}}}
	if testkit.Full() {
		cases = append(cases, struct {
			what string
			power
		}{"UEFI, iPXE on the card", power{uefi: true, rom: true}}, struct {
			what string
			power
		}{"UEFI, iPXE by HTTP", power{uefi: true, http: true}})
	}
	for i, c := range cases {
		mac := fmt.Sprintf("52:54:00:81:00:%02x", i)
		l.reaches(t, c.what, mac, powerOn(t, "rack", mac, c.power))
	}
}

// TestComputersBootBesideAnotherDHCP: another server assigns the addresses.
func TestComputersBootBesideAnotherDHCP(t *testing.T) {
	testkit.OnlyFull(t, "TestProxyBesideAnotherDHCP looks at what the proxy says to firmware, and TestComputersBootFromTheNetwork boots without another server")
	if !testkit.OwnNetwork(t) {
		return
	}
	bridge(t, "rack", "10.82.0.1/24")
	l := newLab(t)
	other := newMachine(t, "rack", "other")
	other.run(t, "ip", "address", "add", "10.82.0.2/24", "dev", "eth0")
	other.udhcpd(t, "10.82.0.50", "10.82.0.60")
	l.serve(t, netboot.Config{Interface: "rack", DHCP: netboot.Proxy})
	for i, c := range []struct {
		what string
		power
	}{{"BIOS, iPXE on the card", power{rom: true}}, {"UEFI, its own PXE, iPXE by TFTP", power{uefi: true}}} {
		mac := fmt.Sprintf("52:54:00:82:00:%02x", i)
		l.reaches(t, c.what+", beside another DHCP server", mac, powerOn(t, "rack", mac, c.power))
	}
}
