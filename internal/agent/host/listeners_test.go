package host

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

const tcpHead = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

func TestListeners(t *testing.T) {
	root := Root(t.TempDir())
	for p, content := range map[string]string{
		"/proc/net/tcp": tcpHead +
			"   0: 00000000:280A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0\n" +
			"   1: 0100007F:20D4 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1 0 100 0 0 10 0\n" +
			"   2: 0100007F:0050 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 333 1 0 100 0 0 10 0\n",
		"/proc/net/tcp6": tcpHead +
			"   0: 00000000000000000000000000000000:192B 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 444 1 0 100 0 0 10 0\n" +
			"   1: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 555 1 0 100 0 0 10 0\n",
		"/proc/41/comm":   "worker\n",
		"/proc/40/comm":   "nginx\n",
		"/proc/40/cgroup": "3:cpu:/system.slice/other.service\n1:name=systemd:/machine.slice/x.service/payload/system.slice/nginx.service\n0::/\n",
		"/proc/50/comm":   "kubelet\n",
		"/proc/50/cgroup": "0::/naupegos-x.service/user.slice/session-1.scope\n",
	} {
		write(t, root, p, content)
	}
	for link, target := range map[string]string{
		"/proc/40/fd/3": "socket:[111]", "/proc/41/fd/3": "socket:[111]", "/proc/41/fd/4": "/dev/null",
		"/proc/50/fd/7": "socket:[222]", "/proc/50/fd/8": "socket:[333]", "/proc/50/fd/9": "socket:[444]",
	} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(root.Path(link)), 0o755))
		testkit.Must(t, os.Symlink(target, root.Path(link)))
	}
	want := []machine.Listener{
		{Address: "::", Port: 6443, Process: "kubelet", PID: 50},
		{Address: "127.0.0.1", Port: 8080},
		{Address: "127.0.0.1", Port: 8404, Process: "kubelet", PID: 50},
		{Address: "0.0.0.0", Port: 10250, Process: "nginx", PID: 40, Unit: "nginx.service"},
	}
	if d := cmp.Diff(want, root.Listeners()); d != "" {
		t.Errorf("listeners:\n%s", d)
	}
}

// TestListenersOfThisHost: Listeners finds the test's own socket on the real kernel.
func TestListenersOfThisHost(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		l, err := net.Listen("tcp", at)
		if err != nil && strings.HasPrefix(at, "[") {
			t.Log("no IPv6 here:", err)
			continue
		}
		testkit.Must(t, err)
		defer l.Close()
		addr := l.Addr().(*net.TCPAddr)
		name, err := os.ReadFile("/proc/self/comm")
		testkit.Must(t, err)
		found := Root("/").Listeners()
		i := slices.IndexFunc(found, func(x machine.Listener) bool { return x.Port == addr.Port })
		if i < 0 || found[i].PID != os.Getpid() || found[i].Process != strings.TrimSpace(string(name)) || net.ParseIP(found[i].Address).Equal(addr.IP) == false {
			t.Errorf("%v is not found: %+v", addr, found)
		}
	}
}
