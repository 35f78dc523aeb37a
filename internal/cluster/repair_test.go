package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/upkeep"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// ill makes a machine's node be not Ready for an hour.
func (l *lab) ill(o *observe.Observed, now time.Time, names ...string) *observe.Observed {
	for _, name := range names {
		n := o.Nodes[name]
		n.Name, n.Ready, n.Reason, n.Changed = name, false, "KubeletNotReady: no", now.Add(-time.Hour)
		o.Nodes[name] = n
	}
	return o
}

// tried remembers that rungs were climbed, the last one so long ago.
func (l *lab) tried(name string, now time.Time, ago time.Duration, rungs ...upkeep.Rung) {
	l.t.Helper()
	ladder := upkeep.Ladder{}
	for _, r := range rungs {
		ladder = ladder.Begin(r, now.Add(-ago)).Finish(now.Add(-ago))
	}
	testkit.Must(l.t, l.Facts.SetOf(l.t.Context(), memory.Repair, name, ladder.String()))
}

// round plans a round of repair for an observation, as PlanRepair does for its own.
func (l *lab) round(look func(wanted.Decisions) *observe.Observed, now time.Time) (upkeep.Round, []*plan.Step, error) {
	l.t.Helper()
	o := look(nil)
	sick, total, err := l.sickOf(l.t.Context(), o, now)
	testkit.Must(l.t, err)
	spec := l.Doc.Spec.Repair
	r, err := upkeep.Next(sick, total, upkeep.Rules{After: spec.After.Duration, Patience: spec.Patience.Duration, MaxUnhealthy: spec.MaxUnhealthy}, "", now)
	if err != nil || r.Machine == "" {
		return r, nil, err
	}
	k := sick[slices.IndexFunc(sick, func(k upkeep.Sick) bool { return k.Name == r.Machine })]
	if r.Rung != upkeep.Replace {
		steps, err := l.rungSteps(o, r, k)
		return r, steps, err
	}
	if err := l.nothingElse(&Applied{Plan: &plan.Plan{Steps: l.stepsOf(o)}}, whatIsSick, ofRepair(sick, k.Ladder.Resumes(upkeep.Replace))); err != nil {
		return r, nil, err
	}
	p := &plan.Plan{Steps: l.stepsOf(look(wanted.Decisions{r.Machine: wanted.Replace}))}
	l.asReplacement(p, r, k, sick)
	return r, p.Steps, nil
}

func (l *lab) stepsOf(o *observe.Observed) []*plan.Step {
	l.t.Helper()
	machines, err := l.infrastructure(l.t.Context(), o)
	testkit.Must(l.t, err)
	return testkit.Value(l.steps(o, machines))(l.t)
}

// TestRepairPlans has every rung planned, for a worker and for a control-plane machine.
func TestRepairPlans(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name, machine string
		off, consent  bool
		tried         []upkeep.Rung
	}{
		{"repair-worker-reboot", "demo-a-1", false, false, nil},
		{"repair-worker-cycle", "demo-a-1", true, false, []upkeep.Rung{upkeep.Reboot}},
		{"repair-worker-replace", "demo-a-1", true, false, []upkeep.Rung{upkeep.Reboot, upkeep.Cycle}},
		{"repair-control-plane-reboot", "demo-cp-2", false, false, nil},
		{"repair-control-plane-replace", "demo-cp-2", true, true, []upkeep.Rung{upkeep.Reboot, upkeep.Cycle}},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc := document(t, 3, 2, 5)
			doc.Spec.Repair.Replace = c.consent
			l := newLab(t, doc).Running(doc)
			l.tried(c.machine, now, time.Hour, c.tried...)
			if c.off {
				l.state(c.machine, provider.Stopped)
			}
			l.state("demo-a-4", provider.Stopped) // sick as well, but not in this round
			look := func(d wanted.Decisions) *observe.Observed {
				return l.ill(l.observed(d, controlPlanes(3)...), now, c.machine, "demo-a-4")
			}
			l.tried("demo-a-4", now, 2*time.Hour, upkeep.Reboot, upkeep.Cycle, upkeep.Replace)
			r, steps, err := l.round(look, now)
			testkit.Must(t, err)
			golden(t, c.name, fmt.Sprintf("%s\n%s", l.printed(steps), strings.Join(r.Notes, "\n")))
		})
	}
}

