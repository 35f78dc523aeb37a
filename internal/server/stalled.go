package server

import (
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

// stalled is how long a client may take nothing of an answer before its connection counts as waiting.
const stalled = 5 * time.Second

// piece is how much of an answer is written at once. A client has to take a piece within the time above.
const piece = 32 << 10

// notSent bounds the bytes of a connection that the kernel keeps unsent. Otherwise it takes megabytes at once, and then nothing for seconds although the
// client reads.
const notSent = 128 << 10

// tcpNotSent is Linux's TCP_NOTSENT_LOWAT.
const tcpNotSent = 25

// pending is a piece that a client has not taken.
type pending struct {
	n     *door
	since time.Time
}

// prompt bounds what the kernel keeps unsent.
func prompt(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { // without it, slow clients look stalled sooner
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpNotSent, notSent)
		})
	}
}

// offer writes b in pieces, each of which is pending until it is written.
func (n *door) offer(to io.Writer, b []byte) (written int, err error) {
	d := n.of
	d.mu.Lock()
	e := d.pending.PushBack(&pending{n, d.now()})
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.pending.Remove(e)
	}()
	for {
		k, err := to.Write(b[written:min(written+piece, len(b))])
		written += k
		if err != nil || written == len(b) {
			return written, err
		}
		d.mu.Lock()
		e.Value.(*pending).since = d.now()
		d.pending.MoveToBack(e)
		d.mu.Unlock()
	}
}

// longestStalled returns the connection whose client has taken nothing for the longest time, if that is too long.
func (d *doors) longestStalled(may func(*door) bool) *door {
	for e := d.pending.Front(); e != nil; e = e.Next() {
		p := e.Value.(*pending)
		if d.now().Sub(p.since) < d.limits.Stalled {
			return nil
		}
		if p.n.stage != gone && may(p.n) { // a closed connection's write is about to fail
			return p.n
		}
	}
	return nil
}

// longestWaiting returns the connection with the longest wait for a request.
func (d *doors) longestWaiting(may func(*door) bool) *door {
	for _, l := range d.waiting {
		for e := l.Front(); e != nil; e = e.Next() {
			if n := e.Value.(*door); may(n) {
				return n
			}
		}
	}
	return nil
}

// Write implements net.Conn.
func (n *door) Write(b []byte) (int, error) { return n.offer(n.Conn, b) }

// offered writes an answer in pieces. Streams of HTTP/2 stall each on their own, while the connection takes what others write.
type offered struct {
	http.ResponseWriter
	n *door
}

// Write implements http.ResponseWriter.
func (o offered) Write(b []byte) (int, error) { return o.n.offer(o.ResponseWriter, b) }

// Unwrap is for http.ResponseController.
func (o offered) Unwrap() http.ResponseWriter { return o.ResponseWriter }
