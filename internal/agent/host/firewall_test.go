package host

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

func TestFirewall(t *testing.T) {
	for name, c := range map[string]struct {
		ufw, dir string
		want     string
		removed  bool
	}{
		"none":         {},
		"ufw removed":  {ufw: "ENABLED=yes\n", removed: true},
		"ufw":          {ufw: "# x\nENABLED=yes\nLOGLEVEL=low\n", want: "ufw"},
		"ufw, quoted":  {ufw: "enabled=\"yes\"\n", want: "ufw"},
		"ufw disabled": {ufw: "ENABLED=no\n"},
		"firewalld":    {dir: "sys/fs/cgroup/system.slice/firewalld.service", want: "firewalld"},
		"cgroups v1":   {dir: "sys/fs/cgroup/systemd/system.slice/firewalld.service", want: "firewalld"},
	} {
		dir := t.TempDir()
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, "etc/ufw"), 0o755))
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, c.dir), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "etc/ufw/ufw.conf"), []byte(c.ufw), 0o600))
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, "usr/sbin"), 0o755))
		if !c.removed {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "usr/sbin/ufw"), nil, 0o600))
		}
		if got := Root(dir).Firewall(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestRuntimesAndSELinux(t *testing.T) {
	dir := t.TempDir()
	if r := Root(dir); r.Runtimes() != nil || r.SELinux() {
		t.Errorf("an empty host: services %v, SELinux %t", r.Runtimes(), r.SELinux())
	}
	for _, s := range []string{"docker.service", "containerd.service", "ssh.service"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, "sys/fs/cgroup/system.slice", s), 0o755))
	}
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "sys/fs/selinux"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "sys/fs/selinux/enforce"), []byte("1"), 0o600))
	if r := Root(dir); !slices.Equal(r.Runtimes(), []string{"containerd.service", "docker.service"}) || !r.SELinux() {
		t.Errorf("services %v, SELinux %t", r.Runtimes(), r.SELinux())
	}
}

// TestAddresses: all addresses are IPv4 addresses of this machine, and none is loopback's.
func TestAddresses(t *testing.T) {
	for _, a := range Addresses() {
		ip := net.ParseIP(a)
		if ip.To4() == nil || ip.IsLoopback() {
			t.Errorf("address %s", a)
			continue
		}
		l, err := net.Listen("tcp4", net.JoinHostPort(a, "0")) // works only for an address of this machine
		testkit.Must(t, err)
		testkit.Must(t, l.Close())
	}
}
