//go:build integration

package vrrp

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRelayPackets sends adverts over real sockets, of IPv4 and IPv6: they arrive from the relay's address, with the hop limit and the checksum that
// keepalived requires.
func TestRelayPackets(t *testing.T) {
	for family, addresses := range map[string][3]string{"IPv4": {"10.77.0.2", "10.77.0.3", "10.77.0.11"}, "IPv6": {"fd00::2", "fd00::3", "fd00::11"}} {
		t.Run(family, func(t *testing.T) {
			from, peer, self := netip.MustParseAddr(addresses[0]), netip.MustParseAddr(addresses[1]), netip.MustParseAddr(addresses[2])
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				defer cancel()
				ended <- inOwnNetwork(addresses, func() error {
					conns := map[netip.Addr]net.PacketConn{}
					for _, a := range []netip.Addr{from, peer} {
						conn, err := net.ListenPacket(network(a), a.String())
						if err != nil {
							return err
						}
						defer conn.Close()
						conns[a] = conn
					}
					go exchange(ctx, t, cancel, conns, from, peer, self)
					return Relay(ctx, []netip.Addr{from, peer}, t.Output())
				})
			}()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if ctx.Err() == context.DeadlineExceeded {
				t.Error("no advert arrives")
			}
		})
	}
}

// inOwnNetwork runs f on a thread with a network of its own, whose loopback interface has the addresses.
func inOwnNetwork(addresses [3]string, f func() error) error {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	for _, a := range addresses {
		args := []string{"addr", "add", a + "/32", "dev", "lo"}
		if netip.MustParseAddr(a).Is6() {
			args = []string{"addr", "add", a + "/128", "dev", "lo", "nodad"}
		}
		if err := exec.Command("ip", args...).Run(); err != nil {
			return err
		}
	}
	if err := exec.Command("ip", "link", "set", "lo", "up").Run(); err != nil {
		return err
	}
	return f()
}

// exchange sends adverts from a gateway to the relay until the other gateway has one, and ends the relay.
func exchange(ctx context.Context, t *testing.T, end func(), conns map[netip.Addr]net.PacketConn, from, peer, self netip.Addr) {
	defer end()
	out, err := open(conns[from], from.Is4())
	in, inErr := open(conns[peer], from.Is4())
	if err != nil || inErr != nil {
		t.Error(err, inErr)
		return
	}
	advert := []byte{0x31, 60, 200, 1, 0, 50, 0, 0, 10, 77, 0, 10}
	binary.BigEndian.PutUint16(advert[6:], checksum(advert, pseudo(advert, from, self)))
	for buf := make([]byte, maxAdvert); ctx.Err() == nil; {
		if err := out.write(advert, from, self); err != nil {
			t.Error(err)
			return
		}
		_ = conns[peer].SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, ttl, by, to, err := in.read(buf)
		if err != nil {
			continue // the relay may not listen yet
		}
		if by != self || to != peer || ttl != hops || n != len(advert) || buf[2] != 200 || checksum(buf[:n], pseudo(buf[:n], self, peer)) != 0 {
			t.Errorf("%x arrives from %s for %s with hop limit %d", buf[:n], by, to, ttl)
		}
		return
	}
}
