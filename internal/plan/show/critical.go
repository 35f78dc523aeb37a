package show

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// run is a record with methods that evaluate its times.
type run struct{ *plan.RunRecord }

// criticalPath returns, by ID, the steps that decided the run's duration: from the step that ended last back through the need that ended last. If a
// step waited for a free slot instead of a need, the path has a gap.
func (r run) criticalPath() map[string]bool {
	byID := make(map[string]*plan.StepRecord, len(r.Steps))
	var last *plan.StepRecord
	for i := range r.Steps {
		s := &r.Steps[i]
		byID[s.ID] = s
		if !s.Started.IsZero() && (last == nil || r.endOf(s).After(r.endOf(last))) {
			last = s
		}
	}
	path := map[string]bool{}
	for last != nil && !path[last.ID] {
		path[last.ID] = true
		var before *plan.StepRecord
		for _, n := range last.Needs {
			if s := byID[n]; s != nil && !s.Started.IsZero() && (before == nil || r.endOf(s).After(r.endOf(before))) {
				before = s
			}
		}
		last = before
	}
	return path
}

// endOf returns when a step ended, or, if it never did, the last moment in the record.
func (r run) endOf(s *plan.StepRecord) time.Time {
	if !s.Ended.IsZero() {
		return s.Ended
	}
	return r.lastMoment()
}

// lastMoment returns the latest time in the record.
func (r run) lastMoment() time.Time {
	end := r.Started
	later := func(t time.Time) {
		if t.After(end) {
			end = t
		}
	}
	later(r.Ended)
	for i := range r.Steps {
		later(r.Steps[i].Started)
		later(r.Steps[i].Ended)
		for _, re := range r.Steps[i].Retries {
			later(re.At)
		}
	}
	return end
}

// startedSteps returns the steps that were started, by start time.
func (r run) startedSteps() []*plan.StepRecord {
	var list []*plan.StepRecord
	for i := range r.Steps {
		if !r.Steps[i].Started.IsZero() {
			list = append(list, &r.Steps[i])
		}
	}
	slices.SortStableFunc(list, func(a, b *plan.StepRecord) int { return cmp.Compare(a.Started.UnixNano(), b.Started.UnixNano()) })
	return list
}

// took returns how long a step ran; if it never ended, how long it is known to have run.
func (r run) took(s *plan.StepRecord) time.Duration { return r.endOf(s).Sub(s.Started) }

// headline summarizes the record in one line.
func (r run) headline() string {
	n := 0
	for i := range r.Steps {
		if r.Steps[i].State == plan.Succeeded {
			n++
		}
	}
	return words.Line(r.Heading()) + ": " + string(r.Outcome) + ", " + strconv.Itoa(n) + " of " +
		words.Count(len(r.Steps), "step", "steps") + " in " + words.Duration(r.lastMoment().Sub(r.Started))
}
