package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/testkit"
)

// resident returns the MiB of memory that the Go runtime holds: unlike the process's resident set, without what the race detector adds.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.Sys-m.HeapReleased) >> 20
}

// dialFrom connects from one of many loopback addresses.
func dialFrom(t *testing.T, i int, to string) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(1+i/250), byte(1+i%250))}}
	c := testkit.Value(d.DialContext(t.Context(), "tcp", to))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func doorsServer(t *testing.T) (*http.Client, Addresses) {
	read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			problem.Write(w, fail.Wrap(fail.Invalid, err, "read the body"))
			return
		}
		fmt.Fprint(w, len(data))
	})
	c, at, _ := started(t, Config{
		Guard: func(_ Mount, next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "yes" {
					problem.Write(w, fail.New(fail.Unauthorized, "no token"))
					return
				}
				next.ServeHTTP(w, r)
			})
		},
		Parts: []Part{{Name: "test", Mounts: []Mount{
			{Pattern: "POST /open", On: Boot, Handler: read, Scope: Machine()}, {Pattern: "POST /api", Handler: read, Need: Read, Scope: Own(), Stream: true, MaxBody: 4 << 20}, {Pattern: "POST /plain", Handler: read, Need: Read, Scope: Own()},
		}}},
	})
	return c, at
}

// TestHalfOpenConnections: thousands of connections that send half a request take bounded memory and keep no other client out.
func TestHalfOpenConnections(t *testing.T) {
	_, at := doorsServer(t)
	n := 4000
	big := bytes.Repeat([]byte("x"), 200<<10)
	before := resident(t)
	var writing sync.WaitGroup
	for i := range n {
		switch to := at.HTTP; i % 4 {
		case 0: // half a header
			_, _ = fmt.Fprintf(dialFrom(t, i, to), "POST /open HTTP/1.1\r\nHost: x\r\nX-Long: %s", big[:8<<10])
		case 1: // half a body
			c := dialFrom(t, i, to)
			_, _ = fmt.Fprint(c, "POST /open HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
			_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // the server may have closed it, or not read it yet
			writing.Go(func() { _, _ = c.Write(big) })
		case 2: // nothing
			dialFrom(t, i, to)
		case 3: // half a handshake
			c := dialFrom(t, i, at.HTTPS)
			_, _ = c.Write([]byte{22, 3, 1, 2, 0, 1})
		}
	}
	writing.Wait()
	began := time.Now()
	res := testkit.Value((&http.Client{Timeout: 2 * time.Minute}).Post("http://"+at.HTTP+"/open", "text/plain", strings.NewReader("all of it")))(t)
	got := string(testkit.Value(io.ReadAll(res.Body))(t))
	testkit.Must(t, res.Body.Close())
	took, grown := time.Since(began), resident(t)-before
	t.Logf("%d half-open connections take %d MiB; another request took %s", n, grown, took.Round(time.Millisecond))
	if got != "9" || grown > 200 {
		t.Errorf("%q; %d MiB", got, grown)
	}
}

// TestConnectionsOfOneAddress: half-open connections of one address are limited, and keep no client of that address out, nor of others.
func TestConnectionsOfOneAddress(t *testing.T) {
	_, at := doorsServer(t)
	first := dialFrom(t, 1, at.HTTP)
	for range 300 {
		dialFrom(t, 1, at.HTTP)
	}
	last := dialFrom(t, 1, at.HTTP)
	_, err := fmt.Fprint(last, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	testkit.Must(t, err)
	_ = last.SetReadDeadline(time.Now().Add(30 * time.Second))
	if n, err := last.Read(make([]byte, 100)); n == 0 {
		t.Errorf("another client of the address: %v", err)
	}
	_ = first.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := first.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("the longest wait goes on: %v", err)
	}
	res := testkit.Value((&http.Client{Timeout: 30 * time.Second}).Get("http://" + at.HTTP + "/healthz"))(t)
	testkit.Must(t, res.Body.Close())
}

// TestConnectionsOfProxies: a trusted proxy's connections count in the total alone.
func TestConnectionsOfProxies(t *testing.T) {
	proxy := netip.MustParseAddr("10.0.0.5")
	d := newDoors(nil, Limits{PerAddress: 2, Connections: 5}, func(ip netip.Addr) bool { return ip == proxy })
	for i, c := range []struct {
		from    string
		waiting int
	}{{"10.0.0.5:1", 1}, {"10.0.0.5:2", 2}, {"10.0.0.5:3", 3}, {"192.0.2.1:1", 4}, {"192.0.2.1:2", 5}, {"192.0.2.1:3", 5}, {"10.0.0.5:4", 5}} {
		if d.admit(from(c.from)) == nil || d.all != c.waiting {
			t.Errorf("connection %d: %d are open", i+1, d.all)
		}
	}
}

// from is a connection from an address.
type from string

func (f from) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(string(f)))
}
func (from) Close() error        { return nil }
func (from) LocalAddr() net.Addr { return nil }

