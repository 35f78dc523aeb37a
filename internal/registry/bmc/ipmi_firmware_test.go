package bmc

import (
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestIPMIFirmware sets the boot type that the machine's firmware has, and reports an unknown user as one.
func TestIPMIFirmware(t *testing.T) {
	a, chassis := controller(t)
	for firmware, want := range map[string]types.BIOSBootType{"bios": types.BIOSBootTypeLegacy, "efi": types.BIOSBootTypeEFI, "": types.BIOSBootTypeEFI} {
		a.Firmware = firmware
		testkit.Value(Controllers{}.Power(t.Context(), a, "status", FromNetwork))(t)
		if flags := testkit.Value(chassis.GetBootFlags(t.Context()))(t); flags.BIOSBootType != want {
			t.Errorf("firmware %q: %+v", firmware, flags)
		}
	}
	a.User = "nobody"
	_, err := Controllers{}.Power(t.Context(), a, "status", AsUsual)
	testkit.Fails(t, err, fail.Unauthorized, "user or password are not accepted")
}
