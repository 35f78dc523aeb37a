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

// OwnNetwork has a test run in a network namespace of its own, where links, routes, rules of the packet filter and the settings below
// net are nobody else's. There it switches loopback on and returns true. Everywhere else it runs the test there, in another process, reports
// how that ended, and returns false: the test has been run.
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
	if end, ok := t.Deadline(); ok { // a little before this process, so that what it says is heard
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

// InOwnNetwork returns a command line that has argv run in this process's network namespace, whoever starts it, while this process lives.
func InOwnNetwork(argv ...string) []string {
	return append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", os.Getpid()), "--"}, argv...)
}

// KernelWide reports whether a step's details are all of kernel settings that network namespaces share. They are kept while machines run;
// of a cluster that is a network only, in a namespace of a test's own, others on the host may put them back at any time.
func KernelWide(details []string) bool {
	for _, d := range details {
		if !strings.HasPrefix(d, "host setting fs.") {
			return false
		}
	}
	return len(details) > 0
}
