package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const ownNetwork = "NAUPEGOS_TEST_OWN_NETWORK"

// OwnNetwork makes a test run in its own network namespace, where it owns links, routes, packet filter rules and the settings below net. In the
// namespace it brings loopback up and returns true. Elsewhere it runs the test in a new process in a new namespace, reports the result, and returns
// false: the test has been run.
func OwnNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownNetwork) == t.Name() {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			t.Fatalf("switch loopback on: %v: %s", err, out)
		}
		return true
	}
	if os.Geteuid() != 0 {
		t.Fatal("a network namespace is needed: run this test as root")
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.count=1"}
	if end, ok := t.Deadline(); ok { // a little before this process, so that its output is seen
		args = append(args, fmt.Sprintf("-test.timeout=%v", max(time.Until(end)-5*time.Second, time.Second)))
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), ownNetwork+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	t.Logf("in a network namespace of its own:\n%s", out)
	if err != nil {
		t.Errorf("in a network namespace of its own: %v", err)
	}
	return false
}

// InOwnNetwork returns a command line that runs argv in this process's network namespace, from any other namespace, while this process lives.
func InOwnNetwork(argv ...string) []string {
	return append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", os.Getpid()), "--"}, argv...)
}

// KernelWide reports whether all details of a step are kernel settings that network namespaces share. Running machines keep them; for a cluster
// that consists of a network only, in a test's own namespace, others on the host may reset them at any time.
func KernelWide(details []string) bool {
	for _, d := range details {
		if !strings.HasPrefix(d, "host setting fs.") {
			return false
		}
	}
	return len(details) > 0
}
