package testkit

import (
	"fmt"
	"net"
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
