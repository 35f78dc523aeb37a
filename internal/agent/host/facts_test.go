package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

func write(t *testing.T, root Root, p, content string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(root.Path(p)), 0o755))
	testkit.Must(t, os.WriteFile(root.Path(p), []byte(content), 0o644))
}

func TestFacts(t *testing.T) {
	root := Root(t.TempDir())
	for p, content := range map[string]string{
		"/proc/meminfo":                           "MemTotal:       24684092 kB\nMemFree: 1 kB\n",
		"/etc/os-release":                         "PRETTY_NAME=\"Debian GNU/Linux 12\"\nID=debian\nVERSION_ID=\"12\"\n",
		"/proc/self/status":                       "Name:\tx\nCapBnd:\t000001ffffffffff\n",
		"/proc/swaps":                             "Filename Type Size Used Priority\n/dev/x partition 1 0 -2\n",
		"/etc/machine-id":                         "abc\n",
		"/proc/sys/kernel/random/boot_id":         "def\n",
		"/run/systemd/system/x":                   "",
		"/proc/net/route":                         "Iface Destination\n",
		"/sys/module/apparmor/parameters/enabled": "Y\n",
		"/sys/kernel/security/apparmor/x":         "",
		DpkgStatus:                                "Package: base-files\nStatus: install ok installed\n",
	} {
		write(t, root, p, content)
	}
	got, err := root.Facts()
	testkit.Must(t, err)
	if got.OS != "debian 12" || got.MemoryBytes != 24684092<<10 || !got.SysResource || !got.Swap || got.MachineID != "abc" ||
		got.BootID != "def" || !got.Systemd || !got.Dpkg || !got.AppArmor || got.CgroupVersion != 1 || got.CPUs == 0 || got.Kernel == "" || got.Hostname == "" {
		t.Errorf("facts %+v", got)
	}
	if got.Container {
		t.Error("a host counts as a container")
	}
	write(t, root, "/run/systemd/container", "systemd-nspawn")
	if got, _ = root.Facts(); !got.Container {
		t.Error("a container counts as a host")
	}
	write(t, root, "/proc/self/status", "CapBnd:\t000001fffeffffff\n")
	if got, _ = root.Facts(); got.SysResource {
		t.Error("SysResource without CAP_SYS_RESOURCE")
	}
}

func TestDefaultInterface(t *testing.T) {
	routes := `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth1	00000000	0101A8C0	0003	0	0	200	00000000	0	0	0
host0	00000000	010000C0	0003	0	0	100	00000000	0	0	0
eth0	000000C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
tun0	00000000	00000000	0001	0	0	0	00000080	0	0	0
`
	if got := defaultInterface(routes); got != "host0" {
		t.Errorf("found %q", got)
	}
}

func TestResolvConf(t *testing.T) {
	const stub = "nameserver 127.0.0.53\noptions edns0\n"
	for _, c := range []struct {
		name, etc, behind string
		path              string
		none              bool
	}{
		{"one elsewhere", "search a.example\nnameserver 10.0.0.1\n", "", "", false},
		{"by IPv6", "nameserver fe80::1%eth0\n", "", "", false},
		{"systemd-resolved", stub, "nameserver 10.0.0.1\n", "/run/systemd/resolve/resolv.conf", false},
		{"both", stub + "nameserver 10.0.0.2\n", "nameserver 10.0.0.1\n", "/run/systemd/resolve/resolv.conf", false},
		{"both, without systemd-resolved", "nameserver 127.0.0.1\nnameserver 10.0.0.2\n", "", "", false},
		{"systemd-resolved that knows none", stub, "# No DNS servers known.\n", "", true},
		{"one of the machine's own", "nameserver ::1\n", "", "", true},
		{"none", "# nothing\nnameserver\nnameserver example.org\n", "", "", true},
		{"no file", "", "", "", true},
	} {
		root := Root(t.TempDir())
		write(t, root, "/proc/meminfo", "")
		for path, text := range map[string]string{"/etc/resolv.conf": c.etc, "/run/systemd/resolve/resolv.conf": c.behind} {
			if text != "" {
				write(t, root, path, text)
			}
		}
		if f, err := root.Facts(); err != nil || f.ResolvConf != c.path || f.NoResolver != c.none {
			t.Errorf("%s: %q, %t, %v", c.name, f.ResolvConf, f.NoResolver, err)
		}
	}
}
