package show

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
)

// Replay shows a remote run to an observer, from the lines that an observer of kind ObserveJSON writes there.
type Replay struct {
	// Plan is called with each plan that is about to be executed.
	Plan func(*plan.Plan) error
	// Observer returns a new observer, for one run.
	Observer func() plan.Observer

	observer plan.Observer // nil between runs
	plan     *plan.Plan
	steps    map[string]*plan.Step
	records  map[string]*plan.StepRecord
}

// Line processes one line. It ignores content that this version does not know.
func (r *Replay) Line(line []byte) error {
	var l lineJSON
	if err := json.Unmarshal(line, &l); err != nil {
		return fail.Wrap(fail.Invalid, err, "read the progress of a run")
	}
	switch l.Event {
	case "plan":
		if l.Plan == nil {
			return nil
		}
		r.plan = l.Plan.plan()
		return r.Plan(r.plan)
	case eventSteps:
		if l.Plan != nil {
			r.plan = l.Plan.plan()
		}
	case "begin":
		r.begin(l)
	case "step":
		r.step(l)
	case "note":
		if r.observer != nil {
			r.observer.Note(l.Text)
		}
	case "end":
		r.end(l)
	}
	return nil
}

// Abandon ends the display of a run that will not continue, and restores the terminal.
func (r *Replay) Abandon() {
	if r.observer != nil {
		r.end(lineJSON{Time: time.Now(), Outcome: plan.OutcomeGone})
	}
}

func (r *Replay) begin(l lineJSON) {
	r.Abandon() // another server has taken over
	if r.plan == nil {
		r.plan = &plan.Plan{Verb: l.Verb, Title: l.Title, Subject: l.Subject, Cluster: l.Cluster}
	}
	r.steps, r.records = map[string]*plan.Step{}, map[string]*plan.StepRecord{}
	for _, s := range r.plan.Steps {
		r.steps[s.ID] = s
		r.records[s.ID] = &plan.StepRecord{ID: s.ID, Action: s.Action, Title: s.Title, Subject: s.Subject, Reason: s.Reason, Needs: s.Needs, State: plan.Pending}
	}
	r.observer = r.Observer()
	r.observer.Begin(r.plan, l.Time)
}

func (r *Replay) step(l lineJSON) {
	s, rec := r.steps[l.Step], r.records[l.Step]
	if r.observer == nil || s == nil {
		return
	}
	e := plan.Event{Step: s, State: l.State, At: l.Time, Started: rec.Started, Status: l.Status, Attempt: l.Attempt}
	if l.State == plan.Running && rec.Started.IsZero() {
		rec.Started, e.Started = l.Time, l.Time
	}
	if l.Seconds != nil && l.State != plan.Skipped {
		e.Started = l.Time.Add(-time.Duration(*l.Seconds * float64(time.Second)))
	}
	if l.Error != "" {
		e.Err, rec.Err = errors.New(l.Error), l.Error
	}
	if rec.State = l.State; l.State.Final() {
		rec.Ended = l.Time
	}
	r.observer.Event(e)
}

func (r *Replay) end(l lineJSON) {
	if r.observer == nil {
		return
	}
	res := &plan.Result{RunRecord: plan.RunRecord{ID: l.Run, Verb: r.plan.Verb, Title: r.plan.Title, Subject: r.plan.Subject, Cluster: r.plan.Cluster, Outcome: l.Outcome, Started: l.Time, Ended: l.Time}}
	if l.Seconds != nil {
		res.Started = l.Time.Add(-time.Duration(*l.Seconds * float64(time.Second)))
	}
	for _, s := range r.plan.Steps {
		rec := r.records[s.ID]
		if rec.State == plan.Pending { // there are no events for steps that never started
			rec.State = plan.Skipped
		}
		res.Steps = append(res.Steps, *rec)
	}
	r.observer.End(res)
	r.observer = nil
}
