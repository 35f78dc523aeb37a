package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/stage"

	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestOrderHolds plans for clusters of all shapes with any combination of changes, and checks the rules of every order: at most one control-plane
// machine is away at a time, restarts follow all joins, workers follow the control plane, and removals come last.
func TestOrderHolds(t *testing.T) {
	r := testkit.Rand(t)
	for range 40 {
		l, about := anyCluster(t, r)
		o := anyChange(l, r, &about)
		machines, err := l.infrastructure(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := l.steps(o, machines)
		if fail.KindOf(err) == fail.Refused {
			continue // etcd would lose its quorum
		}
		if err != nil {
			t.Fatalf("%s: %v", about, err)
		}
		if err := (&plan.Plan{Steps: steps}).Check(); err != nil {
			t.Fatalf("%s: %v", about, err)
		}
		for _, fault := range faultsOf(o, steps) {
			t.Errorf("%s: %s", about, fault)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// anyCluster returns a random running cluster with another document for it.
func anyCluster(t *testing.T, r *rand.Rand) (l *lab, about string) {
	odd := func() int { return 1 + 2*r.IntN(3) }
	gateways, from, to, workers, wanted := 2*r.IntN(2), odd(), odd(), r.IntN(4), r.IntN(4)
	l = newLab(t, document(t, to, gateways, wanted)).Running(document(t, from, gateways, workers))
	if gateways == 0 && to > 1 && from > 1 && r.IntN(2) == 0 {
		l.Prov = balanced{l.cloud}
	}
	return l, fmt.Sprintf("%d gateways, %d to %d control-plane machines, %d to %d workers", gateways, from, to, workers, wanted)
}

// anyChange loses, stops, silences, replaces and reconfigures some of the machines.
func anyChange(l *lab, r *rand.Rand, about *string) *observe.Observed {
	var members []string
	decisions := wanted.Decisions{}
	names := l.cloud.names()
	for _, name := range names {
		if strings.Contains(name, "-cp-") {
			members = append(members, name)
		}
		switch r.IntN(8) {
		case 0:
			decisions[name] = wanted.Replace
		case 1:
			decisions[name] = wanted.Remove
		case 2:
			l.state(name, provider.Stopped)
		case 3:
			if r.IntN(3) == 0 {
				delete(l.cloud.machines, name)
			}
		default:
			continue
		}
		*about += fmt.Sprintf(", %s: %v %v", name, l.cloud.machines[name].State, decisions[name])
	}
	o := l.observed(decisions, members...)
	for _, name := range names {
		seen := o.Machines[name]
		if seen == nil || seen.Machine.State != provider.Running {
			continue
		}
		switch r.IntN(3) {
		case 0:
			seen.Report = &machine.Report{Changes: []machine.Change{{Kind: "unit", Name: "kubelet.service", Action: "restart"}}}
			*about += ", restart " + name
		case 1:
			if r.IntN(4) == 0 {
				seen.Report, seen.Err = nil, fail.New(fail.Unreachable, "no answer")
				*about += ", silent " + name
			}
		}
	}
	o.Recorded, o.Addons[observe.AddonFlannel] = r.IntN(2) == 0, r.IntN(2) == 0
	return o
}

// names lists the machines that there are.
func (p *cloud) names() []string {
	var out []string
	for name := range p.machines {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// faultsOf lists the faults in the order of steps.
func faultsOf(o *observe.Observed, steps []*plan.Step) (faults []string) {
	above := map[string]map[string]bool{}
	ends := map[string]string{} // by control-plane machine that is away for a while: the step that finds it back
	for _, s := range steps {
		above[s.ID] = map[string]bool{}
		for _, n := range s.Needs {
			above[s.ID][n] = true
			maps.Copy(above[s.ID], above[n])
		}
		switch {
		case s.Stage == stage.RollControlPlane && s.Action == plan.Wait, s.ID == "etcd/promote/"+s.Subject && o.Replaced[s.Subject] != nil:
			ends[s.Subject] = s.ID
		}
	}
	for a, end := range ends {
		for b, other := range ends {
			if a != b && !above[firstOf(steps, b)][end] && !above[firstOf(steps, a)][other] {
				faults = append(faults, a+" and "+b+" are away at the same time")
			}
		}
	}
	for _, s := range steps {
		for _, before := range steps {
			if s != before && mustWait(s, before) && !above[s.ID][before.ID] {
				faults = append(faults, s.ID+" does not wait for "+before.ID)
			}
		}
	}
	return faults
}

// firstOf returns the ID of the first step that takes a control-plane machine away.
func firstOf(steps []*plan.Step, name string) string {
	i := slices.IndexFunc(steps, func(s *plan.Step) bool {
		return s.Subject == name && (s.Stage == stage.RollControlPlane || s.Stage == stage.Repair)
	})
	return steps[i].ID
}

// mustWait reports whether an operator would expect one step to come after another.
func mustWait(s, before *plan.Step) bool {
	in := func(stages ...plan.Stage) bool { return slices.Contains(stages, before.Stage) }
	switch {
	case s.Stage == stage.RollControlPlane:
		return in(stage.Repair, stage.Join, stage.Balance, stage.RollGateways)
	case s.Stage == stage.RollWorkers && in(stage.RollControlPlane), s.Stage == stage.Prove && in(stage.Record):
		return true
	case s.Stage == stage.Retire:
		return in(stage.Repair, stage.Join, stage.Balance, stage.RollGateways, stage.RollControlPlane, stage.RollWorkers, stage.Workers, stage.Nodes)
	case s.Subject != before.Subject:
		return false
	case s.ID == observe.ConfigureID(s.Subject):
		return before.ID == provider.MachineStep(s.Subject) || before.Action == plan.Destroy
	case s.ID == nodes.NodeID(s.Subject):
		return before.ID == observe.ConfigureID(s.Subject) || before.ID == "etcd/promote/"+s.Subject
	}
	return false
}

// TestStoppable: a member may be stopped if the others have a quorum, if it does not contribute to the quorum, and if it is the only one.
func TestStoppable(t *testing.T) {
	for _, c := range []struct {
		members, sick int // the last ones are sick
		stop          string
		says          string
	}{
		{1, 0, "m1", ""},
		{3, 0, "m1", ""},
		{3, 1, "m1", "quorum"},
		{3, 1, "m3", ""},
		{5, 1, "m1", ""},
		{5, 2, "m1", "quorum"},
		{3, 0, "m9", ""},
	} {
		var members []etcd.Member
		var health []etcd.Health
		for i := range c.members {
			name := "m" + string(rune('1'+i))
			members = append(members, etcd.Member{ID: uint64(i + 1), Name: name, Started: true})
			health = append(health, etcd.Health{ID: uint64(i + 1), Name: name, Reachable: i < c.members-c.sick})
		}
		err := nodes.Stoppable(members, health, c.stop)
		if c.says == "" && err != nil || c.says != "" && (fail.KindOf(err) != fail.NotReady || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%d members, %d sick, stop %s: %v, want %q", c.members, c.sick, c.stop, err, c.says)
		}
	}
}

// TestEndsEtcd: leadership moves only if etcd itself restarts, or if that is unknown.
func TestEndsEtcd(t *testing.T) {
	for _, c := range []struct {
		change machine.Change
		want   bool
	}{
		{machine.Change{Kind: "file", Name: "/etc/kubernetes/manifests/etcd.yaml", Action: "update"}, true},
		{machine.Change{Kind: "unit", Name: "etcd.service", Action: "restart"}, true},
		{machine.Change{Kind: "file", Name: "/etc/kubernetes/manifests/kube-apiserver.yaml", Action: "update"}, false},
		{machine.Change{Kind: "file", Name: "/etc/kubernetes/pki/etcd/ca.crt", Action: "update"}, false},
		{machine.Change{Kind: "unit", Name: "kubelet.service", Action: "restart"}, false},
	} {
		if got := observe.EndsEtcd(&machine.Report{Changes: []machine.Change{c.change}}); got != c.want {
			t.Errorf("%+v ends etcd: %v, want %v", c.change, got, c.want)
		}
	}
	if !observe.EndsEtcd(nil) || observe.EndsEtcd(&machine.Report{}) {
		t.Error("a machine that was not examined may restart etcd, one without changes does not")
	}
}
