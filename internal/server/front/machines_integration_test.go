//go:build integration

package front_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// leadsMachines runs a server that gives out addresses, between network namespaces: its front process, which has two capabilities and no other file,
// serves DHCP, TFTP and HTTP, keeps its leases when it is killed, and takes over the leases of a former version.
func leadsMachines(t *testing.T, program string) {
	names := [2]string{fmt.Sprintf("naupegos-s%d", os.Getpid()), fmt.Sprintf("naupegos-m%d", os.Getpid())}
	for _, name := range names {
		command(t, "ip", "netns", "add", name)
		t.Cleanup(func() { command(t, "ip", "netns", "del", name) })
	}
	command(t, "ip", "link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1])
	command(t, "ip", "-n", names[0], "address", "add", "10.99.0.1/24", "dev", "eth0")
	for _, name := range names {
		command(t, "ip", "-n", name, "link", "set", "eth0", "up")
	}
	r := &running{state: t.TempDir(), said: &bytes.Buffer{}}
	former := filepath.Join(r.state, "dhcp-leases")
	testkit.Must(t, os.WriteFile(former, fmt.Appendf(nil, `{"mac":"52:54:00:00:00:77","address":"10.99.0.10","until":%q}`+"\n", time.Now().Add(time.Hour).Format(time.RFC3339)), 0o600))
	r.Cmd = exec.Command("ip", "netns", "exec", names[0], program, "server", "--state-dir", r.state, "--listen-http", "10.99.0.1:8080", "--listen-https", "10.99.0.1:8443",
		"--netboot-interface", "eth0", "--dhcp", "on", "--dhcp-range", "10.99.0.10-10.99.0.11", "--discovery-image", "none")
	r.Stdout, r.Stderr = r.said, r.said
	testkit.Must(t, r.Start())
	t.Cleanup(func() {
		if r.ProcessState == nil {
			_ = r.Process.Kill()
			_ = r.Wait()
		}
	})
	script := filepath.Join(t.TempDir(), "told")
	testkit.Must(t, os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" != bound ] || echo \"address=$ip\"\n"), 0o700))
	lease := func() string {
		out := command(t, "ip", "netns", "exec", names[1], "busybox", "udhcpc", "-i", "eth0", "-f", "-q", "-n", "-t", "120", "-T", "1", "-s", script)
		return regexp.MustCompile(`address=\S+`).FindString(out)
	}
	if got := lease(); got != "address=10.99.0.11" { // the other one is leased already
		t.Errorf("the machine got %q", got)
	}
	pid := r.front(t)
	status := string(testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t))
	for _, want := range []string{"CapPrm:\t0000000000002400", "CapEff:\t0000000000002400", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, want) {
			t.Errorf("it lacks %q:\n%s", want, status)
		}
	}
	command(t, "ip", "-n", names[1], "address", "add", "10.99.0.200/24", "dev", "eth0")
	program = filepath.Join(t.TempDir(), "ipxe")
	command(t, "ip", "netns", "exec", names[1], "busybox", "tftp", "-g", "-l", program, "-r", "undionly.kpxe", "10.99.0.1")
	if data := testkit.Value(os.ReadFile(program))(t); len(data) < 10_000 {
		t.Errorf("iPXE has %d bytes", len(data))
	}
	if out := command(t, "ip", "netns", "exec", names[1], "busybox", "wget", "-q", "-O", "-", "http://10.99.0.1:8080/boot.ipxe"); !strings.HasPrefix(out, "#!ipxe") {
		t.Error(out)
	}
	if _, err := os.Lstat(former); err == nil {
		t.Error("the leases of a former version stay")
	}
	testkit.Must(t, syscall.Kill(pid, syscall.SIGKILL))
	if got := lease(); got != "address=10.99.0.11" {
		t.Errorf("after the front process was killed, the machine got %q", got)
	}
	leases := string(testkit.Value(os.ReadFile(filepath.Join(r.state, "dhcp/leases")))(t))
	const mac = "52:54:00:00:00:77"
	if !strings.Contains(leases, mac) || !strings.Contains(leases, "10.99.0.11") {
		t.Errorf("the leases are %s", leases)
	}
	testkit.Must(t, r.Process.Signal(syscall.SIGTERM))
	testkit.Must(t, r.Wait())
	if t.Failed() {
		t.Log(r.said)
	}
}

func command(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", argv, err, out)
	}
	return string(out)
}
