package plan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// step executes step i, from recording it as running to recording its final state, which it returns.
func (x *execution) step(ctx context.Context, i int) StepState {
	s := x.plan.Steps[i]
	if err := x.started(i); err != nil {
		return x.ended(i, Failed, err)
	}
	timeout := s.Timeout
	if timeout <= 0 {
		timeout = x.o.Timeout
	}
	x.hook(s.ID, BeforeStep)
	state, err := x.attempts(ctx, i, timeout)
	x.hook(s.ID, AfterStep)
	return x.ended(i, state, err)
}

func (x *execution) hook(id string, p Phase) {
	if x.o.Hook != nil {
		x.o.Hook(id, p)
	}
}

// attempts runs the step until it succeeds, fails for good, is stopped, or reaches its time limit.
func (x *execution) attempts(parent context.Context, i int, timeout time.Duration) (StepState, error) {
	s, began := x.plan.Steps[i], time.Now()
	ctx, cancel := context.WithTimeout(parent, timeout)
	defer cancel()
	if s.Action == Wait { // changes nothing: may be left at once
		go func() {
			select {
			case <-x.soft:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	var last error // of the last attempt that our clock did not cut short, whose words tell more
	pause := x.o.RetryInterval
	for attempt := 1; ; attempt++ {
		err := x.attempt(ctx, i)
		if err == nil {
			return Succeeded, nil
		}
		if cut := isContext(err) || ctx.Err() != nil && fail.Waitable(err); last == nil || !cut {
			last = err
		}
		switch {
		case parent.Err() != nil || errors.Is(ctx.Err(), context.Canceled):
			return Stopped, last
		case ctx.Err() != nil:
			return Failed, x.tooLate(i, last, attempt, time.Since(began))
		case !fail.Waitable(err):
			return Failed, err
		}
		if err := x.retrying(i, attempt, err); err != nil {
			return Failed, errors.Join(last, err)
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1)) //nolint:gosec // to spread retries, any randomness does
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-x.soft: // between attempts is a clean place to stop
			timer.Stop()
			return Stopped, last
		}
		timer.Stop()
		switch {
		case parent.Err() != nil:
			return Stopped, last
		case ctx.Err() != nil:
			return Failed, x.tooLate(i, last, attempt, time.Since(began))
		}
		pause = min(pause*3/2+1, x.o.RetryMax)
	}
}

// attempt runs the step once. It turns a panic into an error, and gives up on a step that ignores its context.
func (x *execution) attempt(ctx context.Context, i int) error {
	s := x.plan.Steps[i]
	done := make(chan error, 1)
	go func() {
		err := fail.New(fail.Internal, "the step's goroutine ended without returning").At(s.ID)
		var result error = err
		defer func() {
			if r := recover(); r != nil {
				result = fail.New(fail.Internal, "panic: %v (%s)", r, panicSite()).At(s.ID).
					Do("this is a defect of naupegos; please report it")
			}
			done <- result
		}()
		if x.o.Before != nil {
			if result = x.o.Before(ctx, s); result != nil {
				return
			}
		}
		result = s.Run(ctx, &progress{x, i})
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(x.o.Grace)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fail.New(fail.Internal, "did not stop within %s; it may still be running", words.Duration(x.o.Grace))
	}
}

// tooLate returns an error that says what was waited for, for how long, and the last state.
func (x *execution) tooLate(i int, last error, attempts int, took time.Duration) error {
	x.mu.Lock()
	status := x.status[i]
	x.mu.Unlock()
	what := "gave up after " + words.Duration(took)
	if attempts > 1 {
		what += fmt.Sprintf(" and %d attempts", attempts)
	}
	if status != "" {
		what += ", last seen " + words.Line(status)
	}
	if !isContext(last) {
		return fail.Wrap(fail.NotReady, last, "%s", what)
	}
	if said := withoutContext(last); said != "" {
		what += ": " + said
	}
	return fail.New(fail.NotReady, "%s", what)
}

// withoutContext returns what an error says besides that its context ended.
func withoutContext(err error) string {
	text := ": " + err.Error()
	for _, end := range []error{context.DeadlineExceeded, context.Canceled} {
		text = strings.ReplaceAll(text, ": "+end.Error(), "")
	}
	return strings.TrimPrefix(text, ": ")
}

func isContext(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// panicSite returns the function, file and line that panicked.
func panicSite() string {
	pc := make([]uintptr, 32)
	frames := runtime.CallersFrames(pc[:runtime.Callers(3, pc)])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") {
			return fmt.Sprintf("%s at %s:%d", f.Function, filepath.Base(f.File), f.Line)
		}
		if !more {
			return "unknown place"
		}
	}
}

// progress is the Progress of one running step.
type progress struct {
	x *execution
	i int
}

// Status shows the step's one-line status. After the end of the step it is ignored.
func (p *progress) Status(format string, args ...any) { p.x.say(p.i, fmt.Sprintf(format, args...)) }

// Note passes a lasting note about the cluster to the run's observer.
func (p *progress) Note(format string, args ...any) {
	p.x.mu.Lock()
	defer p.x.mu.Unlock()
	p.x.o.Observer.Note(fmt.Sprintf(format, args...))
}
