package operate

import (
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/delta"
)

func TestEstimate(t *testing.T) {
	t0 := time.Date(2026, 11, 28, 13, 0, 0, 0, time.UTC)
	step := func(id, subject string, from, to int, state plan.StepState) plan.StepRecord {
		return plan.StepRecord{ID: id, Subject: subject, Action: plan.Change, State: state, Started: t0.Add(time.Duration(from) * time.Second), Ended: t0.Add(time.Duration(to) * time.Second)}
	}
	runs := []plan.RunRecord{{Outcome: plan.OutcomeSucceeded, Started: t0, Ended: t0.Add(time.Minute), Steps: []plan.StepRecord{
		step("configure/m-1", "m-1", 0, 4, plan.Succeeded), step("configure/m-2", "m-2", 0, 6, plan.Succeeded), step("configure/m-3", "m-3", 0, 50, plan.Succeeded),
		step("health/m-1", "m-1", 6, 10, plan.Succeeded), step("drain/m-1", "m-1", 0, 3, plan.Failed),
	}}}
	change := func(id, subject string, needs ...string) *plan.Step {
		return &plan.Step{ID: id, Subject: subject, Action: plan.Change, Needs: needs}
	}
	for what, c := range map[string]struct {
		steps []*plan.Step
		want  int
	}{
		"side by side":  {[]*plan.Step{change("configure/m-1", "m-1"), change("configure/m-9", "m-9")}, 6},
		"in turn":       {[]*plan.Step{change("configure/m-1", "m-1"), change("health/m-1", "m-1", "configure/m-1"), change("configure/m-2", "m-2", "health/m-1")}, 16},
		"unknown step":  {[]*plan.Step{change("configure/m-1", "m-1"), change("etcd/promote/m-1", "m-1")}, 0},
		"only failures": {[]*plan.Step{change("drain/m-1", "m-1")}, 0},
		"other action":  {[]*plan.Step{{ID: "configure/m-1", Subject: "m-1", Action: plan.Create}}, 0},
		"nothing":       {nil, 0},
	} {
		if got := estimate(&plan.Plan{Steps: c.steps}, runs); got != time.Duration(c.want)*time.Second {
			t.Errorf("%s: %s, want %d s", what, got, c.want)
		}
	}
	if got := estimate(&plan.Plan{Steps: []*plan.Step{change("configure/m-1", "m-1")}}, nil); got != 0 {
		t.Errorf("without history: %s", got)
	}
}

// TestByHand: a file that changed after the last run was changed by hand; while a run is under way, or without one, nothing is known.
func TestByHand(t *testing.T) {
	t0 := time.Date(2026, 11, 28, 13, 0, 0, 0, time.UTC)
	ended := plan.RunRecord{Outcome: plan.OutcomeSucceeded, Started: t0, Ended: t0.Add(time.Minute)}
	for what, c := range map[string]struct {
		at   time.Time
		runs []plan.RunRecord
		want bool
	}{
		"later":            {t0.Add(2 * time.Minute), []plan.RunRecord{ended}, true},
		"during the run":   {t0.Add(30 * time.Second), []plan.RunRecord{ended}, false},
		"another run runs": {t0.Add(2 * time.Minute), []plan.RunRecord{{Outcome: plan.OutcomeRunning, Started: t0.Add(time.Minute)}, ended}, false},
		"no run":           {t0, nil, false},
		"no time":          {time.Time{}, []plan.RunRecord{ended}, false},
		"the process died": {t0.Add(2 * time.Minute), []plan.RunRecord{{Outcome: plan.OutcomeGone, Started: t0, Steps: []plan.StepRecord{{Ended: t0.Add(3 * time.Minute)}}}}, false},
	} {
		p := &plan.Plan{Steps: []*plan.Step{{Deltas: []delta.Delta{{Modified: c.at}}}}}
		if markByHand(p, c.runs); p.Steps[0].Deltas[0].ByHand != c.want {
			t.Errorf("%s: %v", what, !c.want)
		}
	}
}
