package testkit

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestOwnNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if !OwnNetwork(t) {
		return
	}
	links, err := net.Interfaces()
	Must(t, err)
	for _, l := range links {
		if l.Name != "lo" && l.Flags&net.FlagUp != 0 {
			t.Errorf("a link of the host's is here: %s", l.Name)
		}
	}
	here, err := os.Readlink("/proc/self/ns/net")
	Must(t, err)
	argv := InOwnNetwork("readlink", "/proc/self/ns/net")
	if out, err := exec.Command(argv[0], argv[1:]...).Output(); err != nil || strings.TrimSpace(string(out)) != here {
		t.Errorf("%s: %v, want %s", out, err, here)
	}
}

func TestKernelWide(t *testing.T) {
	const instances, forwarding = "host setting fs.inotify.max_user_instances: 128 → 2048", "host setting net.ipv4.ip_forward: 0 → 1"
	if !KernelWide([]string{instances}) || KernelWide([]string{instances, forwarding}) || KernelWide(nil) {
		t.Error("only settings below fs are the kernel's, and no detail is another reason")
	}
}
