package plan

import (
	"context"
	"time"
)

// StepState is the state of a step in a run.
type StepState string

// The states of a step. Succeeded, Failed, Stopped and Skipped are final; each step of a finished run is in one of them.
const (
	Pending   StepState = "pending"   // not started yet
	Running   StepState = "running"   // started
	Retrying  StepState = "retrying"  // an attempt failed with a retryable error; the step will be tried again
	Succeeded StepState = "succeeded" // done
	Failed    StepState = "failed"    // ended with an error
	Stopped   StepState = "stopped"   // interrupted by the user while it ran
	Skipped   StepState = "skipped"   // never started, because the run ended first
)

// Final reports whether a step in this state is over.
func (s StepState) Final() bool {
	return s == Succeeded || s == Failed || s == Stopped || s == Skipped
}

// Outcome is the outcome of a run.
type Outcome string

// The outcomes of a run.
const (
	OutcomeRunning     Outcome = "running"
	OutcomeSucceeded   Outcome = "succeeded"
	OutcomeFailed      Outcome = "failed"
	OutcomeInterrupted Outcome = "interrupted"
	OutcomeGone        Outcome = "interrupted (process gone)" // the process died before it recorded an outcome
)

// RunRecord is one execution of a plan as the journal records it.
type RunRecord struct {
	ID      string            `json:"id"`
	Verb    string            `json:"verb"`
	Title   string            `json:"title"`             // the verb with its arguments: "upgrade v1.36.4 → v1.37.2, hop 2 of 2"
	Subject string            `json:"subject,omitempty"` // what the verb acts on: machines, a pool, a backup; empty: the whole cluster
	Cluster string            `json:"cluster"`           // the cluster's name; the record outlives the cluster
	By      string            `json:"by"`                // the user who requested it; equal to holder if only the process is known
	Holder  string            `json:"holder"`            // the process that ran it: "user@host, pid 42"
	Meta    map[string]string `json:"meta,omitempty"`    // free facts: version of the tool, digest of the document
	Outcome Outcome           `json:"outcome"`
	Started time.Time         `json:"started"`
	Ended   time.Time         `json:"ended,omitzero"` // zero while running, or when the process died
	Steps   []StepRecord      `json:"steps"`          // in the plan's order
	// Evidence holds the observations made during the run; absent if there are none.
	Evidence *Evidence `json:"evidence,omitempty"`
}

// MetaBy is the key in a run's Meta for the user who requested it from a server.
const MetaBy = "by"

// StepRecord is one step of a run.
type StepRecord struct {
	ID      string    `json:"id"`
	Action  Action    `json:"action"`
	Title   string    `json:"title"`
	Subject string    `json:"subject"`
	Reason  string    `json:"reason,omitempty"`
	Needs   []string  `json:"needs,omitempty"`
	State   StepState `json:"state"`
	Started time.Time `json:"started,omitzero"` // zero when it never started
	Ended   time.Time `json:"ended,omitzero"`   // zero while it runs
	Retries []Retry   `json:"retries,omitempty"`
	Err     string    `json:"error,omitempty"`
}

// Retry is one failed attempt whose error differed from the previous one.
type Retry struct {
	At  time.Time `json:"at"`
	Err string    `json:"error"`
}

// Journal records a run while it happens. Its methods may be called concurrently. A step is recorded as running before it runs; a step that can't be
// recorded is not run.
type Journal interface {
	// Begin records the plan and returns the run's ID.
	Begin(ctx context.Context, p *Plan, meta map[string]string) (run string, err error)
	// Step records a step's new state. errText is empty unless the state is Retrying, Failed or Stopped.
	Step(ctx context.Context, run, id string, state StepState, at time.Time, errText string) error
	// End records the run's outcome and, unless it is nil, the evidence that was collected during the run.
	End(ctx context.Context, run string, outcome Outcome, e *Evidence) error
}

// NoJournal records nothing; for plans that leave no trace, such as a dry test.
type NoJournal struct{}

// Begin returns an empty run ID.
func (NoJournal) Begin(context.Context, *Plan, map[string]string) (string, error) { return "", nil }

// Step does nothing.
func (NoJournal) Step(context.Context, string, string, StepState, time.Time, string) error {
	return nil
}

// End does nothing.
func (NoJournal) End(context.Context, string, Outcome, *Evidence) error { return nil }
