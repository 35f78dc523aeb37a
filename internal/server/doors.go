package server

import (
	"container/list"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/peer"
)

// Limits limit the resources of clients without credentials. Zero fields select the defaults.
type Limits struct {
	Connections int   // per listener; default 2,048
	PerAddress  int   // per IPv4 address or IPv6 /64; default 256
	Bodies      int64 // bytes of unauthenticated request bodies per listener; default 16 MiB
	// Stalled is how long a client may take nothing of an answer before its connection makes room for others; default 5 s.
	Stalled time.Duration
}

func (l Limits) usual() Limits {
	if l.Connections <= 0 {
		l.Connections = 2048
	}
	if l.PerAddress <= 0 {
		l.PerAddress = 256
	}
	if l.Bodies <= 0 {
		l.Bodies = 16 << 20
	}
	if l.Stalled <= 0 {
		l.Stalled = stalled
	}
	return l
}

// behind returns the limits of the socket that the front process asks at: the front process counts its clients by their addresses and holds at most one
// connection for each, so these limits bound the front process itself.
func (l Limits) behind() Limits {
	l = l.usual()
	n := 2*l.Connections + 64
	return Limits{Connections: n, PerAddress: n, Bodies: 2 * l.Bodies, Stalled: l.Stalled}
}

// doors limits the connections of a listener. When there are too many, it closes the connection with the longest wait: first among those with an
// incomplete request header, then among those with an incomplete body. Connections whose client takes nothing of its answer come first when there are more
// of them than of those without a request, and last otherwise. It closes no other connection whose request is being handled.
type doors struct {
	net.Listener
	limits Limits
	proxy  func(netip.Addr) bool

	mu      sync.Mutex
	all     int
	byPeer  map[string]int
	waiting [2]*list.List // of *door, longest wait first: for a request header, for a body
	bodies  int64
	pending *list.List // of *pending, longest without progress first
	now     func() time.Time
}

// stage is the state of a connection.
type stage int

const (
	unasked stage = iota // waiting for a complete request header
	sending              // waiting for an unauthenticated body
	served               // the server handles the request
	gone
)

// door is one connection.
type door struct {
	net.Conn
	of    *doors
	peer  string
	stage stage
	place *list.Element
	open  int   // unfinished bodies; HTTP/2 allows several
	bytes int64 // of these bodies
}

// newDoors counts the connections of a listener. Connections of the proxies stand for many clients: they count in the total alone.
func newDoors(l net.Listener, limits Limits, proxy func(netip.Addr) bool) *doors {
	return &doors{Listener: l, limits: limits.usual(), proxy: proxy, byPeer: map[string]int{}, waiting: [2]*list.List{list.New(), list.New()}, pending: list.New(), now: time.Now}
}

// Accept implements net.Listener.
func (d *doors) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if n := d.admit(c); n != nil {
			return n, nil
		}
		_ = c.Close() // refused
	}
}

// admit returns the connection to serve, or nil if it exceeds the limits.
func (d *doors) admit(c net.Conn) *door {
	prompt(c)
	n := &door{Conn: c, of: d, peer: peer.Key(c.RemoteAddr().String())}
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil && d.proxy(at.Addr().Unmap()) {
		n.peer = ""
	}
	// The longest wait of the address makes room: many clients may share one, and half-open connections must not keep the others out.
	if n.peer != "" && d.byPeer[n.peer] >= d.limits.PerAddress && !d.evict(func(other *door) bool { return other.peer == n.peer }) {
		return nil
	}
	if d.all >= d.limits.Connections && !d.evict(func(*door) bool { return true }) {
		return nil
	}
	d.all++
	d.byPeer[n.peer]++
	n.place = d.waiting[unasked].PushBack(n)
	return n
}

// evict closes the connection with the longest wait among the evictable ones, and reports whether it found one.
func (d *doors) evict(may func(*door) bool) bool {
	first, then := d.longestWaiting, d.longestStalled
	if d.pending.Len() > d.waiting[unasked].Len() {
		first, then = then, first // otherwise those who have just come would make room for each other
	}
	n := first(may)
	if n == nil {
		n = then(may)
	}
	if n == nil {
		return false
	}
	d.leave(n)
	_ = n.Conn.Close() // its handler gets the error
	return true
}

// leave removes a connection from the count.
func (d *doors) leave(n *door) {
	if n.stage == gone {
		return
	}
	d.move(n, gone)
	d.bodies -= n.bytes
	n.bytes = 0
	d.all--
	if d.byPeer[n.peer]--; d.byPeer[n.peer] == 0 {
		delete(d.byPeer, n.peer)
	}
}

