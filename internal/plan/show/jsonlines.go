package show

import (
	"encoding/json"
	"io"
	"time"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// jsonLines writes one JSON object a line: {"event":"plan"|"begin"|"step"|"note"|"end", "time":…, …}.
type jsonLines struct{ enc *json.Encoder }

// lineJSON is one line. Fields may be added, never renamed or given another meaning.
type lineJSON struct {
	Event   string         `json:"event"`
	Time    time.Time      `json:"time"`
	Verb    string         `json:"verb,omitempty"`    // of begin and end
	Title   string         `json:"title,omitempty"`   // of begin and end: the verb with its arguments
	Subject string         `json:"subject,omitempty"` // of begin and end: what the verb acts on
	Cluster string         `json:"cluster,omitempty"` // of begin and end
	Steps   int            `json:"steps,omitempty"`   // of begin
	Run     string         `json:"run,omitempty"`     // of end: the run's ID in the journal
	Step    string         `json:"step,omitempty"`    // of step, as all below
	State   plan.StepState `json:"state,omitempty"`
	Status  string         `json:"status,omitempty"`
	Attempt int            `json:"attempt,omitempty"`
	Seconds *float64       `json:"seconds,omitempty"` // since the step (of end: the run) started, if it is over
	Error   string         `json:"error,omitempty"`
	Outcome plan.Outcome   `json:"outcome,omitempty"` // of end
	Text    string         `json:"text,omitempty"`    // of note
	Plan    *planJSON      `json:"plan,omitempty"`    // of plan: the plan that is about to be executed
	// Evidence is of end: the observations made during the run.
	Evidence *plan.Evidence `json:"evidence,omitempty"`
}

func newJSONLines(w io.Writer) *jsonLines {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &jsonLines{enc}
}

func (o *jsonLines) Begin(p *plan.Plan, at time.Time) {
	o.put(lineJSON{Event: "begin", Time: at, Verb: p.Verb, Title: p.Title, Subject: p.Subject, Cluster: p.Cluster, Steps: len(p.Steps)})
}

// WriteEvent writes a plan as a line of its own, in the format of the observer of kind ObserveJSON. It returns the error of w.
func WriteEvent(w io.Writer, p *plan.Plan, at time.Time) error {
	return newJSONLines(w).enc.Encode(lineJSON{Event: "plan", Time: at, Verb: p.Verb, Title: p.Title, Subject: p.Subject, Cluster: p.Cluster, Steps: len(p.Steps), Plan: newPlanJSON(p)})
}

// WriteSteps writes the steps of a run that begins, for a Replay that has not seen its plan.
func WriteSteps(w io.Writer, p *plan.Plan, at time.Time) error {
	return newJSONLines(w).enc.Encode(lineJSON{Event: eventSteps, Time: at, Plan: newPlanJSON(p)})
}

// eventSteps is internal: ObserveJSON does not write it.
const eventSteps = "steps"

func (o *jsonLines) Event(e plan.Event) {
	l := lineJSON{Event: "step", Time: e.At, Step: e.Step.ID, State: e.State, Status: words.Line(e.Status), Attempt: e.Attempt}
	if e.Err != nil {
		l.Error = e.Err.Error()
	}
	if e.State.Final() {
		l.Seconds = seconds(e.At.Sub(e.Started))
	}
	o.put(l)
}

func (o *jsonLines) Note(text string) {
	o.put(lineJSON{Event: "note", Time: time.Now(), Text: text})
}

func (o *jsonLines) End(r *plan.Result) {
	o.put(lineJSON{
		Event: "end", Time: r.Ended, Verb: r.Verb, Title: r.Title, Subject: r.Subject, Cluster: r.Cluster, Run: r.ID, Outcome: r.Outcome, Seconds: seconds(r.Ended.Sub(r.Started)), Evidence: r.Evidence,
	})
}

// put writes one line. It ignores errors: the run continues even if the reader has gone away.
func (o *jsonLines) put(l lineJSON) { _ = o.enc.Encode(l) }

func seconds(d time.Duration) *float64 {
	s := d.Round(time.Millisecond).Seconds()
	return &s
}
