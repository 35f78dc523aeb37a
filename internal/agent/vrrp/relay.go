// Package vrrp relays the adverts of gateways, so that gateways that do not reach each other still hear each other.
package vrrp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/naupegos/naupegos/internal/fail"
)

// protocol is VRRP's IP protocol number (RFC 5798, section 5.1.1.4), hops the TTL that proves that a packet comes from the link (5.1.1.3).
const (
	protocol = 112
	hops     = 255
)

// maxPriority is the highest priority of a gateway that may give the address up.
const maxPriority = 254

// maxAdvert is larger than an advert with its 255 addresses of IPv6.
const maxAdvert = 8 + 255*16

// heard is how long an advert proves that its sender holds the virtual address: two of the intervals of gateways (half a second) and some delay, and
// less than the 1.6 seconds after which a gateway that hears no other one takes the address.
const heard = 1250 * time.Millisecond

// Relay passes each advert that a gateway sends to this machine on to the other gateways, until ctx ends. A gateway that hears another one through a
// relay does not take the virtual address, which it would if an advert could only come straight from the holder. A relay sends from its own address,
// so networks that drop forged ones, such as OpenStack's, let it through. It asks no API. It drops packets of other senders, and packets that a
// router forwarded. Relay tells log when adverts to a gateway begin to fail, and when they leave again.
func Relay(ctx context.Context, gateways []netip.Addr, log io.Writer) error {
	if len(gateways) < 2 {
		return fail.New(fail.Invalid, "relay adverts between %d gateways", len(gateways)).Do("name two or more addresses")
	}
	for _, g := range gateways {
		if g.Is4() != gateways[0].Is4() {
			return fail.New(fail.Invalid, "relay adverts between %s and %s", gateways[0], g).Do("name addresses of one family")
		}
	}
	conn, err := net.ListenPacket(network(gateways[0]), "")
	if err != nil {
		return fail.Wrap(fail.Refused, err, "receive adverts").Do("run it with CAP_NET_RAW")
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	link, err := open(conn, gateways[0].Is4())
	if err == nil {
		err = newRelay(gateways, log).run(link)
	}
	if ctx.Err() != nil {
		return nil
	}
	return fail.Wrap(fail.Unreachable, err, "receive adverts")
}

// claim is the last advert of a gateway.
type claim struct {
	at       time.Time
	priority byte
}

// relay decides where adverts go.
type relay struct {
	gateways []netip.Addr
	holds    map[netip.Addr]claim
	unsent   map[netip.Addr]bool // gateways to which the last advert could not be sent
	log      io.Writer
}

func newRelay(gateways []netip.Addr, log io.Writer) *relay {
	return &relay{gateways: gateways, holds: map[netip.Addr]claim{}, unsent: map[netip.Addr]bool{}, log: log}
}

// run passes adverts on until the socket closes. A gateway that a packet does not reach gets the next one.
func (r *relay) run(l link) error {
	buf := make([]byte, maxAdvert)
	for {
		n, ttl, from, to, err := l.read(buf)
		if err != nil {
			return err
		}
		if !slices.Contains(r.gateways, from) || ttl != hops || n < 8 {
			continue
		}
		for peer, priority := range r.pass(time.Now(), from, buf[2]) {
			packet := slices.Clone(buf[:n])
			readdress(packet, priority, from, to, peer)
			r.note(peer, l.write(packet, to, peer))
		}
	}
}

// note reports the first advert to a gateway that could not be sent, and the first one after that could: there are two each second.
func (r *relay) note(to netip.Addr, err error) {
	if r.unsent[to] == (err != nil) {
		return
	}
	r.unsent[to] = err != nil
	if err != nil {
		fmt.Fprintf(r.log, "adverts to gateway %s can't be sent: %v\n", to, err)
	} else {
		fmt.Fprintf(r.log, "adverts to gateway %s are sent again\n", to)
	}
}

// pass returns the gateways that receive an advert, and with which priority. While two gateways send adverts, both hold the address, and one must give
// it up: keepalived's rule (the higher priority, then the higher address) would compare the relay's address here, so the relay applies it. It sends the
// winner's advert alone, with a priority above the loser's.
func (r *relay) pass(now time.Time, from netip.Addr, priority byte) map[netip.Addr]byte {
	if r.holds[from] = (claim{now, priority}); priority == 0 { // the sender stops
		delete(r.holds, from)
	}
	out := map[netip.Addr]byte{}
	for _, g := range r.gateways {
		other, both := r.holds[g]
		both = both && now.Sub(other.at) < heard && priority > 0
		switch {
		case g == from || both && (priority < other.priority || priority == other.priority && from.Less(g)):
		case both && priority < maxPriority:
			out[g] = priority + 1
		default:
			out[g] = priority
		}
	}
	return out
}

func network(a netip.Addr) string {
	if a.Is4() {
		return "ip4:112"
	}
	return "ip6:112"
}

// link reads and writes packets without their IP headers. An answer leaves from the address at which the advert arrived, which is the one that
// gateways take adverts from.
type link struct {
	read  func(buf []byte) (n, ttl int, from, to netip.Addr, err error)
	write func(packet []byte, from, to netip.Addr) error
}

func open(conn net.PacketConn, v4 bool) (link, error) {
	if v4 {
		c := ipv4.NewPacketConn(conn)
		return link{
			func(buf []byte) (n, ttl int, from, to netip.Addr, err error) {
				n, cm, src, err := c.ReadFrom(buf)
				if err == nil && cm != nil {
					ttl, to = cm.TTL, addr(cm.Dst)
				}
				return n, ttl, source(src), to, err
			},
			func(packet []byte, from, to netip.Addr) error {
				_, err := c.WriteTo(packet, &ipv4.ControlMessage{Src: from.AsSlice()}, &net.IPAddr{IP: to.AsSlice()})
				return err
			},
		}, errors.Join(c.SetControlMessage(ipv4.FlagTTL|ipv4.FlagDst, true), c.SetTTL(hops))
	}
	c := ipv6.NewPacketConn(conn)
	return link{
		func(buf []byte) (n, ttl int, from, to netip.Addr, err error) {
			n, cm, src, err := c.ReadFrom(buf)
			if err == nil && cm != nil {
				ttl, to = cm.HopLimit, addr(cm.Dst)
			}
			return n, ttl, source(src), to, err
		},
		func(packet []byte, from, to netip.Addr) error {
			_, err := c.WriteTo(packet, &ipv6.ControlMessage{Src: from.AsSlice()}, &net.IPAddr{IP: to.AsSlice()})
			return err
		},
	}, errors.Join(c.SetControlMessage(ipv6.FlagHopLimit|ipv6.FlagDst, true), c.SetHopLimit(hops))
}

func addr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip) // the zero address equals none that a packet has
	return a.Unmap()
}

