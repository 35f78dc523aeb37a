package agent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestFacts(t *testing.T) {
	f := newFakeHost(t)
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
		dpkgStatus:                                "Package: base-files\nStatus: install ok installed\n",
	} {
		write(t, f.root+p, content)
	}
	got, err := f.agent().Facts()
	testkit.Must(t, err)
	if got.OS != "debian 12" || got.MemoryBytes != 24684092<<10 || !got.SysResource || !got.Swap || got.MachineID != "abc" ||
		got.BootID != "def" || !got.Systemd || !got.Dpkg || !got.AppArmor || got.CgroupVersion != 1 || got.CPUs == 0 || got.Kernel == "" || got.Hostname == "" {
		t.Errorf("facts %+v", got)
	}
	write(t, f.root+"/var/lib/x", "")
	if got, err = f.agent().Facts(); err != nil || !got.Fresh || got.DiskFree == 0 || time.Since(got.Clock).Abs() > time.Minute {
		t.Errorf("a machine that nothing was configured on: %+v, %v", got, err)
	}
	if got.Container {
		t.Error("a host counts as a container")
	}
	write(t, f.root+"/run/systemd/container", "systemd-nspawn")
	if got, _ = f.agent().Facts(); !got.Container {
		t.Error("a container counts as a host")
	}
	write(t, f.root+"/proc/self/status", "CapBnd:\t000001fffeffffff\n")
	if got, _ = f.agent().Facts(); got.SysResource {
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

func TestGatewayCheck(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
		w.WriteHeader(status)
	}))
	defer s.Close()
	testkit.Must(t, GatewayCheck(t.Context(), s.URL, time.Minute))
	status = http.StatusServiceUnavailable
	if err := GatewayCheck(t.Context(), s.URL, time.Minute); fail.KindOf(err) != fail.NotReady {
		t.Errorf("503: %v", err)
	}
	if err := GatewayCheck(t.Context(), s.URL+"/slow", 20*time.Millisecond); fail.KindOf(err) != fail.Unreachable {
		t.Errorf("slow: %v", err)
	}
	if err := GatewayCheck(t.Context(), "http://127.0.0.1:1", time.Second); fail.KindOf(err) != fail.Unreachable {
		t.Errorf("nobody there: %v", err)
	}
}

func TestSysctlErrors(t *testing.T) {
	f := newFakeHost(t)
	_, err := f.agent().diffSysctls(map[string]string{"net.bridge.bridge-nf-call-iptables": "1"}, false)
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "net.bridge.bridge-nf-call-iptables") {
		t.Errorf("error %v", err)
	}
	if got := f.agent().sysctlPath("net.ipv4.conf.eth0/1.rp_filter"); !strings.HasSuffix(got, "/net/ipv4/conf/eth0.1/rp_filter") {
		t.Errorf("path %s", got)
	}
	if got := f.agent().sysctlPath("net/ipv4/conf/eth0.1/rp_filter"); !strings.HasSuffix(got, "/net/ipv4/conf/eth0.1/rp_filter") {
		t.Errorf("path %s", got)
	}
	if !enough("kernel.pid_max", "4194304", "32768") || enough("vm.swappiness", "60", "10") || enough("kernel.pid_max", "10", "32768") {
		t.Error("which limits are enough is wrong")
	}
}
