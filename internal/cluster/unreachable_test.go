package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/removal"
	"github.com/naupegos/naupegos/internal/cluster/report"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

const noRoute = "demo-a-2 (10.0.0.26:22): connect: no route to host"

// away returns a cluster on given hosts, of which one does not answer, and its observation.
func away(t *testing.T, wanted int) (*lab, *observe.Observed) {
	t.Helper()
	l := newLab(t, document(t, 3, 2, wanted))
	l.cloud.keeps, l.Prov = true, hostsGiven{l.cloud}
	l.Running(document(t, 3, 2, 2))
	testkit.Must(t, l.Facts.SetOf(t.Context(), memory.Host, "demo-a-2", "{}"))
	l.state("demo-a-2", provider.Unreachable)
	m := l.cloud.machines["demo-a-2"]
	m.Detail = noRoute
	l.cloud.machines["demo-a-2"] = m
	o := l.observed(nil, controlPlanes(3)...)
	for _, s := range o.Want {
		if l.Unreached(s, o.Machines[s.Name]) != (s.Name == "demo-a-2") {
			t.Fatalf("%s counts as the wrong one", s.Name)
		}
	}
	return l, o
}

// TestUnreachableIsSeen: status and plan report the host with the reason, and leave the others alone.
func TestUnreachableIsSeen(t *testing.T) {
	l, o := away(t, 2)
	s := o.Want[slices.IndexFunc(o.Want, func(s wanted.Slot) bool { return s.Name == "demo-a-2" })]
	if m := l.MachineStatus(o, s); m.State != "unreachable" || m.Config != noRoute || m.OK() {
		t.Errorf("status says %+v", m)
	}
	if c := report.CheckMachine(s.Name, o.Machines[s.Name]); c.Result != provider.Failing || c.Detail != noRoute {
		t.Errorf("the check says %+v", c)
	}
	text := l.mustPlan(o)
	if !strings.Contains(text, "change  configure/demo-a-2") || !strings.Contains(text, "(it does not answer: "+noRoute+")") {
		t.Errorf("the plan does not say it:\n%s", text)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "configure/") && !strings.Contains(line, "demo-a-2") {
			t.Errorf("another machine is changed: %s", line)
		}
	}
	if len(o.Unready()) > 0 {
		t.Errorf("apply does not begin for a host that was in use: %v", o.Unready())
	}
}

// TestUnreachableIsTakenOut: a dead host that is no longer wanted delays nothing: it is released without cleaning.
func TestUnreachableIsTakenOut(t *testing.T) {
	l, o := away(t, 1)
	text := l.mustPlan(o)
	if strings.Contains(text, nodes.ResetID("demo-a-2")) || strings.Contains(text, "drain/") || !strings.Contains(text, provider.DestroyStep("demo-a-2")) {
		t.Errorf("it is cleaned, or not let go:\n%s", text)
	}
	l.state("demo-a-2", provider.Running)
	if text := l.mustPlan(l.observed(nil, controlPlanes(3)...)); !strings.Contains(text, nodes.ResetID("demo-a-2")) {
		t.Errorf("one that answers is not cleaned:\n%s", text)
	}
}

// TestNothingIsSwitchedOffForGood: a reboot must not begin by switching off a machine that can't be switched on again.
func TestNothingIsSwitchedOffForGood(t *testing.T) {
	l, _ := away(t, 2)
	for _, states := range [][]string{{"off", "on"}, {"on"}, {"kill"}} {
		if p, err := l.PlanPower(t.Context(), "machine reboot", []string{"demo-a-1"}, states); fail.KindOf(err) != fail.Refused || p != nil {
			t.Errorf("%v: %v", states, err)
		}
	}
	if p := testkit.Value(l.PlanPower(t.Context(), "machine stop", []string{"demo-a-1"}, []string{"off"}))(t); len(p.Steps) != 1 {
		t.Errorf("shut down: %d steps", len(p.Steps))
	}
	l.Prov = l.cloud
	p := testkit.Value(l.PlanPower(t.Context(), "machine reboot", []string{"demo-a-1"}, []string{"off", "on"}))(t)
	if len(p.Steps) != 2 || !slices.Equal(p.Steps[1].Needs, []string{p.Steps[0].ID}) || p.Steps[0].Disruption() != plan.Rolling {
		t.Errorf("a reboot of what can be switched: %+v", p.Steps)
	}
}

