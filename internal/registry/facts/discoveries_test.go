package facts

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// refusedDiscoveries are the files in testdata/discoveries that identify no machine, with the text of the refusal. All others are accepted.
var refusedDiscoveries = map[string]string{
	"big": "bytes", "lines": "lines", "bom": "JSON", "bootid-empty": "random-id", "bootid-space": "random-id", "disk-neg": "below zero", "disk-string": "form", "ib-boot": "no MAC address of an interface",
	"ipv4-in-6": "no IPv4 address", "netmask-text": "form", "uuid-braces": "no UUID", "uuid-empty": "no UUID", "uuid-nodash": "no UUID", "uuid-not-present": "no UUID",
	"uuid-not-settable": "no UUID", "uuid-tbf": "no UUID",
	"uuid-01": "many", "uuid-01-second": "many", "uuid-ami": "many", "uuid-ami-le": "many", "uuid-ami-le-second": "many", "uuid-dell-blank": "many", "uuid-dell-blank-second": "many",
	"uuid-ff": "many", "uuid-seq": "many", "uuid-seq-le": "many", "uuid-seq-le-second": "many", "uuid-zero": "many",
}

// ignoredAddresses are the ignored addresses of the other files, by interface.
var ignoredAddresses = map[string]string{
	"bad-mac-extra": "eth9", "ib0": "ibs1", "mcast-mac": "dummy", "zero-mac-vf": "ens1f0v0", "bond": "eth0",
}

func TestDiscoveries(t *testing.T) {
	files := testkit.Value(filepath.Glob("testdata/discoveries/disc-*"))(t)
	if len(files) < 50 {
		t.Fatal(files)
	}
	for _, file := range files {
		name := strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".gz"), ".json"), "disc-")
		t.Run(name, func(t *testing.T) {
			data := testkit.Value(os.ReadFile(file))(t)
			if strings.HasSuffix(file, ".gz") {
				data = testkit.Value(io.ReadAll(testkit.Value(gzip.NewReader(bytes.NewReader(data)))(t)))(t)
			}
			d, err := Parse(data)
			if words := refusedDiscoveries[name]; words != "" {
				testkit.Fails(t, err, fail.Invalid, words)
				return
			}
			testkit.Must(t, err)
			if !strings.HasPrefix(d.Boot.MAC, "52:54:01:00:00:") || d.MACs()[0] != d.Boot.MAC {
				t.Errorf("%+v", d.Boot)
			}
			for _, i := range d.Interfaces {
				if left := ignoredAddresses[name] == i.Name; left != (i.Ignored != "") && name != "bond" {
					t.Errorf("%+v", i)
				}
			}
			if name == "disk-float" && d.Disks[0].SizeBytes != 480103981056 || name == "serial-oem" && len(d.System.Ignored) != 2 || name == "serial-oem-2" && d.System.Serial != "" {
				t.Errorf("%+v, %+v", d.Disks, d.System)
			}
			if want := map[string]int{"ipv4-lo-na": 2, "boot-mac-elsewhere": 2}[name]; len(d.MACs()) != max(1, want) {
				t.Errorf("it is known by %v", d.MACs())
			}
		})
	}
}

// with inserts interfaces and disks into a discovery.
func with(interfaces, disks string) []byte {
	return fmt.Appendf(nil, `{"boot-info": {"uuid": "b7f5f93a-b029-475f-b3a4-479ba198cb8a", "mac": "52:54:01:00:00:01", "random-id": "x"},
		"interfaces": [{"name": "eth0", "mac": "52:54:01:00:00:01", "bus": "pci", "permanent": "52:54:01:00:00:01"}%s], "disks": [%s], "lldp": {}, "ignition-journal": []}`, interfaces, disks)
}

