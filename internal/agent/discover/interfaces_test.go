package discover

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/testkit"
)

// link creates a symbolic link and its target in a machine's file system.
func link(t *testing.T, root host.Root, to, path string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(root.Path(to), 0o755))
	testkit.Must(t, os.MkdirAll(filepath.Dir(root.Path(path)), 0o755))
	testkit.Must(t, os.Symlink(root.Path(to), root.Path(path)))
}

// TestCards: the device behind an interface decides whether its address is the machine's own.
func TestCards(t *testing.T) {
	root := host.Root(t.TempDir())
	const pci = "/sys/devices/pci0000:00/0000:00:1c.0"
	for name, device := range map[string]string{"eth0": pci + "/0000:02:00.0", "enx0": pci + "/usb1/1-3/1-3:2.0", "ens1f0v0": pci + "/0000:03:10.0", "ens4": pci + "/virtio1", "odd": pci + "/thing"} {
		link(t, root, device, "/sys/class/net/"+name+"/device")
	}
	link(t, root, "/sys/bus/pci", pci+"/0000:02:00.0/subsystem")
	link(t, root, "/sys/bus/pci/drivers/igb", pci+"/0000:02:00.0/driver")
	link(t, root, "/sys/bus/usb", pci+"/usb1/1-3/1-3:2.0/subsystem")
	link(t, root, "/sys/bus/pci", pci+"/0000:03:10.0/subsystem")
	link(t, root, pci+"/0000:03:00.0", pci+"/0000:03:10.0/physfn")
	link(t, root, "/sys/bus/virtio", pci+"/virtio1/subsystem")
	testkit.Must(t, os.MkdirAll(root.Path("/sys/class/net/bond0"), 0o755))
	for name, want := range map[string]struct {
		bus     string
		virtual bool
	}{"eth0": {"pci", false}, "enx0": {"usb", false}, "ens1f0v0": {"pci", true}, "ens4": {"virtio", false}, "odd": {"unknown", false}} {
		if i, ok := card(root, name); !ok || i.Bus != want.bus || i.Virtual != want.virtual || name == "eth0" && i.Driver != "igb" {
			t.Errorf("%s: %+v, %t", name, i, ok)
		}
	}
	for _, name := range []string{"bond0", "lo", "none"} {
		if _, ok := card(root, name); ok {
			t.Errorf("%s is taken for a card", name)
		}
	}
}

// TestPermanentAddresses queries this machine's kernel.
func TestPermanentAddresses(t *testing.T) {
	all := testkit.Value(permanentAddresses())(t)
	for _, n := range testkit.Value(net.Interfaces())(t) {
		kind := testkit.Value(os.ReadFile("/sys/class/net/" + n.Name + "/addr_assign_type"))(t)
		if _, err := os.Stat("/sys/class/net/" + n.Name + "/device"); err == nil && string(kind) == "0\n" && all[n.Index] != n.HardwareAddr.String() {
			t.Errorf("%s has %s, and its permanent address is %q", n.Name, n.HardwareAddr, all[n.Index])
		}
	}
}
