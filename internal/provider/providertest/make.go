package providertest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

var hostKey = regexp.MustCompile(`^(ssh|ecdsa|sk)-[a-z0-9@.-]+ AAAA[0-9A-Za-z+/]+={0,2}( |$)`)

// nothing asserts that nothing exists, and that its removal does nothing.
func (l *life) nothing() {
	before := l.Things(l)
	p, inv := l.observe()
	if len(inv.Machines)+len(inv.Others) > 0 || inv.VIP != "" {
		l.Errorf("there is something: %+v", inv)
	}
	if _, err := p.Machine(l.Context(), l.last().Name); fail.KindOf(err) != fail.NotFound {
		l.Errorf("a machine that is not made: %v", err)
	}
	if err := p.Power(l.Context(), l.last().Name, "on"); fail.KindOf(err) != fail.NotFound {
		l.Errorf("power of a machine that is not made: %v", err)
	}
	l.must(alone(p.DestroyMachine(provider.Machine{Name: l.last().Name})))
	l.must(p.Destroy(l.Context(), inv)...)
	if d := cmp.Diff(before, l.Things(l)); d != "" {
		l.Errorf("removing nothing changes something (-before +after):\n%s", d)
	}
}

// planned asserts that a plan from nothing has a step for each machine, is the same each time, and makes nothing.
func (l *life) planned() {
	before := l.Things(l)
	p, steps := l.plan(l.Want)
	for _, spec := range l.Want.Machines {
		s := l.step(steps, provider.MachineStep(spec.Name))
		if s.Subject != spec.Name || s.Action != plan.Create {
			l.Errorf("step %s is to %s %s", s.ID, s.Action, s.Subject)
		}
		if m, err := p.Machine(l.Context(), spec.Name); err == nil && m.State != provider.Partial || err != nil && fail.KindOf(err) != fail.NotFound {
			l.Errorf("%s is only planned, and %s already: %v", spec.Name, m.State, err)
		}
	}
	inv := testkit.Value(p.Observe(l.Context()))(l)
	if d := cmp.Diff(ids(steps), ids(l.steps(p, l.Want, inv))); d != "" {
		l.Errorf("planned again, there are other steps (-first +second):\n%s", d)
	}
	if d := cmp.Diff(before, l.Things(l)); d != "" {
		l.Errorf("planning changes something (-before +after):\n%s", d)
	}
}

func ids(steps []*plan.Step) []string {
	var out []string
	for _, s := range steps {
		out = append(out, s.ID)
	}
	slices.Sort(out)
	return out
}

// madeStepByStep carries out one step in each run, twice. Before that, runs of every other step are interrupted, at its first word, its second
// and so on. The next run continues from there at once, until nothing is left to do.
func (l *life) madeStepByStep() {
	done := map[string]bool{}
	_, steps := l.plan(l.Want)
	for n := 0; len(steps) > 0; n++ {
		s := first(steps)
		what := fmt.Sprint(s.ID, s.Details)
		if done[what] {
			l.Fatalf("%s was carried out, and is planned again: %s %v", s.ID, s.Reason, s.Details)
		}
		done[what] = true
		for words := range 4 {
			if n%2 != 0 && s.ID != provider.MachineStep(l.last().Name) {
				break
			}
			l.interrupted(s, words+1)
			_, steps = l.plan(l.Want)
			if i := slices.IndexFunc(steps, func(again *plan.Step) bool { return again.ID == s.ID }); i >= 0 {
				s = steps[i]
			}
		}
		began := time.Now()
		l.must(alone(s))
		l.must(alone(s))
		l.Logf("%s: %v", s.ID, time.Since(began).Round(time.Millisecond))
		_, steps = l.plan(l.Want)
	}
}

// interrupted cancels a step at one of its words. One that says less may be done by then, but not one that makes or removes a machine.
func (l *life) interrupted(s *plan.Step, words int) {
	l.Helper()
	ctx, cancel := context.WithCancel(l.Context())
	defer cancel()
	said := 0
	done := l.stops(ctx, s.ID, func() error {
		return s.Run(ctx, word(func() {
			if said++; said == words {
				cancel()
			}
		}))
	})
	switch {
	case done && ctx.Err() != nil && (s.ID == provider.MachineStep(s.Subject) || s.ID == provider.DestroyStep(s.Subject)):
		l.Errorf("%s was cancelled, and continues", s.ID)
	case said == 0:
		l.Logf("%s says nothing, and could not be interrupted", s.ID)
	}
}

// word is called at each word of a step.
type word func()

// Status calls it.
func (w word) Status(string, ...any) { w() }

// madeAtOnce runs all steps in parallel, with concurrent queries for machines. It cancels the run once the last machine's step has begun; the
// next run continues.
func (l *life) madeAtOnce() {
	p, steps := l.plan(l.Want)
	ctx, cancel := context.WithCancel(l.Context())
	defer cancel()
	var asking sync.WaitGroup
	for _, spec := range l.Want.Machines {
		asking.Go(func() {
			for ctx.Err() == nil {
				if _, err := p.Machine(ctx, spec.Name); err != nil && fail.KindOf(err) != fail.NotFound && ctx.Err() == nil {
					l.Errorf("%s while it is made: %v", spec.Name, err)
					return
				}
				time.Sleep(10 * time.Millisecond) // so that it does not only ask
			}
		})
	}
	s := l.step(steps, provider.MachineStep(l.last().Name))
	run := s.Run
	s.Run = func(ctx context.Context, p plan.Progress) error {
		cancel()
		return run(ctx, p)
	}
	l.stops(ctx, "apply", func() error { return l.execute(ctx, steps...) })
	asking.Wait()
	_, steps = l.plan(l.Want)
	l.must(steps...)
}
