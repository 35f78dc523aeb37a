package host

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	for _, s := range []string{"docker.service", "containerd.service", "ssh.service", "snap.k8s.kubelet.service", "snap.docker.dockerd.service", "snap.lxd.daemon.service"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, "sys/fs/cgroup/system.slice", s), 0o755))
	}
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "sys/fs/selinux"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "sys/fs/selinux/enforce"), []byte("1"), 0o600))
	if r := Root(dir); !slices.Equal(r.Runtimes(), []string{"containerd.service", "docker.service", "snap.docker.dockerd.service", "snap.k8s.kubelet.service"}) || !r.SELinux() {
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

// TestPacketFilters: Firewall names the service that loads rules at boot which drop packets by default.
func TestPacketFilters(t *testing.T) {
	const nft = "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\t}\n}\n"
	for name, c := range map[string]struct {
		service, file, text string
		want                string
	}{
		"nftables":               {"nftables", "etc/nftables.conf", "#!/usr/sbin/nft -f\nflush ruleset\n" + nft, "nftables"},
		"nftables, one line":     {"nftables", "etc/nftables.conf", "table ip f { chain INPUT { type filter hook input priority 0 ; policy drop ; } }", "nftables"},
		"nftables, own file":     {"nftables", "etc/nftables.d/site.nft", nft, "nftables"},
		"nftables, accepts":      {"nftables", "etc/nftables.conf", strings.Replace(nft, "policy drop", "policy accept", 1), ""},
		"nftables, no policy":    {"nftables", "etc/nftables.conf", strings.Replace(nft, "policy drop;", "", 1), ""},
		"nftables, forward":      {"nftables", "etc/nftables.conf", "table ip f {\n chain input { type filter hook input priority 0; }\n chain forward { type filter hook forward priority 0; policy drop; }\n}", ""},
		"nftables, comment":      {"nftables", "etc/nftables.conf", "# type filter hook input priority 0; policy drop;\n", ""},
		"nftables, final rule":   {"nftables", "etc/nftables.conf", "table ip f {\n chain input {\n type filter hook input priority 0; policy accept;\n tcp dport 22 accept\n drop\n }\n}", "nftables"},
		"nftables, ends counted": {"nftables", "etc/nftables.conf", "table ip f {\n chain input {\n type filter hook input priority 0;\n counter reject with icmp type admin-prohibited\n }\n}", "nftables"},
		"nftables, some dropped": {"nftables", "etc/nftables.conf", "table ip f {\n chain input {\n type filter hook input priority 0;\n ct state invalid drop\n }\n}", ""},
		"nftables disabled":      {"", "etc/nftables.conf", nft, ""},
		"iptables":               {"netfilter-persistent", "etc/iptables/rules.v4", "*filter\n:INPUT DROP [0:0]\n:FORWARD ACCEPT [0:0]\nCOMMIT\n", "netfilter-persistent"},
		"iptables, final rule":   {"netfilter-persistent", "etc/iptables/rules.v4", "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p tcp --dport 22 -j ACCEPT\n-A INPUT -j REJECT --reject-with icmp-host-prohibited\nCOMMIT\n", "netfilter-persistent"},
		"iptables, accepts":      {"netfilter-persistent", "etc/iptables/rules.v4", "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n-A INPUT -m conntrack --ctstate INVALID -j DROP\nCOMMIT\n", ""},
		"iptables, no rules":     {"netfilter-persistent", "etc/other", "", ""},
		"shorewall":              {"shorewall", "etc/shorewall/policy", "fw all ACCEPT\nnet all DROP\n", "shorewall"},
		"shorewall, no policy":   {"shorewall", "etc/shorewall/policy", "#SOURCE DEST POLICY\n# net all DROP\n", ""},
		"shorewall, accepts":     {"shorewall", "etc/shorewall/policy", "all all ACCEPT\n", ""},
		"shorewall, disabled":    {"", "etc/shorewall/policy", "net all DROP\n", ""},
		"ferm":                   {"ferm", "etc/ferm/ferm.conf", "table filter {\n chain INPUT {\n policy DROP;\n }\n}\n", "ferm"},
	} {
		dir := t.TempDir()
		wants := filepath.Join(dir, "etc/systemd/system/sysinit.target.wants")
		testkit.Must(t, os.MkdirAll(wants, 0o755))
		testkit.Must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(c.file)), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o600))
		if strings.HasPrefix(c.file, "etc/nftables.d") {
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "etc/nftables.conf"), []byte("flush ruleset\ninclude \"/etc/nftables.d/*.nft\"\n"), 0o600))
		}
		if c.service != "" {
			testkit.Must(t, os.Symlink("/lib/systemd/system/"+c.service+".service", filepath.Join(wants, c.service+".service")))
		}
		if got := Root(dir).Firewall(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
