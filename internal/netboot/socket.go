package netboot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/netboot/dhcp"
)

// listen opens a UDP port for what comes in over a link, broadcasts included.
func listen(l link, port int) (*net.UDPConn, error) {
	options := func(_, _ string, c syscall.RawConn) error {
		var err error
		e := c.Control(func(fd uintptr) {
			// A ProxyDHCP may be on one machine with the DHCP server that it stands beside: both get what is broadcast.
			reuse := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			broadcast := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
			err = errors.Join(reuse, broadcast, unix.BindToDevice(int(fd), l.Name))
		})
		return errors.Join(e, err)
	}
	lc := net.ListenConfig{Control: options}
	conn, err := lc.ListenPacket(context.Background(), "udp4", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		f := fail.Wrap(fail.Refused, err, "listen at UDP port %d", port).At(l.Name)
		if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
			return nil, f.Do("run it as root, or with the capabilities CAP_NET_BIND_SERVICE and CAP_NET_RAW")
		}
		return nil, f.Do("ss -lunp shows who listens there")
	}
	return conn.(*net.UDPConn), nil
}

// socket answers DHCP messages that come in at a port.
type socket struct {
	conn    *net.UDPConn
	port    int
	handler dhcp.Handler
	log     *slog.Logger
}

// serve answers one message after another until the socket is closed.
func (s *socket) serve() error {
	var room [4096]byte
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(room[:])
		switch {
		case closed(err):
			return nil
		case err != nil:
			return fail.Wrap(fail.Internal, err, "read from UDP port %d", s.port)
		}
		if err := s.answer(room[:n], from); err != nil && !closed(err) {
			s.log.Warn("a DHCP message was not answered", "from", from, "port", s.port, "reason", err.Error())
		}
	}
}

// answer answers a message. What a message brings the library down with is that message's trouble alone.
func (s *socket) answer(data []byte, from netip.AddrPort) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a defect: %v\n%s", p, debug.Stack())
		}
	}()
	m, err := dhcpv4.FromBytes(data)
	if err != nil {
		return err
	}
	reply := s.handler.Answer(m)
	if reply == nil {
		return nil
	}
	to := destination(m, reply, from, s.port)
	s.log.Debug("DHCP", "mac", m.ClientHWAddr.String(), "asked", m.MessageType().String(), "answered", reply.MessageType().String(), "address", reply.YourIPAddr, "boot", reply.BootFileName, "to", to)
	_, err = s.conn.WriteToUDPAddrPort(reply.ToBytes(), to)
	return err
}

// destination is where an answer goes: to the relay; back, where it was asked at the port of a ProxyDHCP or by who has an address; else to all
// on the link, for a machine without an address does not answer to its own name.
func destination(m, reply *dhcpv4.DHCPv4, from netip.AddrPort, port int) netip.AddrPort {
	if relay, ok := netip.AddrFromSlice(m.GatewayIPAddr.To4()); ok && !relay.IsUnspecified() {
		return netip.AddrPortFrom(relay, dhcpv4.ServerPort)
	}
	if own, ok := netip.AddrFromSlice(m.ClientIPAddr.To4()); ok && !own.IsUnspecified() && reply.MessageType() != dhcpv4.MessageTypeNak && from.Addr().Unmap() == own {
		return netip.AddrPortFrom(own, from.Port())
	}
	if port == proxyPort && !from.Addr().IsUnspecified() {
		return from
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), dhcpv4.ClientPort)
}

// findDHCP asks for an address on a link, and returns which server has offered one. Without any the address is not valid, after six seconds: a
// server may try for seconds whether an address is free before it offers one. Nothing is taken.
func findDHCP(ctx context.Context, l link) (netip.Addr, error) {
	if len(l.HardwareAddr) != 6 { // loopback, a tunnel: nobody gives out addresses there
		return netip.Addr{}, nil
	}
	c, err := nclient4.New(l.Name, nclient4.WithTimeout(time.Second), nclient4.WithRetry(3))
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close() //nolint:errcheck // nothing was written that could be lost
	offer, err := c.DiscoverOffer(ctx)
	switch {
	case errors.Is(err, nclient4.ErrNoResponse):
		return netip.Addr{}, nil
	case err != nil:
		return netip.Addr{}, err
	}
	server, _ := netip.AddrFromSlice(offer.ServerIdentifier().To4())
	if !server.IsValid() {
		server, _ = netip.AddrFromSlice(offer.ServerIPAddr.To4())
	}
	return server, nil
}
