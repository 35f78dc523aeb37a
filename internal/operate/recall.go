package operate

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/store"
)

// recalled is how many runs of a cluster Recall reads.
const recalled = 20

// Recall adds to a plan what earlier runs on its cluster tell: how long it may take, and which files changed after the last run.
func Recall(ctx context.Context, st store.Store, p *plan.Plan) error {
	if p.Empty() {
		return nil
	}
	runs, err := st.Runs(ctx, p.Cluster, recalled)
	if err != nil {
		return err
	}
	p.Estimate = estimate(p, runs)
	markByHand(p, runs)
	return nil
}

// markByHand marks the files that changed after the last run: no run changed them. While a run is under way nothing is known.
func markByHand(p *plan.Plan, runs []plan.RunRecord) {
	var last time.Time
	for i := range runs {
		if runs[i].Outcome == plan.OutcomeRunning {
			return
		}
		for _, at := range []time.Time{runs[i].Started, runs[i].Ended} {
			if at.After(last) {
				last = at
			}
		}
		for _, s := range runs[i].Steps {
			if s.Ended.After(last) {
				last = s.Ended
			}
		}
	}
	if last.IsZero() {
		return
	}
	for _, s := range p.Steps {
		for i := range s.Deltas {
			s.Deltas[i].ByHand = s.Deltas[i].Modified.After(last)
		}
	}
}

// estimate is how long the steps of a plan take one after another, where they need each other, by the median of earlier equal steps. 0 if a step has no
// equal one.
func estimate(p *plan.Plan, runs []plan.RunRecord) time.Duration {
	took := map[string][]time.Duration{}
	for i := range runs {
		for _, s := range runs[i].Steps {
			if s.State == plan.Succeeded && !s.Started.IsZero() && s.Ended.After(s.Started) {
				k := kindOf(s.ID, s.Subject, s.Action)
				took[k] = append(took[k], s.Ended.Sub(s.Started))
			}
		}
	}
	ends := map[string]time.Duration{} // plans list steps behind those that they need
	var all time.Duration
	for _, s := range p.Steps {
		equal := took[kindOf(s.ID, s.Subject, s.Action)]
		if len(equal) == 0 {
			return 0
		}
		slices.Sort(equal)
		var begin time.Duration
		for _, n := range s.Needs {
			begin = max(begin, ends[n])
		}
		ends[s.ID] = begin + equal[len(equal)/2]
		all = max(all, ends[s.ID])
	}
	return all
}

// kindOf is the same for equal steps on different machines.
func kindOf(id, subject string, action plan.Action) string {
	return string(action) + " " + strings.Replace(id, subject, "*", 1)
}
