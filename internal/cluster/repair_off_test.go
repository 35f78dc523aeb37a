package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/upkeep"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRepairOff: a machine that its provider reports as off is sick at once, although the API still calls its node Ready. Other states are not.
func TestRepairOff(t *testing.T) {
	now := time.Now()
	for state, want := range map[provider.State]bool{provider.Stopped: true, provider.Running: false, provider.Unreachable: false} {
		l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 1, 2, 1))
		l.state("demo-a-1", state)
		o := l.observed(nil)
		if n := o.Nodes["demo-a-1"]; !n.Ready {
			n.Name, n.Ready = "demo-a-1", true
			o.Nodes["demo-a-1"] = n
		}
		sick, total, err := l.sickOf(t.Context(), o, now)
		testkit.Must(t, err)
		i := slices.IndexFunc(sick, func(k upkeep.Sick) bool { return k.Name == "demo-a-1" })
		if (i >= 0) != want {
			t.Errorf("%s: the sick are %+v", state, sick)
			continue
		}
		if !want {
			continue
		}
		if k := sick[i]; !k.Off || k.Why != "the machine is off" || !k.Since.Equal(now) {
			t.Errorf("%+v", k)
		}
		rules := upkeep.Rules{After: 5 * time.Minute, Patience: 10 * time.Minute, MaxUnhealthy: 34}
		r, err := upkeep.Next(sick, total, rules, "demo-a-1", now)
		testkit.Must(t, err)
		if r.Machine != "demo-a-1" {
			t.Errorf("by name it is not repaired: %+v", r)
		}
	}
}