func (from) Read([]byte) (int, error)         { return 0, io.EOF }
func (from) Write(p []byte) (int, error)      { return len(p), nil }
func (from) SetDeadline(time.Time) error      { return nil }
func (from) SetReadDeadline(time.Time) error  { return nil }
func (from) SetWriteDeadline(time.Time) error { return nil }

// TestGuardBeforeBody: a request without a token is answered before its body.
func TestGuardBeforeBody(t *testing.T) {
	client, at := doorsServer(t)
	for _, path := range []string{"/api", "/plain"} {
		for _, length := range []string{"Content-Length: 1000", "Content-Length: 3000000", "Transfer-Encoding: chunked"} {
			conf := client.Transport.(*http.Transport).TLSClientConfig.Clone()
			conf.NextProtos = []string{"http/1.1"}
			c := testkit.Value(tls.Dial("tcp", at.HTTPS, conf))(t)
			testkit.Value(fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", path, length))(t)
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
			line := make([]byte, 12)
			if _, err := io.ReadFull(c, line); err != nil || string(line) != "HTTP/1.1 401" {
				t.Errorf("%s, %s: %q, %v", path, length, line, err)
			}
			testkit.Must(t, c.Close())
		}
		req := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+at.HTTPS+path, strings.NewReader("abc")))(t)
		req.Header.Set("Authorization", "yes")
		res := testkit.Value(client.Do(req))(t)
		if got := string(testkit.Value(io.ReadAll(res.Body))(t)); got != "3" || res.Close {
			t.Errorf("%s: %q, close %v", path, got, res.Close)
		}
		testkit.Must(t, res.Body.Close())
	}
}

// TestBodiesOfPages: bodies to the pages count as those of strangers until the pages know their operator.
func TestBodiesOfPages(t *testing.T) {
	entered := make(chan struct{}, 1)
	form := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") == "known" {
			Known(r)
		}
		entered <- struct{}{}
		data, _ := io.ReadAll(r.Body) // of a closed connection, it is not complete
		fmt.Fprint(w, len(data))
	})
	_, at, _ := started(t, Config{Limits: Limits{Bodies: 1 << 20}, Parts: []Part{{Name: "test", Mounts: []Mount{{Pattern: "POST /form", On: Boot, Handler: form, Need: Operate, Scope: Own(), Pages: true}}}}})
	begin := func(i int, cookie string) net.Conn {
		c := dialFrom(t, i, at.HTTP)
		_, err := fmt.Fprintf(c, "POST /form HTTP/1.1\r\nHost: x\r\nCookie: %s\r\nContent-Length: 500001\r\n\r\n%s", cookie, strings.Repeat("x", 500_000))
		testkit.Must(t, err)
		<-entered
		return c
	}
	known, first := begin(0, "known"), begin(1, "unknown")
	for i := range 3 { // the server may still read the body when the next begins
		begin(2+i, "unknown")
	}
	_ = first.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := first.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
		t.Errorf("strangers' bodies for pages are not bounded: %v", err)
	}
	_, err := known.Write([]byte("x"))
	testkit.Must(t, err)
	_ = known.SetReadDeadline(time.Now().Add(30 * time.Second))
	if line, err := bufio.NewReader(known).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Errorf("an operator's form: %q, %v", line, err)
	}
}

// TestChunkedRequestsCloseTheirConnection: what follows a request with Content-Length and Transfer-Encoding is not answered; after a request with one of them,
// the connection goes on as usual.
func TestChunkedRequestsCloseTheirConnection(t *testing.T) {
	_, at := doorsServer(t)
	next := "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	for head, answers := range map[string]int{"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": 1, "Content-Length: 1\r\n\r\na": 2} {
		for _, path := range []string{"/open", "/nothing"} {
			c := dialFrom(t, 1, at.HTTP)
			testkit.Value(fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\n%s%s", path, head, strings.Replace(next, "Host", "Connection: close\r\nHost", 1)))(t)
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			all := string(testkit.Value(io.ReadAll(c))(t))
			if got := strings.Count(all, "HTTP/1.1 "); got != answers {
				t.Errorf("%s, %q: %d answers: %s", path, head, got, all)
			}
		}
	}
}

// TestAnswersToOperatorsAreNotKept: no cache keeps what only operators may see.
func TestAnswersToOperatorsAreNotKept(t *testing.T) {
	client, at := doorsServer(t)
	req := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+at.HTTPS+"/plain", strings.NewReader("abc")))(t)
	req.Header.Set("Authorization", "yes")
	res := testkit.Value(client.Do(req))(t)
	testkit.Must(t, res.Body.Close())
	if res.StatusCode != 200 || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
}
