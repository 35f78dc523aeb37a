package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestReplacePlans(t *testing.T) {
	for _, c := range []struct {
		name    string
		dead    []string
		decided wanted.Decisions
	}{
		{"replace-worker", nil, wanted.Decisions{"demo-a-1": wanted.Replace}},
		{"replace-dead-worker", []string{"demo-a-1"}, wanted.Decisions{"demo-a-1": wanted.Replace}},
		{"replace-control-plane", nil, wanted.Decisions{"demo-cp-1": wanted.Replace}},
		{"replace-dead-control-plane", []string{"demo-cp-3"}, wanted.Decisions{"demo-cp-3": wanted.Replace}},
		{"replace-gateway", nil, wanted.Decisions{"demo-gw-1": wanted.Replace}},
		{"replace-several", nil, wanted.Decisions{"demo-cp-1": wanted.Replace, "demo-cp-2": wanted.Replace, "demo-a-1": wanted.Replace}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
			for _, m := range c.dead {
				l.state(m, provider.Stopped)
			}
			golden(t, c.name, l.mustPlan(l.observed(c.decided, controlPlanes(3)...)))
		})
	}
}

// TestReplaceKept cleans machines that are not ours to destroy, and sets them up again.
func TestReplaceKept(t *testing.T) {
	l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
	l.cloud.keeps = true
	golden(t, "replace-kept", l.mustPlan(l.observed(wanted.Decisions{"demo-cp-1": wanted.Replace, "demo-a-1": wanted.Replace}, controlPlanes(3)...)))
}

func TestRemovePlans(t *testing.T) {
	l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 3))
	golden(t, "remove-worker", l.mustPlan(l.observed(wanted.Decisions{"demo-a-1": wanted.Remove}, controlPlanes(3)...)))
	l = newLab(t, document(t, 3, 2, 1)).Running(document(t, 5, 2, 1))
	golden(t, "remove-control-planes", l.mustPlan(l.observed(wanted.Decisions{"demo-cp-1": wanted.Remove, "demo-cp-2": wanted.Remove}, controlPlanes(5)...)))
}

func TestReplaceRefused(t *testing.T) {
	l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 1, 2, 1))
	_, err := l.plan(l.observed(wanted.Decisions{"demo-cp-1": wanted.Replace}, "demo-cp-1"))
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "only control-plane machine") {
		t.Errorf("the only control-plane machine: %v", err)
	}
	l = newLab(t, document(t, 3, 2, 1)).Running(document(t, 3, 2, 1))
	l.state("demo-cp-2", provider.Stopped)
	_, err = l.plan(l.observed(wanted.Decisions{"demo-cp-1": wanted.Replace}, controlPlanes(3)...))
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "quorum") {
		t.Errorf("while another one is down: %v", err)
	}
}

// silent takes no progress.
type silent struct{}

func (silent) Status(string, ...any) {}

// TestReplaceRuns runs a provider's steps for a gateway: the old machine is removed before the new one is created, and the decision is forgotten
// in between.
func TestReplaceRuns(t *testing.T) {
	l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
	if err := l.Decide(t.Context(), wanted.Replace, "demo-gw-1"); err != nil {
		t.Fatal(err)
	}
	o := l.observed(l.Decided(), controlPlanes(3)...)
	machines, err := l.infrastructure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := l.steps(o, machines)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if strings.HasPrefix(s.ID, "configure/") || s.Action == plan.Wait {
			continue // SSH does not answer here
		}
		if s.ID == provider.MachineStep("demo-gw-1") && len(l.Decided()) > 0 {
			t.Error("the new machine is made while the old one's decision stands: it would meet it again")
		}
		if err := s.Run(t.Context(), silent{}); err != nil {
			t.Fatalf("%s: %v", s.ID, err)
		}
	}
	if want := []string{"destroy demo-gw-1", "make demo-gw-1"}; !slices.Equal(l.cloud.log, want) {
		t.Errorf("done: %v, want %v", l.cloud.log, want)
	}
}

// TestFatesAreForgotten lets a crash come between a machine's end and the moment that this is remembered.
func TestFatesAreForgotten(t *testing.T) {
	l := newLab(t, document(t, 1, 2, 2)).Running(document(t, 1, 2, 2))
	if err := l.Decide(t.Context(), wanted.Replace, "demo-a-1", "demo-a-2"); err != nil {
		t.Fatal(err)
	}
	delete(l.cloud.machines, "demo-a-1")
	o := l.observed(l.Decided(), "demo-cp-1")
	if d := l.Decided(); len(d) != 1 || d["demo-a-2"] != wanted.Replace {
		t.Errorf("remembered: %v", d)
	}
	if o.Replaced["demo-a-1"] != nil || o.Replaced["demo-a-2"] == nil {
		t.Errorf("to replace: %v", o.Replaced)
	}
}

// TestReplacementInheritsNoKey: a replacement gets keys of its own, even if destroying the old machine is interrupted.
func TestReplacementInheritsNoKey(t *testing.T) {
	l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 1, 2, 1))
	others := []string{"leaf/demo-a-10/approver", "leaf/demo-cp-1/apiserver"}
	for _, name := range append([]string{"leaf/demo-a-1/approver", "leaf/demo-a-1/node"}, others...) {
		testkit.Must(t, l.Secrets.Put(t.Context(), name, []byte("x")))
	}
	steps := l.DisposeSteps(l.observed(wanted.Decisions{"demo-a-1": wanted.Replace}, "demo-cp-1"), l.cloud.machines["demo-a-1"], "it is replaced")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = steps[0].Run(ctx, nil) // however it ends
	left := testkit.Value(l.Secrets.Names(t.Context()))(t)
	left = slices.DeleteFunc(left, func(n string) bool { return !strings.HasPrefix(n, "leaf/demo-a-1") && n != others[1] })
	if !slices.Equal(left, others) {
		t.Errorf("left of a machine that goes: %v, want %v", left, others)
	}
}
