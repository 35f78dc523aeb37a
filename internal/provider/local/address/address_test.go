package address

import (
	"net/netip"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

func TestAllocate(t *testing.T) {
	small, large := netip.MustParsePrefix("10.77.3.0/24"), netip.MustParsePrefix("10.80.0.0/16")
	for _, c := range []struct {
		role   provider.Role
		subnet netip.Prefix
		taken  []uint32
		want   string
	}{
		{provider.Gateway, small, nil, "10.77.3.11"},
		{provider.ControlPlane, small, nil, "10.77.3.21"},
		{provider.Worker, small, nil, "10.77.3.101"},
		{provider.Worker, small, []uint32{101, 102, 104}, "10.77.3.103"},
		{provider.Worker, large, numbers(101, 300), "10.80.1.45"},
	} {
		taken := map[uint32]bool{}
		for _, n := range c.taken {
			taken[n] = true
		}
		n, err := allocate(c.role, c.subnet, taken)
		if err != nil {
			t.Fatal(err)
		}
		if got := Nth(c.subnet, n).String(); got != c.want {
			t.Errorf("%s in %s with %d taken: %s, want %s", c.role, c.subnet, len(c.taken), got, c.want)
		}
		if !taken[n] {
			t.Errorf("%d was not taken", n)
		}
		if back := Number(c.subnet, Nth(c.subnet, n)); back != n {
			t.Errorf("Number(Nth(%d)) = %d", n, back)
		}
	}
}

func numbers(from, to uint32) (out []uint32) {
	for n := from; n <= to; n++ {
		out = append(out, n)
	}
	return out
}

func TestAllocateExhausted(t *testing.T) {
	taken := map[uint32]bool{}
	subnet := netip.MustParsePrefix("10.77.3.0/24")
	for range 10 {
		if _, err := allocate(provider.Gateway, subnet, taken); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := allocate(provider.Gateway, subnet, taken); fail.KindOf(err) != fail.Refused {
		t.Errorf("an eleventh gateway: %v", err)
	}
}

func TestChooseSubnet(t *testing.T) {
	first, err := ChooseSubnet("0a000000", nil)
	if err != nil || first.String() != "10.77.10.0/24" {
		t.Fatalf("%v %v", first, err)
	}
	second, err := ChooseSubnet("0a000000", []netip.Prefix{first, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("10.77.11.128/25")})
	if err != nil || second.String() != "10.77.12.0/24" {
		t.Errorf("with the first two in use (a default route is not in the way): %v %v", second, err)
	}
	if _, err := ChooseSubnet("ff000000", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}); fail.KindOf(err) != fail.Refused {
		t.Errorf("with all in use: %v", err)
	}
}

func TestParseSubnet(t *testing.T) {
	if p, err := ParseSubnet("192.168.0.0/20"); err != nil || p.Bits() != 20 {
		t.Errorf("%v %v", p, err)
	}
	for _, bad := range []string{"", "10.0.0.0", "10.77.0.1/24", "10.77.0.0/25", "10.0.0.0/8", "8.8.8.0/24", "fd00::/64"} {
		if _, err := ParseSubnet(bad); fail.KindOf(err) != fail.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestWishedAddresses(t *testing.T) {
	subnet := netip.MustParsePrefix("10.77.3.0/24")
	taken := map[uint32]bool{30: true}
	wish := func(a string) (uint32, error) {
		return Place(provider.MachineSpec{Name: "m", Role: provider.Worker, Address: a}, subnet, taken)
	}
	if n, err := wish("10.77.3.7"); err != nil || n != 7 || !taken[7] {
		t.Errorf("a free address outside of the role's range: %d %v", n, err)
	}
	if n, err := wish(""); err != nil || n != 101 {
		t.Errorf("no wish: %d %v", n, err)
	}
	for _, again := range []string{"10.77.3.7", "10.77.3.30"} {
		if _, err := wish(again); fail.KindOf(err) != fail.Conflict {
			t.Errorf("%s, which is taken: %v", again, err)
		}
	}
	for _, bad := range []string{"10.77.4.7", "10.77.3.0", "10.77.3.1", "10.77.3.255", "fd00::7", "seven"} {
		if _, err := wish(bad); fail.KindOf(err) != fail.Invalid {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
