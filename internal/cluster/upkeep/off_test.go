package upkeep

import (
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestOff: repair of a machine that its provider reports as off waits, and a note states until when and how to start it now. A request by name
// repairs it at once.
func TestOff(t *testing.T) {
	s := sick("demo-general-2", 0)
	s.Off, s.Why = true, "the machine is off"
	for name, c := range map[string]struct {
		only string
		now  time.Duration
		want Rung
		note string
	}{
		"too early":       {"", time.Minute, "", "demo-general-2 is off; it is repaired from 2026-01-02 03:05:00 UTC on; naupegos apply starts it now"},
		"its time":        {"", 6 * time.Minute, Reboot, ""},
		"by name":         {"demo-general-2", time.Second, Reboot, ""},
		"another by name": {"demo-general-1", time.Second, "", ""},
	} {
		r, err := Next([]Sick{s}, 5, rules, c.only, began.Add(c.now))
		testkit.Must(t, err)
		if r.Rung != c.want || !strings.Contains(strings.Join(r.Notes, "\n"), c.note) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