// TestNumbers: JSON has one kind of number.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]int64{"480103981056": 480103981056, "480103981056.0": 480103981056, "480103981056.000": 480103981056, "4.8e11": 480e9, "4.8E+11": 480e9, "48e10": 480e9,
		"0": 0, "0.0": 0, "1e0": 1, "9223372036854775807": 1<<63 - 1} {
		d, err := Parse(with("", `{"path": "/dev/sda", "size-bytes": `+text+`}`))
		if err != nil || d.Disks[0].SizeBytes != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"480103981056.5", "-1", "-1.0", "1e99", "1e999999999", "NaN", `"480103981056"`, "true", "[1]", "1.e3", "0x10", "9223372036854775808"} {
		_, err := Parse(with("", `{"path": "/dev/sda", "size-bytes": `+text+`}`))
		if fail.KindOf(err) != fail.Invalid {
			t.Errorf("%s: %v", text, err)
		}
	}
	body := strings.Replace(string(with("", `{"path": "/dev/sda", "size-bytes": 1e12, "serial": "1.0"}, {"path": "/dev/sdb", "size-bytes": 2}`)), `"mac": "52:54:01:00:00:01", "bus"`, `"mac": "52:54:01:00:00:01", "netmask": 24.0, "speed": 1e4, "bus"`, 1)
	body = strings.Replace(body, `"lldp"`, `"system": {"cpus": 64.0, "memory-bytes": 2.70582939648e11}, "lldp"`, 1)
	d := testkit.Value(Parse([]byte(body)))(t)
	if i := d.Interfaces[0]; i.Netmask != 24 || i.Speed != 10000 || d.System.CPUs != 64 || d.System.MemoryBytes != 270582939648 || d.Disks[0].Serial != "1.0" || d.Disks[1].Serial != "" {
		t.Errorf("%+v", d)
	}
}

// TestManyFunctions: the server keeps only the number of many virtual functions, so that a machine with hundreds is no larger than others; it keeps
// the one that a machine has booted from.
func TestManyFunctions(t *testing.T) {
	functions := func(n int) string {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, `, {"name": "ens1f0v%d", "mac": "52:54:02:00:%02x:%02x", "bus": "pci", "permanent": "52:54:02:00:%02x:%02x", "virtual": true, "ipv4": "", "cidrv4": "", "netmask": 0, "gateway": "", "fqdn": []}`, i, i/256, i%256, i/256, i%256)
		}
		return all.String()
	}
	for n, kept := range map[int]int{0: 0, 16: 16, 17: 0, 512: 0, 1024: 0} {
		d := testkit.Value(Parse(with(functions(n), "")))(t)
		if d.VirtualFunctions != n || len(d.Interfaces) != 1+kept || d.BootInterface() == nil {
			t.Errorf("%d functions: counted %d, kept %d interfaces", n, d.VirtualFunctions, len(d.Interfaces))
		}
		if raw := testkit.Value(json.Marshal(d))(t); len(raw) > 16<<10 {
			t.Errorf("%d functions: %d bytes", n, len(raw))
		}
	}
	booted := testkit.Value(Parse([]byte(strings.Replace(string(with(functions(300), "")), "52:54:01:00:00:01", "52:54:02:00:00:07", 1))))(t)
	if booted.Boot.MAC != "52:54:02:00:00:07" || booted.BootInterface() == nil || len(booted.Interfaces) != 2 || booted.VirtualFunctions != 299 {
		t.Errorf("%+v", booted.Interfaces)
	}
}