func source(a net.Addr) netip.Addr {
	if ip, ok := a.(*net.IPAddr); ok {
		return addr(ip.IP)
	}
	return netip.Addr{}
}

// readdress changes an advert's priority, and makes its checksum that of a packet from the relay (to) to a peer. A sender need not have summed the
// pseudo-header (RFC 5798, section 5.2.8): version 2 has none. A packet whose checksum is wrong stays wrong.
func readdress(packet []byte, priority byte, from, to, peer netip.Addr) {
	var sums func(from, to netip.Addr) uint16
	switch {
	case checksum(packet, pseudo(packet, from, to)) == 0:
		sums = func(from, to netip.Addr) uint16 { return checksum(packet, pseudo(packet, from, to)) }
	case checksum(packet, nil) == 0:
		sums = func(_, _ netip.Addr) uint16 { return checksum(packet, nil) }
	default:
		return
	}
	packet[2] = priority
	binary.BigEndian.PutUint16(packet[6:], 0)
	binary.BigEndian.PutUint16(packet[6:], sums(to, peer))
}

// pseudo is what the pseudo-header of a packet contributes to its checksum.
func pseudo(packet []byte, from, to netip.Addr) []byte {
	return slices.Concat(from.AsSlice(), to.AsSlice(), []byte{0, protocol, byte(len(packet) >> 8), byte(len(packet))}) // at most maxAdvert
}

// checksum is the Internet checksum (RFC 1071) of a packet with its pseudo-header; 0 of a packet whose checksum is right.
func checksum(packet, pseudo []byte) uint16 {
	sum := uint32(0)
	for _, part := range [][]byte{pseudo, packet} {
		for len(part) > 1 {
			sum += uint32(binary.BigEndian.Uint16(part))
			part = part[2:]
		}
		if len(part) == 1 {
			sum += uint32(part[0]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
