package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Ports that neither the kernel gives to outgoing connections nor servers of a usual host listen at: one that is free now is most
// likely free still when a test's server comes to it.
const firstPort, lastPort = 12000, 19999

var given sync.Map // by port: the listener that keeps other test processes from being given it

// FreePort returns a TCP port of loopback at which nobody listens, for a server that can't be handed a listener. It returns each port once,
// to one of all the test processes on this host, until that process ends.
func FreePort(t testing.TB) int {
	t.Helper()
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // a port is not a secret
		if last = reserve(port); last == nil {
			return port
		}
	}
	t.Fatalf("no free port between %d and %d: %v", firstPort, lastPort, last)
	return 0
}

// reserve makes a port this process's own. An abstract socket's name is what test processes agree by: like a port there is one in each
// network namespace, and the kernel frees it when the process ends.
func reserve(port int) error {
	name, err := net.Listen("unix", fmt.Sprintf("@naupegos-test-port-%d", port))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		name.Close() //nolint:errcheck // nobody has connected, and the port is not taken
		return err
	}
	given.Store(port, name)
	return nil
}
