package testkit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Ports that neither the kernel uses for outgoing connections nor servers of a usual host listen at. A free one most likely stays free until a
// test's server listens at it.
const firstPort, lastPort = 12000, 19999

var given sync.Map // by port: the listener that reserves it among test processes

// FreePort returns a free TCP port of loopback, for a server that can't be given a listener. Until this process ends, no test process on the host
// gets the same port again.
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

// reserve reserves a port for this process. The name of an abstract socket is the lock among test processes: like a port it belongs to a network
// namespace, and the kernel releases it when the process ends.
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
		name.Close() //nolint:errcheck // the port has no connections and stays reserved until then
		return err
	}
	given.Store(port, name)
	return nil
}
