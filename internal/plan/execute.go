package plan

import (
	"context"
	"sync"
	"time"
)

// Execute executes the plan: it starts every step whose needs have succeeded, at most Options.Parallel at once, in the order in which they became
// ready. After a failure no new steps start (unless KeepGoing is set or the step is Apart); running ones finish. Once the run has begun, the result is not nil and an
// error is a *RunError; before that (faulty plan, missing consent, no journal) nothing has been changed. A plan without steps leaves no trace.
//
// Closing Options.Stop ends the run after the running steps. Cancelling ctx ends it at once, and the cause (context.WithCancelCause), if there is
// one, becomes the run's error. Steps that can't be stopped within Options.Grace are abandoned: they are recorded as ended, but may still be running.
func Execute(ctx context.Context, p *Plan, o Options) (*Result, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := p.CheckConsents(o.Consents); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	x := newExecution(p, o)
	if p.Empty() {
		x.result.Outcome, x.result.Ended = OutcomeSucceeded, x.result.Started
		return x.result, nil
	}
	run, err := x.beginJournal(ctx)
	if err != nil {
		return nil, err
	}
	x.result.ID = run
	o.Observer.Begin(p, x.result.Started)
	x.schedule(ctx)
	if cause := context.Cause(ctx); cause != ctx.Err() { //nolint:errorlint // the very value: is there a cause of its own?
		x.cause = cause
	}
	return x.finish()
}

// execution is one run of a plan.
type execution struct {
	plan    *Plan
	o       Options
	unmet   []int         // by step: number of its needs that have not succeeded yet
	users   [][]int       // by step: the steps that need it
	soft    chan struct{} // closed when the user asks to stop
	errs    []error       // by step: why it failed
	mu      sync.Mutex    // guards result, status and calls of the observer
	result  *Result
	status  []string
	cause   error // why ctx was cancelled, unless the user cancelled it
	journal error // first failure to record something that had happened
}

func newExecution(p *Plan, o Options) *execution {
	n := len(p.Steps)
	x := &execution{
		plan: p, o: o, unmet: make([]int, n), users: make([][]int, n), soft: make(chan struct{}),
		errs: make([]error, n), status: make([]string, n),
		result: &Result{RunRecord{Verb: p.Verb, Title: p.Title, Subject: p.Subject, Cluster: p.Cluster, Meta: o.Meta, Outcome: OutcomeRunning, Started: time.Now()}},
	}
	index := make(map[string]int, n)
	for i, s := range p.Steps {
		index[s.ID] = i
		x.result.Steps = append(x.result.Steps, StepRecord{
			ID: s.ID, Action: s.Action, Title: s.Title, Subject: s.Subject, Reason: s.Reason, Needs: s.Needs, State: Pending,
		})
	}
	for i, s := range p.Steps {
		for _, need := range s.Needs {
			x.unmet[i]++
			x.users[index[need]] = append(x.users[index[need]], i)
		}
	}
	return x
}

// report is the result that a step's goroutine returns.
type report struct {
	step  int
	state StepState
}

// schedule starts steps and waits for them until none is running and none may start.
func (x *execution) schedule(ctx context.Context) {
	var ready []int
	for i, n := range x.unmet {
		if n == 0 {
			ready = append(ready, i)
		}
	}
	done := make(chan report)
	running, halted := 0, false
	stop, cancelled := x.o.Stop, ctx.Done()
	for {
		select { // a stop that was requested earlier prevents further starts
		case <-stop:
			stop, halted = nil, true
			x.askStop(running)
		case <-cancelled:
			cancelled, halted = nil, true
		default:
		}
		for !halted && running < x.o.Parallel && len(ready) > 0 {
			go func(i int) { done <- report{i, x.step(ctx, i)} }(ready[0])
			ready, running = ready[1:], running+1
		}
		if running == 0 {
			return
		}
		select {
		case e := <-done:
			running--
			if e.state == Succeeded {
				ready = append(ready, x.release(e.step)...)
			} else if !x.o.KeepGoing && (e.state != Failed || !x.plan.Steps[e.step].Apart) {
				halted = true
			}
		case <-stop:
			stop, halted = nil, true
			x.askStop(running)
		case <-cancelled:
			cancelled, halted = nil, true
		}
	}
}

// release returns the steps that became ready by the success of step i, in the plan's order.
func (x *execution) release(i int) []int {
	var ready []int
	for _, u := range x.users[i] {
		x.unmet[u]--
		if x.unmet[u] == 0 {
			ready = append(ready, u)
		}
	}
	return ready
}

func (x *execution) askStop(running int) {
	close(x.soft)
	if running > 0 {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.o.Observer.Note("stopping after the running steps; once more to stop now")
	}
}

// finish records the steps that never started and the run's outcome.
func (x *execution) finish() (*Result, error) {
	for i := range x.plan.Steps {
		if x.result.Steps[i].State == Pending {
			x.skip(i)
		}
	}
	var observed *Evidence
	if x.o.Evidence != nil {
		observed = x.o.Evidence()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.result
	r.Evidence = observed
	switch {
	case r.Count(Failed) > 0:
		r.Outcome = OutcomeFailed
	case r.Count(Stopped)+r.Count(Skipped) > 0:
		r.Outcome = OutcomeInterrupted
	default:
		r.Outcome = OutcomeSucceeded
	}
	r.Ended = time.Now()
	x.endJournal()
	x.o.Observer.End(r)
	return r, x.runError()
}
