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

var given sync.Map // ports that FreePort has returned

// FreePort returns a TCP port of loopback at which nobody listens, another one each time, for a server that can't be handed a listener.
func FreePort(t testing.TB) int {
	t.Helper()
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // a port is no secret
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		_, again := given.LoadOrStore(port, true)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if again {
			continue
		}
		return port
	}
	t.Fatalf("no free port between %d and %d: %v", firstPort, lastPort, last)
	return 0
}
