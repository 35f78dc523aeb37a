package discover

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestUplinks: uplinks finds the boot interface below bonds, bridges and VLANs, with IPv6 alone, and by its own address.
func TestUplinks(t *testing.T) {
	const header = "Iface\tDestination\tGateway\n"
	route := func(device string) string {
		return device + "\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
	}
	const zeros = "00000000000000000000000000000000"
	route6 := func(device, gateway string) string {
		return zeros + " 00 " + zeros + " 00 " + gateway + " 00000400 00000001 00000000 00000003 " + device + "\n"
	}
	const fe80 = "fe800000000000000000000000000001"
	for name, c := range map[string]struct {
		lower    []string // DEVICE/LOWER
		address  map[string]string
		v4, v6   string
		mac, via string
	}{
		"a card":                   {v4: route("eno1"), mac: "b8:ca:3a:00:00:01", via: "192.168.1.1"},
		"a bond, the first down":   {lower: []string{"bond0/eno1", "bond0/eno2"}, v4: route("bond0"), mac: "b8:ca:3a:00:00:02", via: "192.168.1.1"},
		"a bridge (Proxmox)":       {lower: []string{"vmbr0/eno2", "vmbr0/tap100"}, v4: route("vmbr0"), mac: "b8:ca:3a:00:00:02", via: "192.168.1.1"},
		"a VLAN":                   {lower: []string{"eno1.100/eno1"}, v4: route("eno1.100"), mac: "b8:ca:3a:00:00:01", via: "192.168.1.1"},
		"a VLAN of a bond":         {lower: []string{"bond0.7/bond0", "bond0/eno2"}, v4: route("bond0.7"), mac: "b8:ca:3a:00:00:02", via: "192.168.1.1"},
		"Open vSwitch":             {address: map[string]string{"br-ex": "b8:ca:3a:00:00:02"}, v4: route("br-ex"), mac: "b8:ca:3a:00:00:02", via: "192.168.1.1"},
		"IPv6 alone":               {v6: route6("eno1", fe80), mac: "b8:ca:3a:00:00:01", via: "fe80::1"},
		"IPv6 on a bridge":         {lower: []string{"br0/eno2"}, v6: route6("br0", fe80), mac: "b8:ca:3a:00:00:02", via: "fe80::1"},
		"both":                     {v4: route("eno1"), v6: route6("eno1", fe80), mac: "b8:ca:3a:00:00:01", via: "192.168.1.1"},
		"loopback's route is none": {v6: route6("lo", zeros)},
		"a tunnel above nothing":   {v4: route("wg0")},
	} {
		t.Run(name, func(t *testing.T) {
			root := host.Root(t.TempDir())
			put := func(path, text string) {
				testkit.Must(t, os.MkdirAll(filepath.Dir(root.Path(path)), 0o755))
				testkit.Must(t, os.WriteFile(root.Path(path), []byte(text), 0o600))
			}
			put("/proc/net/route", header+c.v4)
			put("/proc/net/ipv6_route", c.v6)
			for _, l := range c.lower {
				testkit.Must(t, os.MkdirAll(root.Path("/sys/class/net/"+filepath.Dir(l)+"/lower_"+filepath.Base(l)), 0o755))
			}
			for device, mac := range c.address {
				put("/sys/class/net/"+device+"/address", mac+"\n")
			}
			cards := []facts.Interface{{Name: "eno1", MAC: "02:00:00:00:00:09", Permanent: "b8:ca:3a:00:00:01"}, {Name: "eno2", MAC: "02:00:00:00:00:09", Permanent: "b8:ca:3a:00:00:02", Link: true}}
			uplinks(root, cards)
			mac, err := bootMAC(root, cards, "")
			if c.mac == "" {
				testkit.Fails(t, err, fail.NotReady, "--mac ADDRESS")
				return
			}
			if err != nil || mac != c.mac {
				t.Errorf("%s, %v", mac, err)
			}
			for _, i := range cards {
				if want := map[bool]string{true: c.via}[i.Permanent == c.mac]; i.Gateway != want {
					t.Errorf("%s has the gateway %q, want %q", i.Name, i.Gateway, want)
				}
			}
		})
	}
}
