package vrrp

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestReaddress: an advert whose checksum covers the addresses gets one for the relay's; one of version 2, whose checksum does not, is summed alone.
func TestReaddress(t *testing.T) {
	for _, addresses := range [][3]string{{"10.77.0.2", "10.77.0.11", "10.77.0.3"}, {"fd00::2", "fd00::11", "fd00::3"}} {
		from, relay, peer := netip.MustParseAddr(addresses[0]), netip.MustParseAddr(addresses[1]), netip.MustParseAddr(addresses[2])
		advert := []byte{0x31, 60, 200, 1, 0, 50, 0, 0, 10, 77, 0, 10}
		binary.BigEndian.PutUint16(advert[6:], checksum(advert, pseudo(advert, from, relay)))
		readdress(advert, 201, from, relay, peer)
		if sum := checksum(advert, pseudo(advert, relay, peer)); sum != 0 || advert[2] != 201 {
			t.Errorf("to %s the checksum is off by %x, the priority is %d", peer, sum, advert[2])
		}
		second := []byte{0x21, 60, 200, 1, 0, 1, 0, 0, 10, 77, 0, 10}
		binary.BigEndian.PutUint16(second[6:], checksum(second, nil))
		if readdress(second, 201, from, relay, peer); checksum(second, nil) != 0 || second[2] != 201 {
			t.Errorf("an advert of version 2 became %x", second)
		}
		damaged := []byte{0x31, 60, 200, 1, 0, 50, 0x12, 0x34, 10, 77, 0, 10}
		before := string(damaged)
		if readdress(damaged, 201, from, relay, peer); string(damaged) != before {
			t.Errorf("a damaged advert became %x", damaged)
		}
	}
}

// TestChecksum is an example of RFC 1071's sum: the pseudo-header and the packet, with an odd number of bytes.
func TestChecksum(t *testing.T) {
	packet := []byte{1, 2, 3}
	got := checksum(packet, pseudo(packet, netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("0.0.0.1")))
	if want := ^uint16(1 + protocol + 3 + 0x0102 + 0x0300); got != want {
		t.Errorf("%#x, want %#x", got, want)
	}
}

// TestPass: while one gateway holds the address, the others hear it unchanged. While two do, the one that must give it up hears the other above itself,
// whatever the relay's address, and the other hears nothing.
func TestPass(t *testing.T) {
	gw := []netip.Addr{netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.3"), netip.MustParseAddr("10.77.0.4")}
	type advert struct {
		after    time.Duration
		from     int
		priority byte
		want     map[int]byte
	}
	const tick = 500 * time.Millisecond
	for name, adverts := range map[string][]advert{
		"one holder":             {{0, 0, 200, map[int]byte{1: 200, 2: 200}}, {tick, 0, 200, map[int]byte{1: 200, 2: 200}}},
		"the higher address":     {{0, 0, 200, map[int]byte{1: 200, 2: 200}}, {0, 1, 200, map[int]byte{0: 201, 2: 200}}, {tick, 0, 200, map[int]byte{2: 200}}},
		"the higher priority":    {{0, 0, 200, map[int]byte{1: 200, 2: 200}}, {0, 1, 150, map[int]byte{2: 150}}, {tick, 0, 200, map[int]byte{1: 201, 2: 200}}},
		"the old holder is gone": {{0, 1, 200, map[int]byte{0: 200, 2: 200}}, {3 * tick, 0, 200, map[int]byte{1: 200, 2: 200}}},
		"the old holder stops":   {{0, 1, 200, map[int]byte{0: 200, 2: 200}}, {0, 1, 0, map[int]byte{0: 0, 2: 0}}, {0, 0, 200, map[int]byte{1: 200, 2: 200}}},
		"the highest priority":   {{0, 0, 255, map[int]byte{1: 255, 2: 255}}, {0, 1, 255, map[int]byte{0: 255, 2: 255}}},
	} {
		r, now := newRelay(gw, io.Discard), time.Now()
		for i, a := range adverts {
			now = now.Add(a.after)
			want := map[netip.Addr]byte{}
			for g, p := range a.want {
				want[gw[g]] = p
			}
			if got := r.pass(now, gw[a.from], a.priority); !maps.Equal(got, want) {
				t.Errorf("%s: advert %d goes to %v, want %v", name, i+1, got, want)
			}
		}
	}
}

// TestRelayTells: the log has a line when adverts to a gateway begin to fail, and one when they leave again, not one for each advert.
func TestRelayTells(t *testing.T) {
	gw := []netip.Addr{netip.MustParseAddr("10.77.0.2"), netip.MustParseAddr("10.77.0.3"), netip.MustParseAddr("10.77.0.4")}
	ended, reads, sent := errors.New("ended"), 0, 0
	l := link{
		read: func(buf []byte) (n, ttl int, from, to netip.Addr, err error) {
			if reads++; reads > 6 {
				err = ended
			}
			return copy(buf, []byte{0x31, 60, 200, 1, 0, 50, 0, 0, 10, 77, 0, 10}), hops, gw[0], netip.MustParseAddr("10.77.0.11"), err
		},
		write: func(_ []byte, _, to netip.Addr) error {
			if to == gw[1] && (reads == 2 || reads == 3 || reads == 6) {
				return syscall.EPERM
			}
			sent++
			return nil
		},
	}
	var log strings.Builder
	if err := newRelay(gw, &log).run(l); !errors.Is(err, ended) {
		t.Error(err)
	}
	const fails, works = "adverts to gateway 10.77.0.3 can't be sent: operation not permitted\n", "adverts to gateway 10.77.0.3 are sent again\n"
	if log.String() != fails+works+fails || sent != 9 {
		t.Errorf("%d adverts were sent, and the log has\n%s", sent, &log)
	}
}

func TestRelayRefuses(t *testing.T) {
	for name, gateways := range map[string][]netip.Addr{
		"one":      {netip.MustParseAddr("10.0.0.1")},
		"families": {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
	} {
		done := make(chan error, 1)
		go func() { done <- Relay(t.Context(), gateways, io.Discard) }()
		select {
		case err := <-done:
			if k := fail.KindOf(err); k != fail.Invalid && k != fail.Refused { // without root, the first socket
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s: it runs", name)
		}
	}
}
