package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
)

// TestRunsAsEvents: a run is an event when it begins and one when it ends, a warning unless it succeeded, and no event of a machine that it left alone.
func TestRunsAsEvents(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	run := func(o plan.Outcome, ended time.Duration, err string) *plan.RunRecord {
		r := &plan.RunRecord{ID: "r", Verb: "apply", By: "root@vm", Outcome: o, Started: at, Steps: []plan.StepRecord{
			{ID: "node/demo-a-1", Subject: "demo-a-1", Title: "join node demo-a-1", Err: err}, {ID: "x", Subject: "cluster", Title: "x"}}}
		if ended > 0 {
			r.Ended = at.Add(ended)
		}
		return r
	}
	for name, c := range map[string]struct {
		run     *plan.RunRecord
		machine string
		want    int
		warning bool
		text    string
	}{
		"succeeded":       {run(plan.OutcomeSucceeded, 4*time.Second, ""), "", 2, false, "succeeded after 4s"},
		"failed":          {run(plan.OutcomeFailed, time.Second, "no route"), "", 2, true, "failed after 1s: join node demo-a-1: no route"},
		"interrupted":     {run(plan.OutcomeInterrupted, time.Second, ""), "", 2, true, "interrupted after 1s"},
		"running":         {run(plan.OutcomeRunning, 0, ""), "", 1, false, "begun by root@vm"},
		"of the machine":  {run(plan.OutcomeSucceeded, 4*time.Second, ""), "demo-a-1", 2, false, "succeeded"},
		"another machine": {run(plan.OutcomeSucceeded, 4*time.Second, ""), "demo-a-2", 0, false, ""},
	} {
		got := happened(c.run, c.machine)
		if len(got) != c.want {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		if c.want == 0 {
			continue
		}
		last := got[len(got)-1]
		if last.Warning != c.warning || !strings.HasPrefix(last.Text, c.text) || last.Source != "naupegos" {
			t.Errorf("%s: %+v", name, last)
		}
		if c.want == 2 && got[0].ID == got[1].ID {
			t.Errorf("%s: the beginning and the end have one ID", name)
		}
	}
}
