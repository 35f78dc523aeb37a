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

// listen opens a UDP port for packets from one link, including broadcasts.
func listen(l link, port int) (*net.UDPConn, error) {
	options := func(_, _ string, c syscall.RawConn) error {
		var err error
		e := c.Control(func(fd uintptr) {
			// A ProxyDHCP can run on the same machine as the DHCP server: both get the broadcasts.
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

// socket answers DHCP messages on one port.
type socket struct {
	conn    *net.UDPConn
	port    int
	handler dhcp.Handler
	log     *slog.Logger
}

// serve answers messages one by one until the socket is closed.
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

// answer answers a message. It recovers from panics of the library, so that a bad message affects no other.
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

// destination returns the address for an answer: the relay; else the client's address, if the client has one or asked at ProxyDHCP's port; else
// broadcast, because a machine without an address does not answer ARP.
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

// findDHCP requests an address on a link and returns the address of the server that offers one. It returns an invalid address if there is no
// offer within six seconds: a server may probe for seconds whether an address is free. findDHCP accepts no offer.
func findDHCP(ctx context.Context, l link) (netip.Addr, error) {
	if len(l.HardwareAddr) != 6 { // loopback, a tunnel: such links have no DHCP
		return netip.Addr{}, nil
	}
	c, err := nclient4.New(l.Name, nclient4.WithTimeout(time.Second), nclient4.WithRetry(3))
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close() //nolint:errcheck // it holds no unsaved data
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
