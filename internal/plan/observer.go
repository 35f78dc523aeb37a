package plan

import "time"

// Observer shows a run. Execute makes its calls one at a time.
type Observer interface {
	Begin(p *Plan, at time.Time) // once, first
	Event(e Event)               // each time a step changes its state or status
	Note(text string)            // something about the run as a whole: "stopping after the running steps"
	End(r *Result)               // once, last; restores the terminal
}

// Event is one change of a step.
type Event struct {
	Step    *Step
	State   StepState
	At      time.Time
	Started time.Time // when the step started; zero if it never did
	Status  string    // the step's own description of what it does
	Attempt int       // 1-based
	Err     error     // of Retrying, Failed and Stopped
}

// NoObserver shows nothing.
type NoObserver struct{}

// Begin does nothing.
func (NoObserver) Begin(*Plan, time.Time) {}

// Event does nothing.
func (NoObserver) Event(Event) {}

// Note does nothing.
func (NoObserver) Note(string) {}

// End does nothing.
func (NoObserver) End(*Result) {}