// TestRepairHost: a host has no power control. One that is silent can be neither rebooted nor cleaned.
func TestRepairHost(t *testing.T) {
	doc := document(t, 3, 2, 3)
	l := newLab(t, doc).Running(doc)
	l.Prov = hostsGiven{l.cloud}
	now := time.Now()
	r, _, err := l.round(func(d wanted.Decisions) *observe.Observed {
		return l.ill(l.observed(d, controlPlanes(3)...), now, "demo-a-1")
	}, now)
	if err != nil || r.Machine != "" || !slices.Equal(r.Stuck, []string{"demo-a-1"}) || !strings.Contains(r.Notes[0], "no power control") || !strings.Contains(r.Notes[0], "can't be cleaned") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRepairQuorum: a control-plane machine with a working etcd member is not switched off while another one is away, nor if it is the only one.
func TestRepairQuorum(t *testing.T) {
	now := time.Now()
	doc := document(t, 3, 2, 3)
	l := newLab(t, doc).Running(doc)
	look := func(d wanted.Decisions) *observe.Observed {
		o := l.ill(l.observed(d, controlPlanes(3)...), now, "demo-cp-1")
		o.Health[1].Reachable = false
		return o
	}
	r, _, err := l.round(look, now)
	if err != nil || r.Machine != "" || len(r.Stuck) != 1 || !strings.Contains(r.Notes[0], "quorum") {
		t.Errorf("%+v, %v", r, err)
	}
	one := document(t, 1, 2, 3)
	l = newLab(t, one).Running(one)
	r, _, err = l.round(func(d wanted.Decisions) *observe.Observed { return l.ill(l.observed(d, "demo-cp-1"), now, "demo-cp-1") }, now)
	if err != nil || r.Machine != "" || len(r.Stuck) != 1 {
		t.Errorf("the only one: %+v, %v", r, err)
	}
}

func TestRepairBrake(t *testing.T) {
	now := time.Now()
	doc := document(t, 3, 2, 3)
	l := newLab(t, doc).Running(doc)
	_, _, err := l.round(func(d wanted.Decisions) *observe.Observed {
		return l.ill(l.observed(d, controlPlanes(3)...), now, "demo-a-1", "demo-a-2", "demo-a-3")
	}, now)
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "3 of 6 nodes are not Ready") {
		t.Error(err)
	}
}

// TestRepairCarriesNothingElse: a replacement is refused if apply has other changes.
func TestRepairCarriesNothingElse(t *testing.T) {
	now := time.Now()
	before, after := document(t, 3, 2, 3), document(t, 3, 2, 3)
	off := false
	after.Spec.Security.AuditLog.Enabled = &off
	l := newLab(t, after).Running(before)
	l.tried("demo-a-1", now, time.Hour, upkeep.Reboot, upkeep.Cycle)
	_, _, err := l.round(func(d wanted.Decisions) *observe.Observed {
		return l.ill(l.observed(d, controlPlanes(3)...), now, "demo-a-1")
	}, now)
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "apart from what is sick, apply has ") || !strings.Contains(err.Error(), "(configure control-plane demo-cp-") {
		t.Error(err)
	}
}

