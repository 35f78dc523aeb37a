package plan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// memory is a journal that keeps records in memory and can be made to fail.
type memory struct {
	mu      sync.Mutex
	states  map[string][]StepState
	outcome Outcome
	refuse  func(id string, s StepState) bool
}

func (m *memory) Begin(context.Context, *Plan, map[string]string) (string, error) { return "run", nil }

func (m *memory) Step(_ context.Context, _, id string, s StepState, _ time.Time, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil && m.refuse(id, s) {
		return errors.New("disk full")
	}
	if m.states == nil {
		m.states = map[string][]StepState{}
	}
	m.states[id] = append(m.states[id], s)
	return nil
}

func (m *memory) End(_ context.Context, _ string, o Outcome, _ *Evidence) error {
	m.outcome = o
	return nil
}

// world records what the executor does to steps.
type world struct {
	mu       sync.Mutex
	running  map[string]int
	most     int
	finished map[string]bool // returned nil
	faults   []string
}

// behave gives a step a Run of a random kind.
func (w *world) behave(r *rand.Rand, s *Step) {
	kind, pauses, attempts := r.IntN(12), time.Duration(r.IntN(3000))*time.Millisecond, 0
	needs := s.Needs
	s.Run = func(ctx context.Context, p Progress) error {
		w.enter(s.ID, needs)
		defer w.leave(s.ID)
		attempts++
		p.Status("attempt %d", attempts)
		switch kind {
		case 0:
			return errors.New("broken")
		case 1:
			panic("bang")
		case 2: // never ready
			return fail.New(fail.NotReady, "still booting")
		case 3: // not ready at first
			if attempts < 4 {
				return fail.New(fail.Unreachable, "no answer on attempt %d", attempts)
			}
		case 4: // hangs until its context ends
			<-ctx.Done()
			return ctx.Err()
		case 5: // ignores its context
			time.Sleep(time.Minute)
		default:
			select {
			case <-time.After(pauses):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		w.mu.Lock()
		w.finished[s.ID] = true
		w.mu.Unlock()
		return nil
	}
}

func (w *world) enter(id string, needs []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range needs {
		if !w.finished[n] {
			w.faults = append(w.faults, id+" ran before "+n)
		}
	}
	w.running[id]++
	if w.running[id] > 1 {
		w.faults = append(w.faults, id+" ran twice at once")
	}
	w.most = max(w.most, len(w.running))
}

func (w *world) leave(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[id]--
	if w.running[id] == 0 {
		delete(w.running, id)
	}
}

// trial executes one random plan and checks all invariants.
func trial(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 42))
	w := &world{running: map[string]int{}, finished: map[string]bool{}}
	p := &Plan{Verb: "apply", Cluster: "demo"}
	calm := r.IntN(3) == 0
	for i := range 1 + r.IntN(30) {
		s := &Step{ID: fmt.Sprintf("s/%d", i), Title: "do", Subject: fmt.Sprint(i % 3), Action: Create, Timeout: time.Duration(1+r.IntN(20)) * time.Second}
		if r.IntN(4) == 0 {
			s.Action = Wait
		}
		for range r.IntN(4) {
			if i > 0 {
				s.Needs = append(s.Needs, p.Steps[r.IntN(i)].ID)
			}
		}
		w.behave(r, s)
		if calm {
			s.Run = func(context.Context, Progress) error {
				w.enter(s.ID, s.Needs)
				defer w.leave(s.ID)
				time.Sleep(time.Second / 2)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.finished[s.ID] = true
				return nil
			}
		}
		p.Steps = append(p.Steps, s)
	}
	r.Shuffle(len(p.Steps), func(i, j int) { p.Steps[i], p.Steps[j] = p.Steps[j], p.Steps[i] })
	journal := &memory{}
	stop := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := Options{Parallel: 1 + r.IntN(6), KeepGoing: r.IntN(2) == 0, Journal: journal, Stop: stop, Grace: 100 * time.Second}
	if stopAt := r.IntN(3); stopAt == 0 {
		time.AfterFunc(time.Duration(r.IntN(20000))*time.Millisecond, func() { close(stop) })
	}
	if r.IntN(3) == 0 {
		time.AfterFunc(time.Duration(1+r.IntN(20000))*time.Millisecond, cancel)
	}
	if r.IntN(5) == 0 {
		bad := p.Steps[r.IntN(len(p.Steps))].ID
		journal.refuse = func(id string, s StepState) bool { return id == bad && s == Running }
	}
	began := time.Now()
	res, err := Execute(ctx, p, o)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		t.Errorf("seed %d: %s", seed, f)
	}
	if w.most > o.Parallel {
		t.Errorf("seed %d: %d steps at once, bound %d", seed, w.most, o.Parallel)
	}
	if len(w.running) != 0 {
		t.Errorf("seed %d: steps still run: %v", seed, w.running)
	}
	if d := time.Since(began); d > time.Hour {
		t.Errorf("seed %d: took %s", seed, d)
	}
	if (err == nil) != (res.Outcome == OutcomeSucceeded) {
		t.Errorf("seed %d: outcome %s, error %v", seed, res.Outcome, err)
	}
	checkJournal(t, seed, journal, res)
}

// checkJournal compares the journal with the result: each step has exactly one final state, as its last, and the same in both.
func checkJournal(t *testing.T, seed uint64, j *memory, res *Result) {
	t.Helper()
	for _, s := range res.Steps {
		states := j.states[s.ID]
		finals := 0
		for _, st := range states {
			if st.Final() {
				finals++
			}
		}
		if finals != 1 || states[len(states)-1] != s.State {
			t.Errorf("seed %d: %s ended %s, its journal is %v", seed, s.ID, s.State, states)
		}
		if s.State != Skipped && j.refuse == nil && states[0] != Running {
			t.Errorf("seed %d: %s was not recorded as running first: %v", seed, s.ID, states)
		}
		if s.State == Skipped && slices.Contains(states, Running) {
			t.Errorf("seed %d: %s ran and was skipped", seed, s.ID)
		}
	}
	if j.outcome != res.Outcome {
		t.Errorf("seed %d: outcome %s, journal says %s", seed, res.Outcome, j.outcome)
	}
}

// TestExecuteAlways executes random plans with random failures and random stops, in virtual time.
func TestExecuteAlways(t *testing.T) {
	for seed := range uint64(3000) {
		synctest.Test(t, func(t *testing.T) { trial(t, seed) })
		if t.Failed() {
			return
		}
	}
}

func FuzzExecute(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { trial(t, seed) })
	})
}
