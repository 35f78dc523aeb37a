package agent

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

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
