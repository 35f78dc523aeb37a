// Package vrrp relays the adverts of gateways, so that gateways that do not reach each other still hear each other.
package vrrp

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// protocol is VRRP's IP protocol number (RFC 5798, section 5.1.1.4), hops the TTL that proves that a packet comes from the link (5.1.1.3).
const (
	protocol = 112
	hops     = 255
)

// maxAdvert is larger than an advert with its 255 addresses of IPv6.
const maxAdvert = 8 + 255*16

// Relay passes each advert that a gateway sends to this machine to all other gateways, from the sender's address, until ctx ends. A gateway that
// hears another through a relay does not take the virtual address, which it would if an advert could only come straight from the holder.
// A relay keeps no state and asks no API. Packets of other senders, and packets that a router forwarded, go nowhere.
func Relay(ctx context.Context, gateways []netip.Addr) error {
	if len(gateways) < 2 {
		return fail.New(fail.Invalid, "relay adverts between %d gateways", len(gateways)).Do("name two or more addresses")
	}
	r := &relay{out: map[netip.Addr]net.PacketConn{}}
	defer r.close()
	for _, g := range gateways {
		if g.Is4() != gateways[0].Is4() {
			return fail.New(fail.Invalid, "relay adverts between %s and %s", gateways[0], g).Do("name addresses of one family")
		}
		conn, err := sender(ctx, g)
		if err != nil {
			return fail.Wrap(fail.Refused, err, "send as gateway %s", g).Do("run it with CAP_NET_RAW and CAP_NET_ADMIN")
		}
		r.out[g] = conn
	}
	in, err := net.ListenPacket(network(gateways[0]), "")
	if err != nil {
		return fail.Wrap(fail.Refused, err, "receive adverts").Do("run it with CAP_NET_RAW")
	}
	defer context.AfterFunc(ctx, func() { _ = in.Close() })()
	err = r.receive(in, gateways[0].Is4())
	if ctx.Err() != nil {
		return nil
	}
	return fail.Wrap(fail.Unreachable, err, "receive adverts")
}

// relay has a socket for each gateway, bound to the gateway's address.
type relay struct {
	out map[netip.Addr]net.PacketConn
}

func (r *relay) close() {
	for _, c := range r.out {
		_ = c.Close()
	}
}

func network(a netip.Addr) string {
	if a.Is4() {
		return "ip4:112"
	}
	return "ip6:112"
}

// sender returns a socket that sends from an address which this machine does not have.
func sender(ctx context.Context, from netip.Addr) (net.PacketConn, error) {
	level, transparent, limit := unix.IPPROTO_IP, unix.IP_TRANSPARENT, unix.IP_TTL
	if from.Is6() {
		level, transparent, limit = unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT, unix.IPV6_UNICAST_HOPS
	}
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) {
			set = errors.Join(unix.SetsockoptInt(int(fd), level, transparent, 1), unix.SetsockoptInt(int(fd), level, limit, hops))
		})
		return errors.Join(err, set)
	}}
	return lc.ListenPacket(ctx, network(from), from.String())
}

// receive passes adverts on until the socket closes. A gateway that a packet does not reach gets the next one.
func (r *relay) receive(in net.PacketConn, v4 bool) error {
	read, err := reader(in, v4)
	if err != nil {
		return err
	}
	buf := make([]byte, maxAdvert)
	for {
		n, ttl, from, to, err := read(buf)
		if err != nil {
			return err
		}
		if r.out[from] == nil || ttl != hops || n < 8 {
			continue
		}
		for _, peer := range r.peers(from) {
			packet := slices.Clone(buf[:n])
			readdress(packet, from, to, peer)
			_, _ = r.out[from].WriteTo(packet, &net.IPAddr{IP: peer.AsSlice()})
		}
	}
}

func (r *relay) peers(of netip.Addr) (out []netip.Addr) {
	for a := range r.out {
		if a != of {
			out = append(out, a)
		}
	}
	return out
}

// reader returns a function that reads one packet without its IP header.
func reader(in net.PacketConn, v4 bool) (func([]byte) (n, ttl int, from, to netip.Addr, err error), error) {
	if v4 {
		c := ipv4.NewPacketConn(in)
		return func(buf []byte) (n, ttl int, from, to netip.Addr, err error) {
			n, cm, src, err := c.ReadFrom(buf)
			if err == nil && cm != nil {
				ttl, to = cm.TTL, addr(cm.Dst)
			}
			return n, ttl, source(src), to, err
		}, c.SetControlMessage(ipv4.FlagTTL|ipv4.FlagDst, true)
	}
	c := ipv6.NewPacketConn(in)
	return func(buf []byte) (n, ttl int, from, to netip.Addr, err error) {
		n, cm, src, err := c.ReadFrom(buf)
		if err == nil && cm != nil {
			ttl, to = cm.HopLimit, addr(cm.Dst)
		}
		return n, ttl, source(src), to, err
	}, c.SetControlMessage(ipv6.FlagHopLimit|ipv6.FlagDst, true)
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

// readdress makes an advert's checksum that of a packet to another address, if the sender summed the pseudo-header (RFC 5798, section 5.2.8), which
// version 2 does not have.
func readdress(packet []byte, from, old, to netip.Addr) {
	if checksum(packet, from, old) != 0 {
		return
	}
	binary.BigEndian.PutUint16(packet[6:], 0)
	binary.BigEndian.PutUint16(packet[6:], checksum(packet, from, to))
}

// checksum is the Internet checksum (RFC 1071) of a packet with its pseudo-header; 0 of a packet whose checksum is right.
func checksum(packet []byte, from, to netip.Addr) uint16 {
	sum := uint32(protocol) + uint32(len(packet))
	for _, part := range [][]byte{from.AsSlice(), to.AsSlice(), packet} {
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
