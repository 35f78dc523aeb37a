package cluster

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/filter"
	"github.com/naupegos/naupegos/internal/cluster/judge"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestPlans checks the shape of plans: the steps, their reasons, and their order.
func TestPlans(t *testing.T) {
	restart := &machine.Report{Changes: []machine.Change{{Kind: "unit", Name: "kubelet.service", Action: "restart", Why: "its file changed"}}}
	for _, c := range []struct {
		name string
		plan func(t *testing.T) string
	}{
		{"fresh-1+1", func(t *testing.T) string {
			l := newLab(t, document(t, 1, 0, 1))
			return l.mustPlan(l.observed(nil))
		}},
		{"fresh-3+2+2", func(t *testing.T) string {
			l := newLab(t, document(t, 3, 2, 2))
			return l.mustPlan(l.observed(nil))
		}},
		{"scale-up", func(t *testing.T) string {
			l := newLab(t, document(t, 3, 2, 3)).Running(document(t, 1, 2, 2))
			o := l.observed(nil, controlPlanes(1)...)
			return l.mustPlan(o)
		}},
		{"scale-down", func(t *testing.T) string {
			l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 3, 2, 2))
			return l.mustPlan(l.observed(nil, controlPlanes(3)...))
		}},
		{"dead-worker", func(t *testing.T) string {
			l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
			l.state("demo-a-2", provider.Stopped)
			return l.mustPlan(l.observed(nil, controlPlanes(3)...))
		}},
		{"lost-worker", func(t *testing.T) string {
			l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
			gone := l.observed(nil, controlPlanes(3)...).Nodes["demo-a-2"]
			delete(l.cloud.machines, "demo-a-2")
			o := l.observed(nil, controlPlanes(3)...)
			o.Nodes["demo-a-2"] = gone
			return l.mustPlan(o)
		}},
		{"restore", func(t *testing.T) string { // etcd starts from a backup, on all machines at once
			l := newLab(t, document(t, 3, 2, 1))
			testkit.Must(t, l.Restore(t.Context(), "20261123T211500Z-3f9a", l.Doc.Spec.Kubernetes.Version, time.Date(2026, 11, 23, 21, 15, 0, 0, time.UTC)))
			return l.mustPlan(l.observed(nil))
		}},
		{"lost-member", func(t *testing.T) string {
			l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
			gone := l.observed(nil, controlPlanes(3)...).Nodes["demo-cp-2"]
			delete(l.cloud.machines, "demo-cp-2")
			o := l.observed(nil, controlPlanes(3)...)
			o.Nodes["demo-cp-2"] = gone
			return l.mustPlan(o)
		}},
		{"foreign-member", func(t *testing.T) string { // a user ran kubeadm join --control-plane, and is responsible for the member
			l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 1, 2, 1))
			return l.mustPlan(l.observed(nil, "demo-cp-1", "elsewhere"))
		}},
		{"blind", func(t *testing.T) string {
			l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 1))
			l.state("demo-cp-1", provider.Stopped)
			l.state("demo-cp-2", provider.Stopped)
			o := l.observed(nil)
			o.Nodes, o.Members = nil, nil
			o.APIErr, o.EtcdErr = errors.New("no answer"), errors.New("no answer")
			return l.mustPlan(o)
		}},
		{"restart-everything", func(t *testing.T) string { // one control-plane machine and one worker at a time
			l := newLab(t, document(t, 3, 2, 3)).Running(document(t, 3, 2, 3))
			o := l.observed(nil, controlPlanes(3)...)
			for _, seen := range o.Machines {
				seen.Report = restart
			}
			return l.mustPlan(o)
		}},
		{"another-runtime", func(t *testing.T) string { // the pods of a-1 move first; an administrator cordoned a-2, an interrupted apply cordoned a-3
			l := newLab(t, document(t, 1, 0, 5)).Running(document(t, 1, 0, 5))
			return l.mustPlan(l.anotherRuntime(l.observed(nil, controlPlanes(1)...)))
		}},
		{"roll-after-a-drain", func(t *testing.T) string { // an apply was cut off after it had drained a-1; now only its kubelet restarts
			l := newLab(t, document(t, 1, 0, 2)).Running(document(t, 1, 0, 2))
			o := l.observed(nil, controlPlanes(1)...)
			n := o.Nodes["demo-a-1"]
			n.Unschedulable, n.Annotations[kube.OwnedCordon] = true, "true"
			o.Nodes["demo-a-1"], o.Machines["demo-a-1"].Report = n, restart
			return l.mustPlan(o)
		}},
		{"another-runtime-alone", func(t *testing.T) string { // pods can't move anywhere
			l := newLab(t, document(t, 1, 0, 1)).Running(document(t, 1, 0, 1))
			return l.mustPlan(l.anotherRuntime(l.observed(nil, controlPlanes(1)...)))
		}},
		{"roll-pools", func(t *testing.T) string { // two of a pool at a time, and one pool after another
			l := newLab(t, document(t, 1, 0, 3, 1, 2)).Running(document(t, 1, 0, 3, 1, 2))
			l.Doc.Spec.Updates.MaxUnavailable = 2
			return l.mustPlan(l.restarting(l.observed(nil, controlPlanes(1)...)))
		}},
		{"scale-up-and-roll", func(t *testing.T) string { // the only API server is restarted when two others serve
			l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 1, 2, 1))
			return l.mustPlan(l.restarting(l.observed(nil, controlPlanes(1)...)))
		}},
		{"scale-up-and-roll-behind-a-load-balancer", func(t *testing.T) string { // it knows the new ones first
			l := newLab(t, document(t, 3, 0, 1)).Running(document(t, 1, 0, 1))
			l.Prov = balanced{l.cloud}
			return l.mustPlan(l.restarting(l.observed(nil, controlPlanes(1)...)))
		}},
		{"lost-member-and-roll", func(t *testing.T) string {
			l := newLab(t, document(t, 3, 2, 1)).Running(document(t, 3, 2, 1))
			delete(l.cloud.machines, "demo-cp-2")
			return l.mustPlan(l.restarting(l.observed(nil, controlPlanes(3)...)))
		}},
		{"removal-and-roll", func(t *testing.T) string {
			l := newLab(t, document(t, 3, 2, 1)).Running(document(t, 3, 2, 2))
			return l.mustPlan(l.restarting(l.observed(nil, controlPlanes(3)...)))
		}},
		{"replace-and-roll", func(t *testing.T) string {
			l := newLab(t, document(t, 3, 2, 1)).Running(document(t, 3, 2, 1))
			return l.mustPlan(l.restarting(l.observed(wanted.Decisions{"demo-cp-2": wanted.Replace, "demo-a-1": wanted.Replace}, controlPlanes(3)...)))
		}},
		{"roll-one", func(t *testing.T) string { // a single control-plane machine
			l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 1, 2, 1))
			return l.mustPlan(l.restarting(l.observed(nil, controlPlanes(1)...)))
		}},
		{"mute-member", func(t *testing.T) string { // its machine is up to date, so the member may be starting
			l := newLab(t, document(t, 3, 2, 1)).Running(document(t, 3, 2, 1))
			o := l.observed(nil, controlPlanes(3)...)
			o.Health[1].Reachable = false
			return l.mustPlan(o)
		}},
		{"restart-around-the-sick", func(t *testing.T) string { // cp-3's member does not answer, cp-2 could not be asked: cp-3 first, then one by one
			l := newLab(t, document(t, 3, 2, 1)).Running(document(t, 3, 2, 1))
			o := l.observed(nil, controlPlanes(3)...)
			for name, seen := range o.Machines {
				if seen.Report = restart; name == "demo-cp-2" {
					seen.Report, seen.Err = nil, fail.New(fail.Unreachable, "no answer")
				}
			}
			for _, m := range o.Members {
				o.Health = append(o.Health, etcd.Health{ID: m.ID, Name: m.Name, Reachable: m.Name != "demo-cp-3"})
			}
			return l.mustPlan(o)
		}},
		{"unlabelled-node", func(t *testing.T) string {
			l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 1, 2, 1))
			o := l.observed(nil, "demo-cp-1")
			n := o.Nodes["demo-a-1"]
			n.Labels = nil
			o.Nodes["demo-a-1"] = n
			return l.mustPlan(o)
		}},
		{"proxy-back", func(t *testing.T) string { // a user ran kubeadm upgrade
			l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 1, 2, 1))
			o := l.observed(nil, "demo-cp-1")
			o.ProxyTimeoutsReverted = true
			return l.mustPlan(o)
		}},
		{"behind-filters", func(t *testing.T) string { // members of the control plane come, a worker goes, and filters name the wrong ones
			l := newLab(t, document(t, 3, 2, 1)).Running(document(t, 1, 2, 2))
			l.Prov = hostsGiven{l.cloud}
			l.Doc.Spec.Security.PacketFilter = &v1alpha1.PacketFilter{}
			o := l.observed(nil, controlPlanes(1)...)
			for _, name := range []string{"demo-cp-1", "demo-a-1"} {
				o.Machines[name].Report = &machine.Report{Changes: []machine.Change{{Kind: "file", Name: filter.RulePath, Action: "update"}}}
			}
			return l.mustPlan(o)
		}},
		{"pool-gone", func(t *testing.T) string {
			l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 1, 2, 1, 2))
			return l.mustPlan(l.observed(nil, "demo-cp-1"))
		}},
		{"drift", func(t *testing.T) string { // one after another, and only with consent
			l := newLab(t, document(t, 3, 2, 1)).Running(document(t, 3, 2, 1))
			l.cloud.drift = map[string][]string{"demo-cp-2": {"flavor is small, large is wanted"}, "demo-a-1": {"image is old, new is wanted"}}
			o := l.observed(nil, controlPlanes(3)...)
			drifted, err := l.Drifted(o)
			if err != nil {
				t.Fatal(err)
			}
			o = l.observed(wanted.Decisions{}.With(drifted), controlPlanes(3)...)
			o.Drifted = drifted
			return l.mustPlan(o)
		}},
	} {
		t.Run(c.name, func(t *testing.T) { golden(t, c.name, c.plan(t)) })
	}
}

