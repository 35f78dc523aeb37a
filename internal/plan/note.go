package plan

import (
	"context"
	"errors"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

const (
	journalTimeout = 20 * time.Second // for one write, even while the run is being stopped
	maxRetryNotes  = 20               // maximum number of recorded retries per step; a broken network can cause any number of them
)

// write calls f with a context that outlives a cancelled run, and returns an error that says what could not be recorded.
func (x *execution) write(what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), journalTimeout)
	defer cancel()
	if err := f(ctx); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "record in the journal that %s", what)
	}
	return nil
}

func (x *execution) beginJournal(ctx context.Context) (run string, err error) {
	if ctx.Err() != nil {
		return "", fail.Wrap(fail.Interrupted, ctx.Err(), "%s was stopped before it began; nothing was changed", x.plan.Verb)
	}
	err = x.write("the run begins", func(ctx context.Context) error {
		run, err = x.o.Journal.Begin(ctx, x.plan, x.o.Meta)
		return err
	})
	return run, err
}

// endJournal is called with x.mu held.
func (x *execution) endJournal() {
	err := x.write("the run ended", func(ctx context.Context) error {
		return x.o.Journal.End(ctx, x.result.ID, x.result.Outcome, x.result.Evidence)
	})
	x.journal = errors.Join(x.journal, err)
}

func (x *execution) journalStep(i int, state StepState, at time.Time, errText string) error {
	id := x.plan.Steps[i].ID
	return x.write(id+" is "+string(state), func(ctx context.Context) error {
		return x.o.Journal.Step(ctx, x.result.ID, id, state, at, errText)
	})
}

// started records that step i runs; if it fails, the step must not run.
func (x *execution) started(i int) error {
	now := time.Now()
	err := x.journalStep(i, Running, now, "")
	x.mu.Lock()
	defer x.mu.Unlock()
	rec := &x.result.Steps[i]
	rec.State, rec.Started = Running, now
	x.emit(i, Running, now, 1, nil)
	return err
}

// retrying records a failed attempt if its error differs from that of the previous attempt.
func (x *execution) retrying(i, attempt int, cause error) error {
	now, text := time.Now(), cause.Error()
	x.mu.Lock()
	rec := &x.result.Steps[i]
	n := len(rec.Retries)
	news := n < maxRetryNotes && (n == 0 || rec.Retries[n-1].Err != text)
	if news {
		rec.Retries = append(rec.Retries, Retry{At: now, Err: text})
	}
	rec.State = Retrying
	x.emit(i, Retrying, now, attempt, cause)
	x.mu.Unlock()
	if !news {
		return nil
	}
	return x.journalStep(i, Retrying, now, text)
}

// ended records the final state of step i and returns it: Failed instead of Succeeded if recording failed.
func (x *execution) ended(i int, state StepState, cause error) StepState {
	now := time.Now()
	if err := x.journalStep(i, state, now, errText(cause)); err != nil {
		state, cause = Failed, errors.Join(cause, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	rec := &x.result.Steps[i]
	rec.State, rec.Ended, rec.Err = state, now, errText(cause)
	x.errs[i] = cause
	x.emit(i, state, now, 0, cause)
	return state
}

// skip records that step i never started. Nothing depends on it, so a failure to record only adds to the run's error.
func (x *execution) skip(i int) {
	err := x.journalStep(i, Skipped, time.Now(), "")
	x.mu.Lock()
	defer x.mu.Unlock()
	x.journal = errors.Join(x.journal, err)
	x.result.Steps[i].State = Skipped
}

// say stores the status of step i and passes it to the observer.
func (x *execution) say(i int, status string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	rec := &x.result.Steps[i]
	if rec.State.Final() || x.status[i] == status {
		return
	}
	x.status[i] = status
	x.emit(i, Running, time.Now(), 0, nil)
}

// emit sends an event to the observer; x.mu is held.
func (x *execution) emit(i int, state StepState, at time.Time, attempt int, err error) {
	x.o.Observer.Event(Event{
		Step: x.plan.Steps[i], State: state, At: at, Started: x.result.Steps[i].Started, Status: x.status[i], Attempt: attempt, Err: err,
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
