package cluster

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// TestUnfitMachines: what can't be a machine is refused before anything is changed on it.
func TestUnfitMachines(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	for _, c := range []struct {
		facts machine.Facts
		kind  fail.Kind
		says  string
	}{
		{machine.Facts{Hostname: "demo-cp-1", OS: "debian 12", Dpkg: true}, fail.Refused, "not systemd"},
		{machine.Facts{Hostname: "demo-cp-1", OS: "fedora 44", Systemd: true}, fail.Refused, "operating system (fedora 44) has no Debian packages"},
		{machine.Facts{Hostname: "other", OS: "debian 12", Systemd: true, Dpkg: true}, fail.Conflict, `calls itself "other"`},
	} {
		err := l.checkFacts(slot{Name: "demo-cp-1", Role: provider.ControlPlane}, c.facts)
		if fail.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v (%s), want %q", err, fail.KindOf(err), c.says)
		}
	}
}