// balanced is a cloud whose load balancer needs an update.
type balanced struct{ *cloud }

func (balanced) Balance(provider.Wanted, *provider.Inventory) []*plan.Step {
	return []*plan.Step{{ID: "balance/loadbalancer", Action: plan.Change, Subject: "cluster", Title: "tell the load balancer", Reason: "machines came",
		Run: func(context.Context, plan.Progress) error { return nil }}}
}

// anotherRuntime has containerd become another; but a-3 only has an apply behind it that was cut off, and kubelet does not run on a-4.
func (l *lab) anotherRuntime(o *observe.Observed) *observe.Observed {
	for name, seen := range o.Machines {
		n := o.Nodes[name]
		seen.Report = &machine.Report{Changes: []machine.Change{{Kind: "binary", Name: "/usr/local/bin/containerd", Action: "update"},
			{Kind: "unit", Name: "containerd.service", Action: "restart", Why: "its program changed"}}}
		switch name {
		case "demo-a-2":
			n.Unschedulable = true
		case "demo-a-3":
			n.Unschedulable, n.Annotations[kube.OwnedCordon], seen.Report.Changes = true, "true", nil
		case "demo-a-4":
			seen.Report.Changes = append(seen.Report.Changes, machine.Change{Kind: "unit", Name: "kubelet.service", Action: "start", Why: "is inactive"})
		}
		o.Nodes[name] = n
	}
	return o
}

