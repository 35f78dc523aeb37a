// Package providertest is the conformance suite for provider.Provider: it tests the contract of the interface, on which all callers rely, in
// any place where a provider makes machines.
//
// It is for tests only. It knows providers only through their interface; its caller sets up the place.
package providertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// Place is where a provider makes the machines of a cluster, with the cluster's wanted state. Nothing of the cluster exists yet; hosts that
// outlive clusters (provider.Traits.Keeps) run.
type Place struct {
	// Provider returns a new provider of the cluster, as for each run of the command: it knows nothing of earlier ones.
	Provider func(testing.TB) provider.Provider
	// Want is the cluster's wanted state: at least two machines, the last one a worker.
	Want provider.Wanted
	// Refused returns a provider and a wanted state that it must refuse; nil if the provider refuses nothing.
	Refused func(testing.TB) (provider.Provider, provider.Wanted)
	// Things lists everything in the place, one line each, of any owner: it must be the same before and after.
	Things func(testing.TB) []string
	// Off cuts a machine's power without the provider's knowledge, and On restores it.
	Off, On func(t testing.TB, machine string)
	// Login checks that the provider's login data of a machine works. Nil for simulated machines.
	Login func(testing.TB, provider.Machine)
	// Once leaves out the second life, in which everything is made and removed at once, for a slow place if others cover that.
	Once bool
	// Limit bounds each operation of a provider as a whole. Zero: five minutes.
	Limit time.Duration
}

// soon bounds how long a call may continue after its context is cancelled. It is long for a machine, and short for a person who waits.
const soon = 10 * time.Second

// Run takes a cluster in a place through its whole life, and fails t if the provider violates its contract. Each part begins with the result of
// the previous one, so that the first failure ends the run. After a failure, Run destroys the remainder.
func Run(t *testing.T, place Place) {
	if place.Limit == 0 {
		place.Limit = 5 * time.Minute
	}
	l := &life{Place: place, T: t, traits: place.Provider(t).Traits()}
	t.Cleanup(func() {
		if t.Failed() {
			l.T = t
			l.destroyed()
		}
	})
	before := l.Things(t)
	for _, p := range l.parts() {
		if !t.Run(p.name, func(t *testing.T) { l.T = t; p.do() }) {
			t.FailNow()
		}
	}
	l.T = t
	if d := cmp.Diff(before, l.Things(t)); d != "" {
		t.Errorf("the place is not as before (-before +after):\n%s", d)
	}
}

// life is one cluster's. T is the part of the test that runs.
type life struct {
	Place
	*testing.T
	traits provider.Traits
}

// part is a part of the cluster's life.
type part struct {
	name string
	do   func()
}

func (l *life) parts() []part {
	if l.traits.Keeps {
		return []part{
			{"traits", l.traitsHold}, {"preflight", l.preflight}, {"hosts are there", l.inventory}, {"cancelled", l.cancelledReads},
			{"power", l.power}, {"off behind its back", l.offBehindItsBack}, {"hosts are let go and stay", l.letGo},
		}
	}
	once := []part{
		{"traits", l.traitsHold}, {"nothing is there", l.nothing}, {"preflight", l.preflight}, {"a plan makes nothing", l.planned},
		{"made, cut off after each step", l.madeStepByStep}, {"inventory", l.inventory}, {"balanced", l.balanced}, {"cancelled", l.cancelledReads},
		{"power", l.power}, {"off behind its back", l.offBehindItsBack}, {"gone behind its back", l.goneBehindItsBack},
		{"fewer are wanted", l.fewer}, {"removed, cut off after each step", l.removedStepByStep}, {"nothing is left", l.nothing},
	}
	if l.Once {
		return once
	}
	return append(once, []part{
		{"made at once, cut off in the middle", l.madeAtOnce}, {"inventory of that", l.inventory}, {"removed at once", l.destroyed}, {"nothing is left again", l.nothing},
	}...)
}

// observe observes with a new provider.
func (l *life) observe() (provider.Provider, *provider.Inventory) {
	l.Helper()
	p := l.Provider(l)
	return p, testkit.Value(p.Observe(l.Context()))(l)
}

// plan plans with a new provider that observes first.
func (l *life) plan(want provider.Wanted) (provider.Provider, []*plan.Step) {
	l.Helper()
	p, inv := l.observe()
	return p, l.steps(p, want, inv)
}

// steps returns a provider's steps, which must be fit for a plan.
func (l *life) steps(p provider.Provider, want provider.Wanted, inv *provider.Inventory) []*plan.Step {
	l.Helper()
	steps := testkit.Value(p.Steps(l.Context(), want, inv))(l)
	testkit.Must(l, (&plan.Plan{Verb: "apply", Cluster: "conformance", Steps: steps}).Check())
	for _, s := range steps {
		if s.Title == "" || s.Subject == "" || s.Reason == "" || s.Run == nil || s.Action == plan.Destroy {
			l.Errorf("step %s is not fit to be shown: %+v", s.ID, s)
		}
	}
	return steps
}

// execute runs steps as the command does, within the limit.
func (l *life) execute(ctx context.Context, steps ...*plan.Step) error {
	ctx, cancel := context.WithTimeout(ctx, l.Limit)
	defer cancel()
	_, err := plan.Execute(ctx, &plan.Plan{Verb: "apply", Cluster: "conformance", Steps: steps}, plan.Options{RetryInterval: 10 * time.Millisecond})
	return err
}

// must runs steps and requires success.
func (l *life) must(steps ...*plan.Step) {
	l.Helper()
	testkit.Must(l, l.execute(context.Background(), steps...))
}

// alone returns a copy of a step without its needs, which are met already.
func alone(s *plan.Step) *plan.Step {
	c := *s
	c.Needs = nil
	return &c
}

// first returns the first step without needs.
func first(steps []*plan.Step) *plan.Step {
	return steps[slices.IndexFunc(steps, func(s *plan.Step) bool { return len(s.Needs) == 0 })]
}

// step returns the step with an ID.
func (l *life) step(steps []*plan.Step, id string) *plan.Step {
	l.Helper()
	i := slices.IndexFunc(steps, func(s *plan.Step) bool { return s.ID == id })
	if i < 0 {
		l.Fatalf("there is no step %s", id)
	}
	return steps[i]
}

// machine returns a machine as a new provider sees it.
func (l *life) machine(name string) provider.Machine {
	l.Helper()
	_, inv := l.observe()
	i := slices.IndexFunc(inv.Machines, func(m provider.Machine) bool { return m.Name == name })
	if i < 0 {
		l.Fatalf("%s is not seen", name)
	}
	return inv.Machines[i]
}

// last returns the last of the wanted machines, a worker.
func (l *life) last() provider.MachineSpec { return l.Want.Machines[len(l.Want.Machines)-1] }

// nothingToDo asserts that a new plan is empty.
func (l *life) nothingToDo() {
	l.Helper()
	_, steps := l.plan(l.Want)
	for _, s := range steps {
		l.Errorf("there is still to do: %s: %s (%s) %v", s.ID, s.Title, s.Reason, s.Details)
	}
}