// move sets the stage of a connection.
func (d *doors) move(n *door, s stage) {
	if n.stage == gone || n.stage == s {
		return
	}
	if n.place != nil {
		d.waiting[n.stage].Remove(n.place)
		n.place = nil
	}
	n.stage = s
	if s <= sending {
		n.place = d.waiting[s].PushBack(n)
	}
}

// to sets the connection's stage.
func (n *door) to(s stage) {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	n.of.move(n, s)
}

// Close implements net.Conn.
func (n *door) Close() error {
	n.of.mu.Lock()
	n.of.leave(n)
	n.of.mu.Unlock()
	return n.Conn.Close()
}

// CloseWrite shuts down the writing side, as net/http does before it closes a connection whose client still sends.
func (n *door) CloseWrite() error {
	if c, ok := n.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return nil
}

// begins starts counting a body of the connection.
func (n *door) begins() {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	n.open++
	n.of.move(n, sending)
}

// ends stops counting a body of size bytes.
func (n *door) ends(bytes int64) {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	if n.open--; n.stage == gone {
		return
	}
	n.bytes -= bytes
	n.of.bodies -= bytes
	if n.open == 0 && n.stage == sending {
		n.of.move(n, served)
	}
}

// holds counts bytes of a body, and reports whether they are within the limit. Over the limit, it closes other connections first, in the order of their
// wait, and this one last.
func (n *door) holds(bytes int64) bool {
	d := n.of
	d.mu.Lock()
	defer d.mu.Unlock()
	if n.stage == gone {
		return false
	}
	n.bytes += bytes
	d.bodies += bytes
	for d.bodies > d.limits.Bodies {
		e := d.waiting[sending].Front()
		if e != nil && e.Value.(*door) == n && e.Next() != nil {
			e = e.Next()
		}
		if e == nil {
			return true // no other connection sends a body
		}
		other := e.Value.(*door)
		d.leave(other)
		_ = other.Conn.Close() // its handler gets the error
		if other == n {
			return false
		}
	}
	return true
}

type doorKey struct{}

// watch makes a server report its connections' states to the doors.
func watch(srv *http.Server) {
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if n := doorOf(c); n != nil {
			return context.WithValue(ctx, doorKey{}, n)
		}
		return ctx
	}
	srv.ConnState = func(c net.Conn, s http.ConnState) {
		if n := doorOf(c); n != nil && s == http.StateIdle {
			n.to(unasked)
		}
	}
}

func doorOf(c net.Conn) *door {
	for {
		switch v := c.(type) {
		case *door:
			return v
		case interface{ NetConn() net.Conn }:
			c = v.NetConn()
		default:
			return nil
		}
	}
}

type bodyKey struct{}

// Known ends the count of a request's body as an unauthenticated one. The pages call it before they read the body of a request with a valid session.
func Known(r *http.Request) {
	if left, ok := r.Context().Value(bodyKey{}).(func()); ok {
		left()
	}
}

// entering starts the handling of a request whose header is complete, and returns the writer of its answer. An unauthenticated body counts until it is
// complete, Known is called, or the handler returns and calls left.
func entering(w http.ResponseWriter, r *http.Request, stranger bool) (to http.ResponseWriter, left func()) {
	n, _ := r.Context().Value(doorKey{}).(*door)
	if n == nil {
		return w, func() {}
	}
	left = func() {}
	switch {
	case !stranger || r.Body == nil || r.ContentLength == 0: // a request of HTTP/2 has a body that is not http.NoBody
		n.to(served)
	default:
		n.begins()
		c := &counted{ReadCloser: r.Body, n: n}
		r.Body, left = c, c.end
	}
	return offered{w, n}, left
}

// counted is an unauthenticated body.
type counted struct {
	io.ReadCloser
	n     *door
	bytes int64
	over  bool
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	got, err := c.ReadCloser.Read(p)
	if !c.over && got > 0 {
		c.bytes += int64(got)
		if !c.n.holds(int64(got)) {
			err = net.ErrClosed
		}
	}
	if err != nil {
		c.end()
	}
	return got, err
}

// Close implements io.Closer.
func (c *counted) Close() error {
	c.end()
	return c.ReadCloser.Close()
}

func (c *counted) end() {
	if !c.over {
		c.over = true
		c.n.ends(c.bytes)
	}
}