// TestDestroyWhileAHostIsDead: the dead host is released without cleaning, which requires consent; the others are cleaned, gateways last.
func TestDestroyWhileAHostIsDead(t *testing.T) {
	l, _ := away(t, 2)
	p := testkit.Value(l.PlanDestroy(t.Context(), removal.DestroyOptions{}))(t)
	dead := provider.DestroyStep("demo-a-2")
	for _, s := range p.Steps {
		switch {
		case s.ID == nodes.ResetID("demo-a-2"):
			t.Errorf("it is to be cleaned: %+v", s)
		case (s.ID == dead) != (s.Consent == nodes.ConsentLeave):
			t.Errorf("%s needs consent to %q", s.ID, s.Consent)
		case s.ID == nodes.ResetID("demo-gw-1") && (!slices.Contains(s.Needs, dead) || !slices.Contains(s.Needs, nodes.ResetID("demo-a-1"))):
			t.Errorf("a gateway goes after %v", s.Needs)
		}
	}
	testkit.Fails(t, p.CheckConsents(nil), fail.Refused, nodes.ConsentLeave)
	testkit.Must(t, p.CheckConsents([]string{nodes.ConsentLeave + "=demo-a-2"}))
}

// stock is a provider whose machines return to a stock. Some of them have no power control.
type stock struct {
	provider.Provider
	unswitched []string
}

func (s stock) Traits() provider.Traits {
	t := s.Provider.Traits()
	t.Keeps, t.Stock, t.Switched = false, true, true
	return t
}

func (s stock) Destroy(_ context.Context, seen *provider.Inventory) (steps []*plan.Step) {
	for _, m := range seen.Machines {
		steps = append(steps, s.DestroyMachine(m))
	}
	return steps
}

func (s stock) Switches(_ context.Context, name string) bool {
	return !slices.Contains(s.unswitched, name)
}

// waitsFor reports whether a step runs after another one, directly or indirectly.
func waitsFor(steps []*plan.Step, s *plan.Step, id string) bool {
	return slices.ContainsFunc(s.Needs, func(need string) bool {
		i := slices.IndexFunc(steps, func(o *plan.Step) bool { return o.ID == need })
		return need == id || i >= 0 && waitsFor(steps, steps[i], id)
	})
}

// TestStock: machines that return to a stock are cleaned before if they answer; machines without power control are not switched.
func TestStock(t *testing.T) {
	l, _ := away(t, 2)
	l.Prov = stock{l.cloud, []string{"demo-a-1"}}
	p := testkit.Value(l.PlanDestroy(t.Context(), removal.DestroyOptions{}))(t)
	cleaned := 0
	for _, s := range p.Steps {
		if name, ok := strings.CutPrefix(s.ID, "destroy/"); ok {
			i := slices.IndexFunc(p.Steps, func(o *plan.Step) bool { return o.ID == nodes.ResetID(name) })
			if i < 0 {
				continue
			}
			if cleaned++; !waitsFor(p.Steps, s, nodes.ResetID(name)) {
				t.Errorf("%s is given back before it is clean: %v", name, s.Needs)
			}
		}
	}
	if cleaned == 0 {
		t.Error("no machine is cleaned")
	}
	_, err := l.PlanPower(t.Context(), "machine reboot", []string{"demo-a-2", "demo-a-1"}, []string{"off", "on"})
	testkit.Fails(t, err, fail.Refused, "demo-a-1", "BMC", "nothing was changed")
	testkit.Value(l.PlanPower(t.Context(), "machine reboot", []string{"demo-a-2"}, []string{"off", "on"}))(t)
}
