package providertest

import (
	"context"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// power switches the last machine off and on as the traits allow, and checks the refusals.
func (l *life) power() {
	name := l.last().Name
	was := l.machine(name)
	p := l.Provider(l)
	testkit.Must(l, p.Power(l.Context(), name, "off"))
	l.isOff(name)
	l.startedByApply(p, name)
	if l.traits.Switched {
		testkit.Must(l, p.Power(l.Context(), name, "off")) // once more changes nothing
		for range 2 {
			testkit.Must(l, p.Power(l.Context(), name, "on"))
		}
		l.sameAs(was)
		for range 2 {
			testkit.Must(l, p.Power(l.Context(), name, "kill"))
		}
		l.isOff(name)
		testkit.Must(l, p.Power(l.Context(), name, "on"))
	} else {
		if err := p.Power(l.Context(), name, "off"); fail.KindOf(err) != fail.Unreachable {
			l.Errorf("a machine that does not answer was shut down: %v", err)
		}
		l.On(l, name)
		for _, state := range []string{"on", "kill"} {
			if err := p.Power(l.Context(), name, state); fail.KindOf(err) != fail.Refused {
				l.Errorf("power %s: %v", state, err)
			}
		}
	}
	l.sameAs(was)
	if err := p.Power(l.Context(), name, "sideways"); fail.KindOf(err) != fail.Invalid {
		l.Errorf("power sideways: %v", err)
	}
	if err := p.Power(l.Context(), "nobody-1", "off"); fail.KindOf(err) != fail.NotFound {
		l.Errorf("power of an unknown machine: %v", err)
	}
	l.sameAs(was)
}

// startedByApply asserts that a plan starts the stopped machine if the provider can, and that p knows the new state too.
func (l *life) startedByApply(p provider.Provider, name string) {
	l.Helper()
	if m := testkit.Value(p.Machine(l.Context(), name))(l); m.State == provider.Running {
		l.Errorf("%s was switched off, but is reported as running", name)
	}
	_, steps := l.plan(l.Want)
	if !l.traits.Switched {
		if len(steps) > 0 {
			l.Errorf("there is a step for a machine that can't be switched on: %s", steps[0].ID)
		}
		return
	}
	if s := l.step(steps, provider.MachineStep(name)); s.Action != plan.Change {
		l.Errorf("step %s is to %s it", s.ID, s.Action)
	}
}

// isOff asserts that a machine is not seen as running, in the words that the traits allow.
func (l *life) isOff(name string) {
	l.Helper()
	want := provider.Stopped
	if !l.traits.Switched {
		want = provider.Unreachable
	}
	if m := l.machine(name); m.State != want {
		l.Errorf("%s is off, and seen as %s (%s), want %s", name, m.State, m.Detail, want)
	}
}

// sameAs asserts that a machine is unchanged.
func (l *life) sameAs(was provider.Machine) {
	l.Helper()
	if now := l.machine(was.Name); !cmp.Equal(was, now) {
		l.Errorf("%s is not as it was (-before +after):\n%s", was.Name, cmp.Diff(was, now))
	}
	if l.Login != nil {
		l.Login(l, was)
	}
}

// offBehindItsBack cuts the last machine's power, and asserts that the provider notices and that apply restarts the machine if possible.
func (l *life) offBehindItsBack() {
	name := l.last().Name
	was := l.machine(name)
	l.Off(l, name)
	l.isOff(name)
	if l.traits.Switched {
		_, steps := l.plan(l.Want)
		if d := cmp.Diff([]string{provider.MachineStep(name)}, ids(steps)); d != "" {
			l.Errorf("other steps than the machine's (-want +planned):\n%s", d)
		}
		l.must(steps...)
	} else {
		l.On(l, name)
	}
	l.sameAs(was)
	l.nothingToDo()
}

// goneBehindItsBack destroys a machine that was there when its step was planned: the step makes another one in its place.
func (l *life) goneBehindItsBack() {
	name := l.last().Name
	_, all := l.observe()
	p, inv := l.observe()
	inv.Machines = slices.DeleteFunc(inv.Machines, func(m provider.Machine) bool { return m.Name == name })
	steps := l.steps(p, l.Want, inv)
	l.step(steps, provider.MachineStep(name))
	destroy := p.DestroyMachine(l.machine(name))
	if destroy.ID != provider.DestroyStep(name) || destroy.Subject != name || destroy.Action != plan.Destroy {
		l.Errorf("the step that removes %s is %+v", name, destroy)
	}
	l.interrupted(destroy, 1)
	l.must(destroy)
	l.must(destroy)
	l.sees(inv)
	l.must(steps...)
	if m := l.machine(name); m.State != provider.Running {
		l.Errorf("%s was made again, and is %s", name, m.State)
	}
	for _, m := range all.Machines {
		if m.Name != name {
			l.sameAs(m)
		}
	}
	l.nothingToDo()
}

// sees asserts that exactly these machines exist, unchanged.
func (l *life) sees(want *provider.Inventory) {
	l.Helper()
	if _, now := l.observe(); !cmp.Equal(want.Machines, now.Machines) {
		l.Errorf("machines are not as they were (-before +after):\n%s", cmp.Diff(want.Machines, now.Machines))
	}
}

// balanced runs the steps of Balance, if the provider makes a load balancer, and asserts that Balance then returns none.
func (l *life) balanced() {
	p, inv := l.observe()
	b, ok := p.(provider.Balancer)
	if !ok {
		return
	}
	steps := b.Balance(l.Want, inv)
	for _, s := range steps {
		if !strings.HasPrefix(s.ID, "balance/") {
			l.Errorf("step %s can't be told from the machines'", s.ID)
		}
	}
	l.must(steps...)
	l.must(steps...)
	p, inv = l.observe()
	if steps = p.(provider.Balancer).Balance(l.Want, inv); len(steps) > 0 {
		l.Errorf("there is still to balance: %s: %s %v", steps[0].ID, steps[0].Title, steps[0].Details)
	}
	l.nothingToDo()
}

// fewer asserts that a plan for fewer machines leaves the surplus alone: removal must be requested.
func (l *life) fewer() {
	_, before := l.observe()
	want := l.Want
	want.Machines = want.Machines[:len(want.Machines)-1]
	p, steps := l.plan(want)
	l.must(steps...)
	l.sees(before)
	l.must(p.DestroyMachine(l.machine(l.last().Name)))
	before.Machines = slices.DeleteFunc(before.Machines, func(m provider.Machine) bool { return m.Name == l.last().Name })
	l.sees(before)
}

// removedStepByStep destroys in runs that each carry out one more step than the previous one, until a run completes. It runs every step twice,
// and interrupts the last step of each run first.
func (l *life) removedStepByStep() {
	for n := 1; ; n++ {
		p, inv := l.observe()
		steps := p.Destroy(l.Context(), inv)
		for i := 0; i < n && len(steps) > 0; i++ {
			s := first(steps)
			if i == n-1 {
				l.interrupted(s, 1)
			}
			l.must(alone(s))
			l.must(alone(s))
			steps = without(steps, s.ID)
		}
		if len(steps) == 0 {
			return
		}
	}
}

// without returns the steps that remain after one was run.
func without(steps []*plan.Step, id string) []*plan.Step {
	var out []*plan.Step
	for _, s := range steps {
		if s.ID == id {
			continue
		}
		c := *s
		c.Needs = slices.DeleteFunc(slices.Clone(s.Needs), func(n string) bool { return n == id })
		out = append(out, &c)
	}
	return out
}

// destroyed removes everything at once.
func (l *life) destroyed() {
	ctx, cancel := context.WithTimeout(context.Background(), l.Limit)
	defer cancel()
	p := l.Provider(l)
	inv, err := p.Observe(ctx)
	if err != nil {
		l.Error(err)
		return
	}
	if err := l.execute(ctx, p.Destroy(ctx, inv)...); err != nil {
		l.Error(err)
	}
}

// letGo asserts that hosts outlive the cluster: nothing makes, removes or changes them, and a released one keeps running.
func (l *life) letGo() {
	_, before := l.observe()
	p, steps := l.plan(l.Want)
	if len(steps) > 0 {
		l.Errorf("an existing resource would be created again: %s", steps[0].ID)
	}
	l.must(alone(p.DestroyMachine(l.machine(l.last().Name))))
	l.destroyed()
	l.sees(before)
	for _, m := range before.Machines {
		l.sameAs(m)
	}
}
