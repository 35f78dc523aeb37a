package plan

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// seen is an observer that records notes and states.
type seen struct {
	notes  []string
	states []StepState
	ended  bool
}

func (o *seen) Begin(*Plan, time.Time) {}
func (o *seen) Event(e Event)          { o.states = append(o.states, e.State) }
func (o *seen) Note(text string)       { o.notes = append(o.notes, text) }
func (o *seen) End(*Result)            { o.ended = true }

func one(action Action, timeout time.Duration, run func(context.Context, Progress) error) *Plan {
	return &Plan{Verb: "apply", Cluster: "demo", Steps: []*Step{
		{ID: "boot", Title: "boot demo", Action: action, Timeout: timeout, Run: run},
		{ID: "next", Title: "go on", Action: Create, Needs: []string{"boot"}, Run: done},
	}}
}

// wantError checks that an error is of a kind and says each of words.
func TestWaitsUntilTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		res, err := Execute(t.Context(), one(Create, time.Minute, func(_ context.Context, p Progress) error {
			p.Status("waiting for SSH on %s", "10.0.0.5")
			return fail.New(fail.Unreachable, "connection refused").At("10.0.0.5:22")
		}), Options{})
		testkit.Fails(t, err, fail.NotReady, "boot", "gave up after 60.0s", "attempts", "waiting for SSH on 10.0.0.5", "connection refused",
			"1 step was not started", "run the same command again to continue")
		if d := time.Since(began); d != time.Minute {
			t.Errorf("took %s, want its timeout", d)
		}
		if n := len(res.Steps[0].Retries); n != 1 {
			t.Errorf("%d retries of the same error recorded, want 1", n)
		}
	})
}

// TestNotesReachWhoWatches: the observer gets a step's note unchanged and separate from its status.
func TestNotesReachWhoWatches(t *testing.T) {
	o := &seen{}
	_, err := Execute(t.Context(), one(Create, 0, func(_ context.Context, p Progress) error {
		p.(Noter).Note("%s is odd", "this") //nolint:forcetypeassert // the purpose of the test
		return nil
	}), Options{Observer: o})
	if err != nil || !slices.Equal(o.notes, []string{"this is odd"}) {
		t.Errorf("%q: %v", o.notes, err)
	}
}

// TestCutShortAttemptSaysLess: if the step's time limit cuts an attempt short, the error contains the message of the attempt before it.
func TestCutShortAttemptSaysLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		_, err := Execute(t.Context(), one(Create, time.Minute, func(ctx context.Context, _ Progress) error {
			if n++; n < 3 {
				return fail.New(fail.Unreachable, "DB is away")
			}
			<-ctx.Done()
			return fail.New(fail.Unreachable, "neutron: the request took too long")
		}), Options{})
		testkit.Fails(t, err, fail.NotReady, "gave up after 60.0s and 3 attempts", "DB is away")
	})
}

// TestWaitSaysWhatIsMissing: a wait that the time limit ends reports what it has seen, without Go's words for the limit.
func TestWaitSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, missing := range []string{"0 of 1 pods available: pod web-1: CrashLoopBackOff", ""} {
			_, err := Execute(t.Context(), one(Wait, time.Minute, func(ctx context.Context, p Progress) error {
				p.Status("waiting for web")
				<-ctx.Done()
				if missing == "" {
					return ctx.Err()
				}
				return fail.Wrap(fail.NotReady, ctx.Err(), "%s", missing)
			}), Options{})
			testkit.Fails(t, err, fail.NotReady, "gave up after 60.0s, last seen waiting for web", missing)
			if strings.Contains(err.Error(), "context") {
				t.Errorf("it speaks of contexts: %v", err)
			}
		}
	})
}

func TestOtherErrorsAreNotRetried(t *testing.T) {
	n := 0
	_, err := Execute(t.Context(), one(Create, 0, func(context.Context, Progress) error {
		n++
		return fail.New(fail.Unauthorized, "host key has changed").Do("look who answers there")
	}), Options{})
	testkit.Fails(t, err, fail.Unauthorized, "1 of 2 steps failed", "host key has changed", "look who answers there")
	if n != 1 {
		t.Errorf("%d attempts", n)
	}
}

// TestOwnDeadlineOfAStepIsWaitable: a step that limits its single attempts is retried.
func TestOwnDeadlineOfAStepIsWaitable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		_, err := Execute(t.Context(), one(Create, time.Minute, func(ctx context.Context, _ Progress) error {
			if n++; n == 3 {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		}), Options{})
		if err != nil || n != 3 {
			t.Error(n, err)
		}
	})
}

func TestPanicIsAnErrorThatNamesTheStep(t *testing.T) {
	_, err := Execute(t.Context(), one(Create, 0, func(context.Context, Progress) error {
		var m map[string]int
		m["x"] = 1 //nolint:staticcheck // the panic is the point
		return nil
	}), Options{})
	testkit.Fails(t, err, fail.Internal, "boot", "panic: assignment to entry in nil map", "execute_test.go:", "defect")
}

func TestStepThatHeedsNothingIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		began := time.Now()
		_, err := Execute(t.Context(), one(Create, time.Minute, func(context.Context, Progress) error { <-free; return nil }), Options{Grace: 5 * time.Second})
		testkit.Fails(t, err, fail.NotReady, "did not stop within 5.0s")
		if d := time.Since(began); d != 65*time.Second {
			t.Errorf("took %s", d)
		}
		close(free)
	})
}

func TestFirstStopLetsRunningStepsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, o := make(chan struct{}), &seen{}
		time.AfterFunc(time.Second, func() { close(stop) })
		res, err := Execute(t.Context(), one(Create, 0, func(ctx context.Context, _ Progress) error {
			time.Sleep(5 * time.Second)
			return ctx.Err()
		}), Options{Stop: stop, Observer: o})
		testkit.Fails(t, err, fail.Interrupted, "stopped after 1 of 2 steps", "1 step was not started", "run the same command again")
		if res.Outcome != OutcomeInterrupted || res.Steps[0].State != Succeeded || !o.ended || len(o.notes) != 1 {
			t.Errorf("%+v %+v", res, o)
		}
	})
}

// TestStopEndsWaiting: a stop ends a wait between attempts, because a wait changes nothing.
func TestStopEndsWaiting(t *testing.T) {
	for name, p := range map[string]*Plan{
		"wait":    one(Wait, 0, func(ctx context.Context, _ Progress) error { <-ctx.Done(); return ctx.Err() }),
		"retries": one(Create, 0, func(context.Context, Progress) error { return fail.New(fail.NotReady, "not yet") }),
	} {
		synctest.Test(t, func(t *testing.T) {
			stop, began := make(chan struct{}), time.Now()
			time.AfterFunc(10*time.Second, func() { close(stop) })
			res, err := Execute(t.Context(), p, Options{Stop: stop})
			testkit.Fails(t, err, fail.Interrupted, "stopped: boot")
			if time.Since(began) != 10*time.Second || res.Steps[0].State != Stopped {
				t.Errorf("%s: %s, %+v", name, time.Since(began), res)
			}
		})
	}
}

func TestSecondStopCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		res, err := Execute(ctx, one(Create, 0, func(ctx context.Context, _ Progress) error { <-ctx.Done(); return ctx.Err() }), Options{})
		testkit.Fails(t, err, fail.Interrupted, "stopped: boot")
		if res.Steps[0].State != Stopped || res.Steps[1].State != Skipped {
			t.Errorf("%+v", res)
		}
		_, err = Execute(ctx, one(Create, 0, done), Options{})
		testkit.Fails(t, err, fail.Interrupted, "nothing was changed")
	})
}

func TestCauseOfCancelIsTheError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(fail.New(fail.Conflict, "the lease was lost")) })
		_, err := Execute(ctx, one(Create, 0, func(ctx context.Context, _ Progress) error { <-ctx.Done(); return ctx.Err() }), Options{})
		testkit.Fails(t, err, fail.Conflict, "stopped: boot", "the lease was lost")
	})
}

func TestKeepGoing(t *testing.T) {
	for _, keep := range []bool{false, true} {
		p := &Plan{Verb: "destroy", Cluster: "demo", Steps: []*Step{
			{ID: "a", Run: func(context.Context, Progress) error { return errors.New("broken") }},
			{ID: "b", Run: done, Needs: []string{"a"}},
			{ID: "c", Run: done},
			{ID: "d", Run: done, Needs: []string{"c"}},
		}}
		res, err := Execute(t.Context(), p, Options{Parallel: 1, KeepGoing: keep})
		want := []StepState{Failed, Skipped, Skipped, Skipped}
		if keep {
			want = []StepState{Failed, Skipped, Succeeded, Succeeded}
		}
		var got []StepState
		for _, s := range res.Steps {
			got = append(got, s.State)
		}
		if !slices.Equal(got, want) || err == nil {
			t.Errorf("keep going %v: %v, want %v (%v)", keep, got, want, err)
		}
	}
}

func TestOrderIsFirstComeFirstServed(t *testing.T) {
	var order []string
	run := func(id string, needs ...string) *Step {
		return &Step{ID: id, Needs: needs, Run: func(context.Context, Progress) error { order = append(order, id); return nil }}
	}
	p := &Plan{Steps: []*Step{run("z"), run("late", "z"), run("y"), run("a"), run("later", "late", "a")}}
	if _, err := Execute(t.Context(), p, Options{Parallel: 1}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"z", "y", "a", "late", "later"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

// TestWhatCannotBeRecordedIsNotDone makes single writes to the journal fail.
func TestWhatCannotBeRecordedIsNotDone(t *testing.T) {
	for _, state := range []StepState{Running, Succeeded, Failed} {
		ran := false
		p := one(Create, 0, func(context.Context, Progress) error {
			ran = true
			if state == Failed {
				return errors.New("its own error")
			}
			return nil
		})
		j := &memory{refuse: func(id string, s StepState) bool { return id == "boot" && s == state }}
		res, err := Execute(t.Context(), p, Options{Journal: j})
		testkit.Fails(t, err, fail.Internal, "disk full", "record in the journal")
		if state == Failed && !strings.Contains(err.Error(), "its own error") {
			t.Errorf("the step's own error is lost: %v", err)
		}
		if ran != (state != Running) {
			t.Errorf("refused %s: ran %v", state, ran)
		}
		if res.Steps[0].State != Failed || res.Steps[1].State != Skipped {
			t.Errorf("refused %s: %+v", state, res.Steps)
		}
	}
}

func TestHookAndEmptyPlan(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	hook := func(id string, p Phase) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, string(p)+" "+id)
	}
	j := &memory{}
	if _, err := Execute(t.Context(), one(Create, 0, done), Options{Hook: hook, Journal: j}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"before boot", "after boot", "before next", "after next"}; !slices.Equal(calls, want) {
		t.Error(calls)
	}
	empty := &memory{}
	res, err := Execute(t.Context(), &Plan{}, Options{Journal: empty})
	if err != nil || res.Outcome != OutcomeSucceeded || empty.outcome != "" {
		t.Errorf("%+v, %v, journal %q", res, err, empty.outcome)
	}
}
