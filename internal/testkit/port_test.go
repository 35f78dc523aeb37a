package testkit

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

func TestFreePort(t *testing.T) {
	port := FreePort(t)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 20 {
		if FreePort(t) == port {
			t.Errorf("port %d is taken", port)
		}
	}
}

// TestPortsOfOtherProcesses: another test process does not get a port that this one reserved and does not listen at yet.
func TestPortsOfOtherProcesses(t *testing.T) {
	const asked = "NAUPEGOS_TEST_PORT"
	if port := os.Getenv(asked); port != "" {
		var n int
		if _, err := fmt.Sscan(port, &n); err != nil {
			t.Fatal(err)
		}
		fmt.Println("reserved:", reserve(n))
		return
	}
	ask := func(port int) string {
		t.Helper()
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", asked, port))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	port := FreePort(t)
	runtime.GC() // must not free it
	if out := ask(port); !strings.Contains(out, "address already in use") {
		t.Errorf("another process was given port %d too: %s", port, out)
	}
	name, _ := given.Load(port)
	if err := name.(net.Listener).Close(); err != nil {
		t.Fatal(err)
	}
	if out := ask(port); !strings.Contains(out, "reserved: <nil>") {
		t.Errorf("port %d is not to be had although it is free: %s", port, out)
	}
}
