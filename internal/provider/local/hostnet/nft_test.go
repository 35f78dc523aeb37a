package hostnet

import (
	"net/netip"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

func TestNatRules(t *testing.T) {
	testkit.Golden(t, "nat.nft.golden", natRules("naupegos_1a2b3c4d", "nau1a2b3c4d", netip.MustParsePrefix("10.77.3.0/24")))
}
