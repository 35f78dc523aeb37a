package connect

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestNamesOfTheServerItself: on a server, a name that a document's author lets point to the server is not followed; an address is the policy's matter.
func TestNamesOfTheServerItself(t *testing.T) {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return answering(t, [4]byte{127, 0, 0, 1}), nil
	}}
	for _, c := range []struct {
		host   string
		closed bool
		ok     bool
	}{
		{"api.example.org", true, false}, {"api.example.org", false, true}, {"127.0.0.1", true, true},
	} {
		d := dialer(net.JoinHostPort(c.host, port), c.closed)
		d.Resolver = resolver
		conn, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(c.host, port))
		if err == nil {
			conn.Close()
		}
		if (err == nil) != c.ok || !c.ok && (!strings.Contains(err.Error(), "may not reach") || fail.KindOf(err) != fail.Refused) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestAddressesThatAClusterTells: a server does not connect to itself or to a metadata service because a cluster's API names them; commands of a user may.
func TestAddressesThatAClusterTells(t *testing.T) {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0"} {
		for _, closed := range []bool{true, false} {
			addr := net.JoinHostPort(host, port)
			conn, err := told(addr, closed).DialContext(t.Context(), "tcp", addr)
			if err == nil {
				conn.Close()
			}
			if (err == nil) == closed || closed && fail.KindOf(err) != fail.Refused {
				t.Errorf("%s, closed: %v: %v", addr, closed, err)
			}
		}
	}
	for _, addr := range []string{"169.254.169.254:80", "[fe80::1%lo]:80", "[fd00:ec2::254]:80", "[::1]:" + port} {
		if _, err := told(addr, true).DialContext(t.Context(), "tcp", addr); fail.KindOf(err) != fail.Refused {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// answering is a name server that gives every name one address, over a stream (RFC 1035, 4.2.2).
func answering(t *testing.T, ip [4]byte) net.Conn {
	mine, theirs := net.Pipe()
	t.Cleanup(func() { mine.Close() })
	go func() {
		defer mine.Close()
		for buf := make([]byte, 2048); ; {
			n, err := mine.Read(buf)
			if err != nil {
				return
			}
			for n < 2 || n < 2+int(buf[0])<<8+int(buf[1]) {
				more, err := mine.Read(buf[n:])
				if err != nil {
					return
				}
				n += more
			}
			query := append([]byte(nil), buf[2:n]...)
			end := 12
			for query[end] != 0 {
				end += int(query[end]) + 1
			}
			end += 5
			answer := append(append([]byte(nil), query[:2]...), 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
			answer = append(answer, query[12:end]...)
			if query[end-3] == 1 { // type A
				answer[7] = 1
				answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, ip[0], ip[1], ip[2], ip[3])
			}
			if _, err := mine.Write(append([]byte{byte(len(answer) >> 8), byte(len(answer))}, answer...)); err != nil {
				return
			}
		}
	}()
	return theirs
}
