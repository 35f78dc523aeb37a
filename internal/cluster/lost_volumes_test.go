package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/upkeep"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestLostVolumesNeedConsent: a machine whose data goes with it is removed only with consent to that. A replacement for another reason needs both
// consents; the extra machines of a roll need none.
func TestLostVolumesNeedConsent(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name string
		plan func(t *testing.T) []*plan.Step
		want []string
	}{
		{"fewer machines", func(t *testing.T) []*plan.Step {
			l := newLab(t, document(t, 1, 0, 1)).Running(document(t, 1, 0, 2))
			l.cloud.lose = true
			return l.stepsOf(l.observed(nil, "demo-cp-1"))
		}, []string{provider.ConsentVolumes}},
		{"a machine that drifted", func(t *testing.T) []*plan.Step {
			l := newLab(t, document(t, 1, 0, 2)).Running(document(t, 1, 0, 2))
			l.cloud.lose = true
			drifted := map[string][]string{"demo-a-1": {"flavor is small, large is wanted"}}
			o := l.observed(wanted.Decisions{}.With(drifted), "demo-cp-1")
			o.Drifted = drifted
			return l.stepsOf(o)
		}, []string{nodes.ConsentReplace, provider.ConsentVolumes}},
		{"the user replaces one", func(t *testing.T) []*plan.Step {
			l := newLab(t, document(t, 1, 0, 2)).Running(document(t, 1, 0, 2))
			l.cloud.lose = true
			return l.stepsOf(l.observed(wanted.Decisions{"demo-a-1": wanted.Replace}, "demo-cp-1"))
		}, []string{provider.ConsentVolumes}},
		{"an extra machine of a roll", func(t *testing.T) []*plan.Step {
			l := surgeLab(t, 1, []int{3}, []int{3})
			l.cloud.lose = true
			l.surged("demo-a-4", 4)
			return l.stepsOf(l.observed(l.Decided(), controlPlanes(1)...))
		}, nil},
		{"repair", func(t *testing.T) []*plan.Step { return repairOfLost(t, now, false) }, []string{nodes.ConsentReplace, provider.ConsentVolumes}},
		{"repair with the document's consent", func(t *testing.T) []*plan.Step { return repairOfLost(t, now, true) }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps := c.plan(t)
			p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: steps}
			if got := p.MissingConsents(nil); !slices.Equal(got, c.want) {
				t.Errorf("the plan needs %q, want %q", got, c.want)
			}
			if !slices.ContainsFunc(steps, func(s *plan.Step) bool { return s.Action == plan.Destroy && s.ID == provider.DestroyStep(s.Subject) }) {
				t.Error("no machine is removed")
			}
		})
	}
}

// repairOfLost plans the replacement of a sick worker whose data goes with it.
func repairOfLost(t *testing.T, now time.Time, consents bool) []*plan.Step {
	t.Helper()
	doc := document(t, 1, 0, 3)
	doc.Spec.Repair.Replace = consents
	l := newLab(t, doc).Running(doc)
	l.cloud.lose = true
	l.tried("demo-a-1", now, time.Hour, upkeep.Reboot, upkeep.Cycle)
	l.state("demo-a-1", provider.Stopped)
	_, steps, err := l.round(func(d wanted.Decisions) *observe.Observed {
		return l.ill(l.observed(d, controlPlanes(1)...), now, "demo-a-1")
	}, now)
	testkit.Must(t, err)
	return steps
}
