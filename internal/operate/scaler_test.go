package operate

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// yard is a cluster whose pool "a" changes on request.
type yard struct {
	mu    sync.Mutex
	pool  scaling.Pool
	wish  []string      // the machines to remove, change by change
	hold  chan struct{} // delays execution until closed; nil: no delay
	fails error         // result of execution
	busy  error         // why no change can begin
}

func (y *yard) scaler(stop <-chan struct{}) *Scaler {
	return &Scaler{
		Name: "demo", Stop: stop, Tell: func(string, ...any) {},
		Look: func(context.Context) ([]scaling.Pool, error) {
			y.mu.Lock()
			defer y.mu.Unlock()
			p := y.pool
			p.Machines = slices.Clone(p.Machines)
			return []scaling.Pool{p}, nil
		},
		Carry: y.carry,
	}
}

func (y *yard) carry(_ context.Context, _ string, to Resizing, agreed func([]scaling.Pool)) error {
	y.mu.Lock()
	if y.busy != nil {
		defer y.mu.Unlock()
		return y.busy
	}
	size, gone, err := to(y.pool.Size)
	if err != nil {
		y.mu.Unlock()
		return err
	}
	y.wish = append(y.wish, gone...)
	y.pool.Size = size
	y.pool.Machines = slices.DeleteFunc(y.pool.Machines, func(m scaling.Machine) bool { return !m.Exists })
	for i := range y.pool.Machines {
		y.pool.Machines[i].Leaves = slices.Contains(gone, y.pool.Machines[i].Name)
	}
	for _, name := range []string{"a-1", "a-2", "a-3", "a-4"} {
		if len(y.pool.Machines)-len(gone) < size && !slices.ContainsFunc(y.pool.Machines, func(m scaling.Machine) bool { return m.Name == name }) {
			y.pool.Machines = append(y.pool.Machines, scaling.Machine{Name: name})
		}
	}
	agreed([]scaling.Pool{y.pool})
	hold, fails := y.hold, y.fails
	y.mu.Unlock()
	if hold != nil {
		<-hold
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if fails != nil {
		return fails
	}
	y.pool.Machines = slices.DeleteFunc(y.pool.Machines, func(m scaling.Machine) bool { return m.Leaves })
	for i := range y.pool.Machines {
		y.pool.Machines[i].Exists, y.pool.Machines[i].Runs = true, true
	}
	return nil
}

func newYard(names ...string) *yard {
	y := &yard{pool: scaling.Pool{Name: "a", Min: 1, Max: 4, Size: len(names)}}
	for _, n := range names {
		y.pool.Machines = append(y.pool.Machines, scaling.Machine{Name: n, Exists: true, Runs: true})
	}
	return y
}

// machines returns the pool's machines as reported to the autoscaler.
func machines(t *testing.T, s *Scaler) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range testkit.Value(s.List(t.Context()))(t)[0].Machines {
		switch {
		case m.Problem != "":
			out[m.Name] = m.Problem
		case m.Leaves:
			out[m.Name] = "leaves"
		case m.Exists && m.Runs:
			out[m.Name] = "runs"
		default:
			out[m.Name] = "is made"
		}
	}
	return out
}

// TestScalerAnswersBeforeItIsDone: a call returns once the change is stored; until it is carried out, other changes are refused.
func TestScalerAnswersBeforeItIsDone(t *testing.T) {
	y := newYard("a-1")
	y.hold = make(chan struct{})
	s := y.scaler(nil)
	testkit.Must(t, s.Grow(t.Context(), "a", 1))
	if got := machines(t, s); got["a-1"] != "runs" || got["a-2"] != "is made" {
		t.Errorf("meanwhile: %v", got)
	}
	testkit.Fails(t, s.Grow(t.Context(), "a", 1), fail.Conflict, "another change")
	testkit.Must(t, s.Refresh(t.Context())) // and begins nothing
	close(y.hold)
	s.Wait()
	testkit.Must(t, s.Refresh(t.Context()))
	if got := machines(t, s); len(got) != 2 || got["a-2"] != "runs" {
		t.Errorf("in the end: %v", got)
	}
	testkit.Must(t, s.Remove(t.Context(), "a", []string{"a-1"}))
	s.Wait()
	testkit.Must(t, s.Refresh(t.Context()))
	if got := machines(t, s); len(got) != 1 || got["a-2"] != "runs" || !slices.Equal(y.wish, []string{"a-1"}) || y.pool.Size != 1 {
		t.Errorf("without a-1: %v, %q", got, y.wish)
	}
	testkit.Must(t, s.Remove(t.Context(), "a", []string{"a-1"})) // is gone already
	if y.pool.Size != 1 {
		t.Errorf("the same machine was taken twice: %d", y.pool.Size)
	}
}

// TestScalerForgoes gives up machines that do not exist yet, and no others.
func TestScalerForgoes(t *testing.T) {
	y := newYard("a-1", "a-2")
	y.fails = fail.New(fail.Refused, "no quota")
	s := y.scaler(nil)
	testkit.Must(t, s.Grow(t.Context(), "a", 1))
	s.Wait()
	testkit.Must(t, s.Refresh(t.Context()))
	if got := machines(t, s); got["a-3"] != "no quota" || got["a-1"] != "runs" {
		t.Errorf("what could not be made: %v", got)
	}
	y.fails = nil
	testkit.Fails(t, s.Forgo(t.Context(), "a", 2), fail.Invalid, "has 2 machines")
	testkit.Must(t, s.Forgo(t.Context(), "a", 1))
	s.Wait()
	if len(y.wish) > 0 || y.pool.Size != 2 || len(y.pool.Machines) != 2 {
		t.Errorf("after forgoing: %q, %+v", y.wish, y.pool)
	}
}

// TestScalerGoesOn: earlier changes of this server or a killed one are completed eventually, with pauses after failures.
func TestScalerGoesOn(t *testing.T) {
	y := newYard("a-1")
	y.pool.Size, y.pool.Machines = 2, append(y.pool.Machines, scaling.Machine{Name: "a-2"})
	y.fails = fail.New(fail.Unreachable, "no answer")
	s := y.scaler(nil)
	testkit.Must(t, s.Refresh(t.Context()))
	s.Wait()
	y.fails = nil
	testkit.Must(t, s.Refresh(t.Context()))
	s.Wait()
	if machines(t, s)["a-2"] != "no answer" {
		t.Errorf("it was tried again at once: %v", machines(t, s))
	}
	s.again = time.Time{} // a minute later
	y.busy = fail.New(fail.Conflict, "apply is running")
	testkit.Must(t, s.Refresh(t.Context()))
	s.Wait()
	y.busy = nil
	testkit.Must(t, s.Refresh(t.Context())) // another process's lease is no failure
	s.Wait()
	testkit.Must(t, s.Refresh(t.Context()))
	if machines(t, s)["a-2"] != "runs" {
		t.Errorf("in the end: %v", machines(t, s))
	}
}

// TestScalerStops: a stopping server begins no change, and a cancelled call changes nothing.
func TestScalerStops(t *testing.T) {
	y := newYard("a-1")
	stop := make(chan struct{})
	s := y.scaler(stop)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.Fails(t, s.Grow(gone, "a", 1), fail.Interrupted, "was abandoned by its client")
	close(stop)
	testkit.Fails(t, s.Grow(t.Context(), "a", 1), fail.Interrupted, "is being stopped")
	if y.pool.Size != 1 {
		t.Errorf("and yet the pool is of %d", y.pool.Size)
	}
}