// restarting makes all machines differ from the document in a setting that restarts their services.
func (l *lab) restarting(o *observe.Observed) *observe.Observed {
	for _, seen := range o.Machines {
		seen.Report = &machine.Report{Changes: []machine.Change{{Kind: "unit", Name: "kubelet.service", Action: "restart", Why: "its file changed"}}}
	}
	return o
}

func TestNothingToDo(t *testing.T) {
	l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
	if got := l.mustPlan(l.observed(nil, controlPlanes(3)...)); got != "" {
		t.Errorf("a cluster as it is wanted has a plan:\n%s", got)
	}
	o := l.observed(nil, controlPlanes(3)...)
	n := o.Nodes["demo-a-1"]
	n.Unschedulable = true
	o.Nodes["demo-a-1"] = n
	if got := l.mustPlan(o); got != "" {
		t.Errorf("a node that a user cordoned is touched:\n%s", got)
	}
}

// TestReadyFromBefore plans for nodes that the API calls Ready although their machine or kubelet was started since, or kubelet is to be.
func TestReadyFromBefore(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	stopped := []machine.Change{{Kind: "unit", Name: "kubelet.service", Action: "start", Why: "is inactive"}}
	for name, c := range map[string]struct {
		boot     string
		reported time.Time
		down     string
		changes  []machine.Change
		want     bool
	}{
		"all is well":                     {"second", began, "", nil, false},
		"its machine was started":         {"first", began.Add(time.Hour), "", nil, true},
		"its kubelet was started":         {"second", began.Add(-time.Second), "", nil, true},
		"its kubelet is to be started":    {"second", began, "", stopped, true},
		"its kubelet ends time and again": {"second", began.Add(time.Hour), "kubelet.service", nil, true},
		"its containerd does not come up": {"second", began.Add(time.Hour), "containerd.service", nil, true},
	} {
		l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
		o := l.observed(nil, controlPlanes(3)...)
		n := o.Nodes["demo-a-1"]
		n.BootID, n.Reported = c.boot, c.reported
		o.Nodes["demo-a-1"] = n
		o.Machines["demo-a-1"].Report = &machine.Report{Changes: c.changes,
			Life: machine.Life{BootID: "second", Since: map[string]time.Time{"kubelet.service": began}, Down: map[string]string{c.down: "activating (auto-restart)"}}}
		if got := l.mustPlan(o); strings.Contains(got, "node/demo-a-1") != c.want {
			t.Errorf("%s: the plan is\n%s", name, got)
		}
		if words := o.NodeWords(n); c.changes == nil && (words == "Ready") == c.want {
			t.Errorf("%s: it is said to be %q", name, words)
		}
	}
	l := newLab(t, document(t, 3, 2, 2)).Running(document(t, 3, 2, 2))
	l.state("demo-a-1", provider.Stopped)
	o := l.observed(nil, controlPlanes(3)...)
	if words := o.NodeWords(kube.NodeInfo{Name: "demo-a-1", Ready: true}); words != "not ready: its machine is stopped" {
		t.Errorf("the node of a machine that is off is said to be %q", words)
	}
}

