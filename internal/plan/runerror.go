package plan

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// RunError says why a run did not complete: each failed step with its cause, and how much is left. Its fail.Kind is that of the first failed step,
// else that of Cause, else Interrupted.
type RunError struct {
	Verb, Cluster string
	Title         string       // the verb with its arguments; empty: the verb alone
	Steps         int          // in the plan
	Succeeded     int          //
	NotStarted    int          //
	Failed        []*StepError // in the plan's order
	Stopped       []*StepError // steps that were running when the user stopped the run
	Cause         error        // why the run was stopped, unless the user stopped it (context.Cause)
	Journal       error        // what could not be recorded of steps that were over; almost always nil
}

// StepError is the failure of one step.
type StepError struct {
	ID, Title string
	Err       error
}

// Error returns "step: what it does: cause".
func (e *StepError) Error() string {
	s := e.ID
	if e.Title != "" {
		s += ": " + e.Title
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }

// Error lists each failed step on its own line, what is left, and how to continue.
func (e *RunError) Error() string {
	var b strings.Builder
	head := e.Cluster + ": " + cmp.Or(e.Title, e.Verb)
	switch {
	case len(e.Failed) > 0:
		fmt.Fprintf(&b, "%s: %d of %s failed", head, len(e.Failed), words.Count(e.Steps, "step", "steps"))
	case e.interrupted():
		fmt.Fprintf(&b, "%s was stopped after %d of %s", head, e.Succeeded, words.Count(e.Steps, "step", "steps"))
	default:
		fmt.Fprintf(&b, "%s is done, but not all of it was recorded", head)
	}
	for _, s := range e.Failed {
		b.WriteString("\n  ✗ " + indent(s.Error()))
	}
	for _, s := range e.Stopped {
		b.WriteString("\n  ■ stopped: " + indent(s.Error()))
	}
	if e.Cause != nil {
		b.WriteString("\n  " + indent(e.Cause.Error()))
	}
	if e.Journal != nil {
		b.WriteString("\n  " + indent(e.Journal.Error()))
	}
	if e.NotStarted > 0 {
		b.WriteString("\n" + words.Count(e.NotStarted, "step was", "steps were") + " not started")
	}
	b.WriteString("\nrun the same command again to continue")
	return b.String()
}

func (e *RunError) interrupted() bool { return len(e.Stopped) > 0 || e.NotStarted > 0 }

// Unwrap returns the errors that decide the kind: the failed steps; else the interruption; else the journal's error.
func (e *RunError) Unwrap() []error {
	switch {
	case len(e.Failed) > 0:
		errs := make([]error, 0, len(e.Failed))
		for _, s := range e.Failed {
			errs = append(errs, s)
		}
		return errs
	case e.interrupted() && e.Cause != nil:
		return []error{e.Cause}
	case e.interrupted():
		return []error{fail.New(fail.Interrupted, "stopped by the user")}
	default:
		return []error{e.Journal}
	}
}

// runError returns nil if every step succeeded and everything was recorded; x.mu is held.
func (x *execution) runError() error {
	r := x.result
	if r.Outcome == OutcomeSucceeded && x.journal == nil {
		return nil
	}
	e := &RunError{
		Verb: r.Verb, Title: r.Title, Cluster: r.Cluster, Steps: len(r.Steps), Succeeded: r.Count(Succeeded), NotStarted: r.Count(Skipped), Cause: x.cause, Journal: x.journal,
	}
	for i, s := range r.Steps {
		se := &StepError{ID: s.ID, Title: s.Title, Err: x.errs[i]}
		switch s.State {
		case Failed:
			e.Failed = append(e.Failed, se)
		case Stopped:
			e.Stopped = append(e.Stopped, se)
		}
	}
	return e
}

// indent aligns the further lines of a text with its list item.
func indent(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n    ") }
