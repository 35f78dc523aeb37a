package vrrp

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestReaddress: an advert whose checksum covers the addresses gets a new one; an advert of version 2, whose checksum does not, stays as it is.
func TestReaddress(t *testing.T) {
	for _, addresses := range [][3]string{{"10.77.0.2", "10.77.0.11", "10.77.0.3"}, {"fd00::2", "fd00::11", "fd00::3"}} {
		from, old, to := netip.MustParseAddr(addresses[0]), netip.MustParseAddr(addresses[1]), netip.MustParseAddr(addresses[2])
		advert := []byte{0x31, 60, 200, 1, 0, 50, 0, 0, 10, 77, 0, 10}
		binary.BigEndian.PutUint16(advert[6:], checksum(advert, from, old))
		readdress(advert, from, old, to)
		if sum := checksum(advert, from, to); sum != 0 {
			t.Errorf("to %s the checksum is off by %x", to, sum)
		}
		if checksum(advert, from, old) == 0 {
			t.Errorf("the checksum does not cover the address %s", old)
		}
		other := []byte{0x21, 60, 200, 1, 0, 1, 0x12, 0x34, 10, 77, 0, 10}
		before := string(other)
		if readdress(other, from, old, to); string(other) != before {
			t.Errorf("an advert of another checksum became %x", other)
		}
	}
}

// TestChecksum is an example of RFC 1071's sum: the pseudo-header and the packet, with an odd number of bytes.
func TestChecksum(t *testing.T) {
	got := checksum([]byte{1, 2, 3}, netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("0.0.0.1"))
	if want := ^uint16(protocol + 3 + 1 + 0x0102 + 0x0300); got != want {
		t.Errorf("%#x, want %#x", got, want)
	}
}

func TestRelayRefuses(t *testing.T) {
	for name, gateways := range map[string][]netip.Addr{
		"one":      {netip.MustParseAddr("10.0.0.1")},
		"families": {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
	} {
		done := make(chan error, 1)
		go func() { done <- Relay(t.Context(), gateways) }()
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