func TestPlansRefused(t *testing.T) {
	for _, c := range []struct {
		name, says string
		plan       func(t *testing.T) error
	}{
		{"scale down where a member is broken", "quorum", func(t *testing.T) error {
			l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 3, 2, 1))
			l.state("demo-cp-1", provider.Stopped)
			_, err := l.plan(l.observed(nil, controlPlanes(3)...))
			return err
		}},
		{"the host can't serve", "no room", func(t *testing.T) error {
			l := newLab(t, document(t, 1, 2, 1))
			l.cloud.refuse = fail.New(fail.Refused, "no room")
			_, err := l.plan(l.observed(nil))
			return err
		}},
		{"the bootstrap began with more control planes", "control-plane machine demo-cp-", func(t *testing.T) error {
			l := newLab(t, document(t, 1, 2, 1)).Running(document(t, 3, 2, 1))
			if err := l.Facts.Set(t.Context(), memory.Bootstrapped, ""); err != nil {
				t.Fatal(err)
			}
			return l.checkInitial(l.observed(nil))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.plan(t)
			if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v (%s), want a refusal that says %q", err, fail.KindOf(err), c.says)
			}
		})
	}
}

// TestDriftNeedsConsent: a flavor or image that changed is carried out with consent to replace machines, and no other consent will do.
func TestDriftNeedsConsent(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 2)).Running(document(t, 1, 0, 2))
	l.cloud.drift = map[string][]string{"demo-a-1": {"flavor is small, large is wanted"}, "demo-a-2": {"image is old, new is wanted"}}
	seen := l.observed(nil, "demo-cp-1")
	drifted, err := l.Drifted(seen)
	if err != nil {
		t.Fatal(err)
	}
	o := l.observed(wanted.Decisions{}.With(drifted), "demo-cp-1")
	o.Drifted = drifted
	machines, err := l.infrastructure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := l.steps(o, machines)
	if err != nil {
		t.Fatal(err)
	}
	var ran atomic.Int64
	for _, s := range steps { // SSH does not answer here
		s.Run = func(context.Context, plan.Progress) error { ran.Add(1); return nil }
	}
	p := &plan.Plan{Verb: "apply", Cluster: "demo", Steps: steps}
	for _, given := range [][]string{nil, {provider.ConsentAddresses}} {
		_, err := plan.Execute(t.Context(), p, plan.Options{Consents: given})
		if fail.KindOf(err) != fail.Refused || ran.Load() > 0 {
			t.Fatalf("with consent to %q %d steps ran: %v", given, ran.Load(), err)
		}
		for _, w := range []string{"replace-machines (", "destroy demo-a-1", "destroy demo-a-2", "nothing was changed", "--consent replace-machines"} {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("the refusal does not say %q: %v", w, err)
			}
		}
	}
	if _, err := plan.Execute(t.Context(), p, plan.Options{Consents: []string{nodes.ConsentReplace}}); err != nil || ran.Load() != int64(len(steps)) {
		t.Errorf("with consent %d of %d steps ran: %v", ran.Load(), len(steps), err)
	}
}

