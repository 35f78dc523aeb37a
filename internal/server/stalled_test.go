package server

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestClientsThatTakeNothing: clients that ask for a large answer and take nothing of it keep no other client out, on either listener.
func TestClientsThatTakeNothing(t *testing.T) {
	const most = 8
	large := bytes.Repeat([]byte("x"), 8<<20)
	client, at, _ := started(t, Config{Limits: Limits{Connections: most, Stalled: 100 * time.Millisecond}, Parts: []Part{{Name: "test", Mounts: []Mount{
		{Pattern: "GET /large", On: Boot, Scope: Public(), Timeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(large) })},
	}}}})
	conf := client.Transport.(*http.Transport).TLSClientConfig.Clone()
	conf.NextProtos = []string{"h2"}
	for i := range most {
		testkit.Value(fmt.Fprint(dialFrom(t, i, at.HTTP), "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
		c := testkit.Value(tls.Dial("tcp", at.HTTPS, conf))(t)
		t.Cleanup(func() { _ = c.Close() })
		testkit.Value(io.WriteString(c, http2.ClientPreface))(t)
		f := http2.NewFramer(c, c)
		testkit.Must(t, f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})) // nobody notices at the connection
		testkit.Must(t, f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("\x82\x87\x41\x01x\x04\x06/large"), EndHeaders: true, EndStream: true}))
		testkit.Until(t, time.Minute, 10*time.Millisecond, func() error { // the answer has begun
			got, err := f.ReadFrame()
			if _, ok := got.(*http2.HeadersFrame); ok {
				return nil
			}
			return fmt.Errorf("%v, %w", got, err)
		})
	}
	for _, url := range []string{"http://" + at.HTTP, "https://" + at.HTTPS} {
		testkit.Until(t, time.Minute, 50*time.Millisecond, func() error {
			res, err := client.Get(url + "/healthz")
			if err != nil {
				return err
			}
			return res.Body.Close()
		})
	}
}

// taking is a connection whose client takes what the test lets it take.
type taking struct {
	from
	may    chan int
	closed chan struct{}
}

func (c *taking) Write(p []byte) (int, error) {
	select {
	case <-c.may:
		return len(p), nil
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *taking) Close() error { close(c.closed); return nil }

// TestSlowClientsAreKept: room is made by a client that takes nothing, not by one that takes a piece now and then, nor by one whose answer is not begun.
func TestSlowClientsAreKept(t *testing.T) {
	d := newDoors(nil, Limits{Connections: 3}, func(netip.Addr) bool { return false })
	now := time.Now()
	d.now = func() time.Time { return now }
	conn := func(i int) *taking {
		return &taking{from(fmt.Sprintf("192.0.2.%d:1", i)), make(chan int), make(chan struct{})}
	}
	slow, idle, nothing := conn(1), conn(2), conn(3)
	ended := make(chan *taking, 2)
	for _, c := range []*taking{slow, idle, nothing} {
		n := d.admit(c)
		n.to(served)
		if c != idle {
			go func() { _, _ = n.Write(make([]byte, 100*piece)); ended <- c }()
		}
	}
	pending := func() (n int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.pending.Len()
	}
	testkit.Until(t, time.Minute, time.Millisecond, func() error {
		if n := pending(); n != 2 {
			return fmt.Errorf("%d write", n)
		}
		return nil
	})
	for range 3 { // a piece every four seconds
		slow.may <- 1
		slow.may <- 1 // the piece before is counted
		d.mu.Lock()
		now = now.Add(4 * time.Second)
		d.mu.Unlock()
	}
	if d.admit(conn(4)) == nil {
		t.Fatal("a client that takes nothing is kept")
	}
	if got := <-ended; got != nothing {
		t.Errorf("the connection of %s was closed", got.from)
	}
	d.waiting[unasked].Front().Value.(*door).to(served)
	if d.admit(conn(5)) != nil {
		t.Error("a slow client, or one without an answer yet, made room")
	}
	d.mu.Lock()
	now = now.Add(stalled)
	d.mu.Unlock()
	if n := d.admit(conn(6)); n == nil || <-ended != slow {
		t.Error("a client that no longer takes anything is kept")
	} else {
		n.to(served)
	}
}

// TestNewcomersAreNotEvictedForEachOther: if most connections are those of clients that take nothing, one of these makes room, not the client that came last.
func TestNewcomersAreNotEvictedForEachOther(t *testing.T) {
	d := newDoors(nil, Limits{Connections: 4}, func(netip.Addr) bool { return false })
	now := time.Now()
	d.now = func() time.Time { return now }
	for i := range 4 {
		n := d.admit(from(fmt.Sprintf("192.0.2.%d:1", i)))
		n.to(served)
		d.pending.PushBack(&pending{n, now})
	}
	now = now.Add(stalled)
	first := d.admit(from("192.0.2.5:1"))
	if first == nil || d.admit(from("192.0.2.6:1")) == nil || first.stage == gone {
		t.Error("the first of two clients made room for the second")
	}
}
