package cluster

import (
	"errors"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/laying"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// quorumLost returns a cluster of three control-plane machines; the second has lost its disk, and the third is in the given state.
func quorumLost(t *testing.T, third provider.State) (*lab, *observe.Observed) {
	t.Helper()
	l := newLab(t, document(t, 3, 2, 1)).Running(document(t, 3, 2, 1))
	delete(l.cloud.machines, "demo-cp-2")
	l.state("demo-cp-3", third)
	o := l.observed(nil)
	o.EtcdErr = errors.New("no leader")
	return l, o
}

func TestRecoverPlan(t *testing.T) {
	ctx := t.Context()
	l, o := quorumLost(t, provider.Running)
	steps := testkit.Value(l.RecoverSteps(ctx, o, "demo-cp-1", map[string]int64{"demo-cp-1": 90}, map[string]bool{"demo-cp-1": true, "demo-cp-3": true}))(t)
	golden(t, "recover", listed(steps))

	l, o = quorumLost(t, provider.Stopped)
	steps = testkit.Value(l.RecoverSteps(ctx, o, "demo-cp-1", nil, map[string]bool{"demo-cp-1": true}))(t)
	golden(t, "recover-stopped", listed(steps))
	for _, s := range steps {
		if s.ID == "etcd/give-up/demo-cp-3" {
			if s.Consent != nodes.ConsentLeave {
				t.Errorf("it is given up by consent %q", s.Consent)
			}
			testkit.Must(t, s.Run(ctx, nil))
		}
	}
	if got := l.Decided()["demo-cp-3"]; got != wanted.Replace {
		t.Errorf("a machine that was given up is to be %q", got)
	}
}

// TestRecoverGivenHost: Naupegos can't replace the machine of a host given by address, so it installs nothing there until the host is clean.
func TestRecoverGivenHost(t *testing.T) {
	l, o := quorumLost(t, provider.Unreachable)
	l.Prov = hostsGiven{l.cloud}
	for _, s := range testkit.Value(l.RecoverSteps(t.Context(), o, "demo-cp-1", nil, map[string]bool{"demo-cp-1": true}))(t) {
		if s.ID == "etcd/give-up/demo-cp-3" {
			testkit.Must(t, s.Run(t.Context(), nil))
		}
	}
	testkit.Fails(t, l.CheckUnclean(o), fail.Refused, "naupegos reset demo --machine demo-cp-3")
}

func TestRecoverRefused(t *testing.T) {
	ctx := t.Context()
	up := map[string]bool{"demo-cp-1": true, "demo-cp-3": true}
	l, o := quorumLost(t, provider.Running)
	for from, says := range map[string]string{
		"demo-x-1": "no machine demo-x-1", "demo-a-1": "not one of the document's control-plane machines", "demo-cp-2": "no machine demo-cp-2",
		"demo-cp-1": "demo-cp-3 holds revision 91, and demo-cp-1 only 90",
	} {
		_, err := l.RecoverSteps(ctx, o, from, map[string]int64{"demo-cp-1": 90, "demo-cp-3": 91}, up)
		testkit.Fails(t, err, fail.KindOf(err), says)
	}
	_, err := l.RecoverSteps(ctx, o, "demo-cp-1", nil, nil)
	testkit.Fails(t, err, fail.Unreachable, "does not answer")
	if l.Recovering() != nil {
		t.Error("what was refused is begun")
	}
	well := l.observed(nil, "demo-cp-1", "demo-cp-3")
	_, err = l.RecoverSteps(ctx, well, "demo-cp-1", nil, up)
	testkit.Fails(t, err, fail.Refused, "etcd has its quorum: 2 of 2 voters healthy")

	// Once begun, the recovery continues with the same machine, even if others answer by then; apply waits for its end.
	testkit.Must(t, l.SetRecovering(ctx, &env.Recovering{From: "demo-cp-1", Run: "r"}))
	_, err = l.RecoverSteps(ctx, o, "demo-cp-3", nil, up)
	testkit.Fails(t, err, fail.Refused, "naupegos etcd recover demo --from demo-cp-1 continues")
	_ = testkit.Value(l.RecoverSteps(ctx, well, "demo-cp-1", nil, up))(t)
	_, err = l.PlanApply(ctx)
	testkit.Fails(t, err, fail.Refused, "naupegos etcd recover demo --from demo-cp-1 continues")
	testkit.Must(t, l.SetRecovering(ctx, &env.Recovering{From: "demo-cp-1", Left: &laying.Salvaged{Revision: 90}, Done: true}))
	if l.Recovering() != nil || l.LastRecovery().Left.Next() != 1_000_000_091 {
		t.Errorf("what has come to its end is %+v", l.LastRecovery())
	}
	if l.Facts.Get(memory.Recovering) == "" {
		t.Error("the recovery is forgotten")
	}
}
