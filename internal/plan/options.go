package plan

import (
	"context"
	"time"
)

// Phase says where a Hook is called.
type Phase string

// The phases of a step that a Hook sees.
const (
	BeforeStep Phase = "before" // recorded as running; Run is not called yet
	AfterStep  Phase = "after"  // Run has returned; its outcome is not recorded yet
)

// Options says how a plan is executed. The zero value is usable: it records and shows nothing.
type Options struct {
	Parallel      int                                // most steps at once; 0 means 16
	Timeout       time.Duration                      // for steps without a timeout of their own; 0 means 10 minutes
	Grace         time.Duration                      // how long a step may take to return after its timeout or a stop; 0 means 10 s
	RetryInterval time.Duration                      // first pause between attempts; 0 means 100 ms
	RetryMax      time.Duration                      // longest pause between attempts; 0 means 2 s
	KeepGoing     bool                               // after a failure, still start steps that do not depend on it
	Consents      []string                           // what the user has consented to
	Meta          map[string]string                  // free facts for the journal; never a secret
	Journal       Journal                            // nil records nothing
	Observer      Observer                           // nil shows nothing
	Stop          <-chan struct{}                    // closed when the user asks to stop: no new steps, running ones finish
	Before        func(context.Context, *Step) error // called before each attempt of a step; its error fails the attempt; nil calls nothing
	Evidence      func() *Evidence                   // returns, after all steps have ended, what was observed during the run; nil observes nothing
	Hook          func(stepID string, phase Phase)   // called around each step; for crash tests
}

// Result is the result of an execution. It is returned even with an error.
type Result struct {
	RunRecord
}

// Count returns how many steps ended in a state.
func (r *Result) Count(s StepState) int {
	n := 0
	for i := range r.Steps {
		if r.Steps[i].State == s {
			n++
		}
	}
	return n
}

func (o Options) withDefaults() Options {
	if o.Parallel <= 0 {
		o.Parallel = 16
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Minute
	}
	if o.Grace <= 0 {
		o.Grace = 10 * time.Second
	}
	if o.RetryInterval <= 0 {
		o.RetryInterval = 100 * time.Millisecond
	}
	if o.RetryMax <= 0 {
		o.RetryMax = 2 * time.Second
	}
	o.RetryMax = max(o.RetryMax, o.RetryInterval)
	if o.Journal == nil {
		o.Journal = NoJournal{}
	}
	if o.Observer == nil {
		o.Observer = NoObserver{}
	}
	return o
}