// TestRepairIsRemembered kills a run in the middle of a power cycle: the attempt is recorded before it begins, is repeated once, and is forgotten
// after the machine was Ready for long enough.
func TestRepairIsRemembered(t *testing.T) {
	now := time.Now()
	doc := document(t, 3, 2, 3)
	l := newLab(t, doc).Running(doc)
	sickly := func(d wanted.Decisions) *observe.Observed {
		return l.ill(l.observed(d, controlPlanes(3)...), now, "demo-a-1")
	}
	l.tried("demo-a-1", now, time.Hour, upkeep.Reboot)
	r, steps, err := l.round(sickly, now)
	testkit.Must(t, err)
	if r.Rung != upkeep.Cycle {
		t.Fatalf("%+v", r)
	}
	killed := fmt.Errorf("killed")
	run := l.onRung(r, true, func(ctx context.Context, p plan.Progress) error { return killed })
	if err := run(t.Context(), silent{}); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	if r, _, err = l.round(sickly, now.Add(time.Second)); err != nil || r.Rung != upkeep.Cycle {
		t.Fatalf("it is not begun again: %+v, %v", r, err)
	}
	testkit.Must(t, steps[0].Run(t.Context(), silent{}))
	if want := []string{"kill demo-a-1", "on demo-a-1"}; !slices.Equal(l.cloud.log, want) {
		t.Errorf("switched %q, want %q", l.cloud.log, want)
	}
	if note := l.RepairNote("demo-a-1"); !strings.Contains(note, "rebooted at") || !strings.Contains(note, "power-cycled at") {
		t.Errorf("status says %q", note)
	}
	if r, _, err = l.round(sickly, time.Now().Add(9*time.Minute)); err != nil || r.Machine != "" {
		t.Errorf("it is not given its time: %+v, %v", r, err)
	}
	if r, _, err = l.round(sickly, time.Now().Add(11*time.Minute)); err != nil || r.Rung != upkeep.Replace {
		t.Errorf("the next rung does not follow: %+v, %v", r, err)
	}
	well := func(since time.Time) func(wanted.Decisions) *observe.Observed {
		return func(d wanted.Decisions) *observe.Observed {
			o := l.observed(d, controlPlanes(3)...)
			o.Nodes["demo-a-1"] = func(n kube.NodeInfo) kube.NodeInfo { n.Changed = since; return n }(o.Nodes["demo-a-1"])
			return o
		}
	}
	later := time.Now().Add(time.Hour)
	if _, _, err = l.round(well(later.Add(-time.Minute)), later); err != nil || l.Facts.Of(memory.Repair, "demo-a-1") == "" {
		t.Errorf("a minute is not long enough to have recovered: %v", err)
	}
	if _, _, err = l.round(well(later.Add(-11*time.Minute)), later); err != nil || l.Facts.Of(memory.Repair, "demo-a-1") != "" {
		t.Errorf("what was tried is still remembered: %v", err)
	}
}

// TestRepairIsForgottenWithTheMachine: another machine of the same name that comes later has not failed yet, unless it is the remedy itself.
func TestRepairIsForgottenWithTheMachine(t *testing.T) {
	doc := document(t, 3, 2, 3)
	l := newLab(t, doc).Running(doc)
	for _, decision := range []wanted.Decision{wanted.Replace, wanted.Reinstall, ""} {
		replaced := decision != ""
		l.tried("demo-a-1", time.Now(), time.Hour, upkeep.Reboot)
		testkit.Must(t, l.Facts.SetOf(t.Context(), memory.Rebooting, "demo-a-1", "1"))
		if replaced {
			testkit.Must(t, l.Decide(t.Context(), decision, "demo-a-1"))
		}
		gone := l.ThenForget("demo-a-1", func(context.Context, plan.Progress) error { return nil })
		testkit.Must(t, gone(t.Context(), silent{}))
		if kept := l.Facts.Of(memory.Repair, "demo-a-1") != ""; kept != replaced || l.Facts.Of(memory.Rebooting, "demo-a-1") != "" || len(l.Decided()) > 0 {
			t.Errorf("replaced %t: what was tried is kept: %t", replaced, kept)
		}
	}
}

// physical is a provider that can reinstall machines.
type physical struct{ *cloud }

func (p physical) ReinstallMachine(m provider.Machine) *plan.Step {
	s := p.DestroyMachine(m)
	s.Title = "wipe " + m.Name
	return s
}

// TestReinstallIsDecided: the decision to reinstall a machine is recorded before anything is done: whichever verb continues brings the same
// machine back, and a round of repair sees it as being reinstalled.
func TestReinstallIsDecided(t *testing.T) {
	doc := document(t, 3, 2, 2)
	l := newLab(t, doc).Running(doc)
	l.Prov = physical{l.cloud}
	for rung, want := range map[upkeep.Rung]string{upkeep.Reinstall: "wipe demo-a-1", upkeep.Replace: "destroy demo-a-1"} {
		r := &Repair{Round: upkeep.Round{Machine: "demo-a-1", Rung: rung}}
		testkit.Must(t, l.Decide(t.Context(), r.Decision(), r.Machine))
		steps := l.stepsOf(l.observed(l.Decided(), controlPlanes(3)...))
		i := slices.IndexFunc(steps, func(s *plan.Step) bool { return s.ID == provider.DestroyStep("demo-a-1") })
		if i < 0 || steps[i].Title != want {
			t.Errorf("%s: %s", rung, l.printed(steps))
		}
		if o := l.observed(l.Decided().InPlace(), controlPlanes(3)...); len(o.Replaced) > 0 || o.Machines["demo-a-1"] == nil {
			t.Errorf("%s: it is not seen as it is", rung)
		}
	}
}