// judgeHost records the facts of a new host with a firewall.
func (l *lab) judgeHost(name, machineID string) {
	testkit.Must(l.t, l.Judge.Facts(judge.Subject{Name: name, Given: true}, machine.Facts{Systemd: true, Dpkg: true, Fresh: true, Firewall: "ufw", MachineID: machineID}))
}

// TestPlanWarns: the plan contains the provider's warnings about new machines.
func TestPlanWarns(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	l.cloud.odd = []string{"login is impossible"}
	ap, err := l.PlanApply(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(ap.Plan.Warnings) != 1 || ap.Plan.Warnings[0] != "login is impossible" {
		t.Errorf("the plan's warnings are %q", ap.Plan.Warnings)
	}
	l.judgeHost("demo-cp-1", "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a")
	if ap, err = l.PlanApply(t.Context()); err != nil || len(ap.Plan.Warnings) != 2 || !strings.HasPrefix(ap.Plan.Warnings[1], "demo-cp-1: ufw is active") {
		t.Errorf("of a host with a firewall: %v", err)
	}
	l.judgeHost("demo-a-1", "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a")
	_, err = l.PlanApply(t.Context())
	testkit.Fails(t, err, fail.Conflict, "demo-cp-1 and demo-a-1 have one machine ID")
	l = newLab(t, document(t, 1, 0, 1)).Running(document(t, 1, 0, 1))
	l.cloud.odd = []string{"of what is not asked"}
	o := l.observed(nil, controlPlanes(1)...)
	if _, err := l.infrastructure(t.Context(), o); err != nil || len(o.Warnings) > 0 {
		t.Errorf("where no machine is to be made: %q, %v", o.Warnings, err)
	}
}