// TestIdentity: only the interface that the machine booted by, and cards with a permanent address of their own, identify it.
func TestIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		other string // fields of a second interface
		known string // the second address that identifies it; empty: none
		shown string // why not
	}{
		"a second card":                       {`"name": "eth1", "mac": "b8:ca:3a:00:00:02", "bus": "pci", "permanent": "b8:ca:3a:00:00:02"`, "b8:ca:3a:00:00:02", ""},
		"an emulated card":                    {`"name": "eth1", "mac": "52:54:01:00:00:02", "bus": "virtio", "permanent": "52:54:01:00:00:02"`, "52:54:01:00:00:02", ""},
		"part of a bond":                      {`"name": "eth1", "mac": "52:54:01:00:00:01", "bus": "pci", "permanent": "b8:ca:3a:00:00:02"`, "b8:ca:3a:00:00:02", ""},
		"an address that was set by hand":     {`"name": "eth1", "mac": "02:00:00:00:00:07", "bus": "pci", "permanent": "b8:ca:3a:00:00:02"`, "b8:ca:3a:00:00:02", ""},
		"a BMC's card on USB":                 {`"name": "enx0", "mac": "be:3a:f2:b6:05:9f", "bus": "usb", "permanent": "be:3a:f2:b6:05:9f"`, "", "USB"},
		"a Redfish host interface":            {`"name": "usb0", "mac": "be:3a:f2:b6:05:9f", "bus": "usb"`, "", "USB"}, // its driver generates an address
		"a dock with the card's address":      {`"name": "enx1", "mac": "52:54:01:00:00:01", "bus": "usb", "permanent": "52:54:01:00:00:01"`, "", ""},
		"a port of a switch chip":             {`"name": "swp1", "mac": "52:54:01:00:00:01", "bus": "mdio_bus"`, "", "address of eth0"},
		"a virtual function":                  {`"name": "ens1f0v0", "mac": "52:54:01:00:00:02", "bus": "pci", "permanent": "52:54:01:00:00:02", "virtual": true`, "", "virtual function"},
		"a random address":                    {`"name": "eth1", "mac": "52:54:01:00:00:02", "bus": "pci"`, "", "no permanent"},
		"a permanent address that is none":    {`"name": "eth1", "mac": "52:54:01:00:00:02", "bus": "pci", "permanent": "ff:ff:ff:ff:ff:ff"`, "", "no permanent"},
		"InfiniBand":                          {`"name": "ib0", "mac": "80:00:02:08:fe:80:00:00:00:00:00:00:f4:52:14:03:00:96:79:31", "bus": "pci"`, "", "no MAC address of Ethernet"},
		"FireWire":                            {`"name": "fw0", "mac": "00:11:22:33:44:55:66:77", "bus": "pci"`, "", "no MAC address of Ethernet"},
		"zeros":                               {`"name": "eth1", "mac": "00:00:00:00:00:00"`, "", "no MAC address of Ethernet"},
		"a group's":                           {`"name": "eth1", "mac": "01:00:5e:00:00:01"`, "", "no MAC address of Ethernet"},
		"broadcast":                           {`"name": "eth1", "mac": "ff:ff:ff:ff:ff:ff"`, "", "no MAC address of Ethernet"},
		"no address":                          {`"name": "eth1", "mac": "N/A"`, "", `"N/A" is no MAC address of Ethernet`},
		"six words":                           {`"name": "eth1", "mac": "not available at all"`, "", "no MAC address of Ethernet"},
		"a tunnel":                            {`"name": "tun0", "mac": ""`, "", "virtual"},
		"the older system's card":             {`"name": "eth1", "mac": "b8:ca:3a:00:00:02"`, "b8:ca:3a:00:00:02", ""},
		"the older system's container bridge": {`"name": "docker0", "mac": "02:42:ac:11:00:01"`, "", "virtual"},
		"the older system's VLAN":             {`"name": "eth1.100", "mac": "b8:ca:3a:00:00:02"`, "", "virtual"},
		"the older system's bond":             {`"name": "bond0", "mac": "52:54:01:00:00:01"`, "", "address of eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			d := testkit.Value(Parse(with(", {"+c.other+"}", "")))(t)
			if got := strings.Join(d.MACs()[1:], " "); got != c.known || !strings.Contains(d.Interfaces[1].Ignored, c.shown) || (c.shown == "") != (d.Interfaces[1].Ignored == "") {
				t.Errorf("it is known by %q, and shows %q", got, d.Interfaces[1].Ignored)
			}
		})
	}
	d := testkit.Value(Parse(with(`, {"name": "eth1", "mac": "b8:ca:3a:00:00:02", "bus": "pci", "permanent": "b8:ca:3a:00:00:02"}`, "")))(t)
	d.Share("b8:ca:3a:00:00:02", "rack-2")
	d.Share(d.Boot.MAC, "rack-3")
	if len(d.MACs()) != 1 || !strings.Contains(d.Interfaces[1].Ignored, "rack-2") || d.BootInterface().Ignored != "" {
		t.Errorf("%+v", d.Interfaces)
	}
	usb := testkit.Value(Parse([]byte(strings.Replace(string(with("", "")), `"bus": "pci"`, `"bus": "usb"`, 1))))(t) // it has booted from a USB card
	if usb.MACs()[0] != usb.Boot.MAC || usb.BootInterface() == nil {
		t.Errorf("%+v", usb)
	}
	var many strings.Builder
	for i := range 2047 {
		fmt.Fprintf(&many, `, {"name": "ens1f0v%d", "mac": "52:54:02:00:%02x:%02x", "bus": "pci", "virtual": true}`, i, i>>8, i&255)
	}
	d = testkit.Value(Parse(with(many.String(), "")))(t)
	if len(d.Interfaces) != 1 || d.VirtualFunctions != 2047 || len(d.MACs()) != 1 {
		t.Errorf("%d interfaces, known by %d addresses", len(d.Interfaces), len(d.MACs()))
	}
}
