package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/removal"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// listed renders steps with their needs, one per line.
func listed(steps []*plan.Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%-8s%s (%s)", s.Action, s.ID, s.Disruption())
		if len(s.Needs) > 0 {
			fmt.Fprintf(&b, "  <- %s", strings.Join(s.Needs, " "))
		}
		if s.Consent != "" {
			fmt.Fprintf(&b, "  consent %s", s.Consent)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestResetPlans(t *testing.T) {
	l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
	l.state("demo-a-2", provider.Stopped)
	golden(t, "reset", listed(testkit.Value(l.PlanReset(t.Context(), removal.ResetOptions{}))(t).Steps))
	for _, name := range []string{"demo-cp-2", "demo-a-1", "demo-gw-1"} {
		golden(t, "reset-"+name, listed(testkit.Value(l.ResetOneOf(l.observed(nil, controlPlanes(3)...), name))(t)))
	}
}

func TestResetRefused(t *testing.T) {
	l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
	l.state("demo-a-2", provider.Stopped)
	l.state("demo-cp-3", provider.Stopped)
	l.state("demo-gw-2", provider.Stopped)
	o := l.observed(nil, controlPlanes(3)...)
	for name, says := range map[string]string{
		"demo-x-1": "no machine demo-x-1", "demo-a-2": "it is stopped", "demo-gw-1": "the only gateway that runs", "demo-cp-1": "quorum",
	} {
		if _, err := l.ResetOneOf(o, name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("reset %s: %v", name, err)
		}
	}
	o.EtcdErr = errors.New("no route")
	if _, err := l.ResetOneOf(o, "demo-a-1"); fail.KindOf(err) != fail.NotReady {
		t.Errorf("while etcd can't be seen: %v", err)
	}
	l = newLab(t, document(t, 1, 0, 1)).Running(document(t, 1, 0, 1))
	_, err := l.ResetOneOf(l.observed(nil, "demo-cp-1"), "demo-cp-1")
	testkit.Fails(t, err, fail.Refused, "reset demo-cp-1: it is the only control-plane machine")
	testkit.Must(t, l.Facts.Set(t.Context(), memory.Bootstrapped, ""))
	_, err = l.ResetOneOf(l.observed(nil), "demo-a-1")
	testkit.Fails(t, err, fail.NotReady, "has not come up yet")
}

// TestResetIsKilledAnywhere: until the reset is complete, apply refuses to run, and the facts of the first cluster's bootstrap stay.
func TestResetIsKilledAnywhere(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, document(t, 3, 2, 1)).Running(document(t, 3, 2, 1))
	testkit.Must(t, l.Facts.SetOf(ctx, memory.TrustedKey, "demo-cp-1", "ssh-ed25519 AAAA"))
	testkit.Must(t, l.Facts.SetOf(ctx, memory.EtcdJoin, "demo-cp-3", "x"))
	testkit.Must(t, l.Facts.SetOf(ctx, memory.Generation, pki.SSHKeyName, "2"))
	testkit.Must(t, l.Facts.SetOf(ctx, memory.Generation, pki.KubernetesCA, "2"))
	authority, ssh := testkit.Value(l.PKI.Authority(ctx, pki.KubernetesCA))(t), testkit.Value(l.PKI.SSHKey(ctx))(t)
	o := removal.ResetOptions{}
	testkit.Must(t, l.BeginReset(ctx, o))
	refused := func() {
		t.Helper()
		_, err := l.PlanApply(ctx)
		testkit.Fails(t, err, fail.Refused, "naupegos reset demo continues")
		if l.ResetNote() == "" {
			t.Error("status says nothing of it")
		}
	}
	refused()
	p := testkit.Value(l.PlanReset(ctx, o))(t)
	last := p.Steps[len(p.Steps)-1]
	before := slices.Clone(last.Needs)
	for i := len(p.Steps) - 2; i >= 0; i-- { // a step comes after its needs
		if s := p.Steps[i]; slices.Contains(before, s.ID) {
			before = append(before, s.Needs...)
		} else {
			t.Errorf("%s does not come before all is forgotten", s.ID)
		}
	}
	if !l.Facts.Bootstrapped() || l.Facts.Get(memory.EtcdInitial) == "" {
		t.Error("the bootstrap is forgotten while machines still have it")
	}
	testkit.Must(t, last.Run(ctx, nil))
	for kind := range map[memory.Kind]bool{memory.Bootstrapped: true, memory.EtcdInitial: true, memory.Resetting: true, memory.Smoked: true} {
		if v := l.Facts.Get(kind); v != "" {
			t.Errorf("%s is still %q", kind, v)
		}
	}
	if l.Facts.Of(memory.EtcdJoin, "demo-cp-3") != "" || l.Facts.Of(memory.TrustedKey, "demo-cp-1") == "" {
		t.Error("a member is remembered, or how a machine is reached is not")
	}
	if l.Generation(pki.SSHKeyName) != 2 || l.Generation(pki.KubernetesCA) != 1 {
		t.Error("the generation of the SSH key is forgotten, or that of an authority is not")
	}
	if other := testkit.Value(l.PKI.Authority(ctx, pki.KubernetesCA))(t); string(other.CertPEM) == string(authority.CertPEM) {
		t.Error("the authority is the same")
	}
	if other := testkit.Value(l.PKI.SSHKey(ctx))(t); string(other) != string(ssh) {
		t.Error("the SSH key is another one")
	}
	if text := l.mustPlan(l.observed(nil)); !strings.Contains(text, "create  "+nodes.InitialStep) || strings.Contains(text, "machine/") {
		t.Errorf("apply does not build anew on the same machines:\n%s", text)
	}
}

// TestNothingIsBuiltOnWhatIsUnclean: a machine that a reset left unchanged contains a member of another etcd.
func TestNothingIsBuiltOnWhatIsUnclean(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, document(t, 3, 2, 1)).Running(document(t, 3, 2, 1))
	l.state("demo-cp-2", provider.Unreachable)
	p := testkit.Value(l.PlanReset(ctx, removal.ResetOptions{}))(t)
	testkit.Fails(t, p.CheckConsents(nil), fail.Refused, nodes.ConsentLeave)
	testkit.Must(t, p.CheckConsents([]string{nodes.ConsentLeave + "=demo-cp-2"}))
	for _, s := range p.Steps {
		if s.ID == "leave/demo-cp-2" || s.ID == "forget" {
			testkit.Must(t, s.Run(ctx, nil))
		}
	}
	l.state("demo-cp-2", provider.Running)
	_, _, err := l.look(ctx, nil)
	testkit.Fails(t, err, fail.Refused, "naupegos reset demo --machine demo-cp-2 cleans it")
	steps := testkit.Value(l.ResetOneOf(l.observed(nil), "demo-cp-2"))(t)
	if len(steps) != 1 || steps[0].ID != nodes.ResetID("demo-cp-2") {
		t.Fatalf("it is cleaned by\n%s", listed(steps))
	}
	testkit.Must(t, l.ThenForget("demo-cp-2", func(context.Context, plan.Progress) error { return nil })(ctx, nil))
	testkit.Must(t, l.CheckUnclean(l.observed(nil)))
}
