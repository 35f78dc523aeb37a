package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/stage"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/hops"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// surgeLab is a cluster with pools that have one machine more while their workers are changed; its workers are as a document of before wanted it.
func surgeLab(t *testing.T, maxSurge int, now, before []int) *lab {
	t.Helper()
	l := newLab(t, document(t, 1, 0, now...)).Running(document(t, 1, 0, before...))
	l.Doc.Spec.Updates.MaxSurge = &maxSurge
	return l
}

// away has workers' containerd become another, which takes their pods away.
func (l *lab) away(o *observe.Observed, names ...string) *observe.Observed {
	for _, name := range names {
		o.Machines[name].Report = &machine.Report{Changes: []machine.Change{{Kind: "binary", Name: "/usr/local/bin/containerd", Action: "update"},
			{Kind: "unit", Name: "containerd.service", Action: "restart", Why: "its program changed"}}}
	}
	return o
}

// surging plans as PlanApply does, where these workers are to be changed.
func (l *lab) surging(names ...string) string {
	l.t.Helper()
	see := func(decided wanted.Decisions) *observe.Observed {
		return l.away(l.observed(decided, controlPlanes(1)...), names...)
	}
	o := see(l.Decided())
	machines := testkit.Value(l.infrastructure(l.t.Context(), o))(l.t)
	decided, _, err := l.withSurge(l.t.Context(), o, machines, l.Decided())
	testkit.Must(l.t, err)
	return l.mustPlan(see(decided))
}

// surged has a machine there that a roll that was cut off has made, and that serves.
func (l *lab) surged(name string, index int) {
	l.t.Helper()
	testkit.Must(l.t, l.Decide(l.t.Context(), wanted.Surge, name))
	l.cloud.machines[name] = provider.Machine{Name: name, Role: provider.Worker, Pool: "a", Index: index, Address: "10.0.1.1", State: provider.Running}
	slots, _ := wanted.Assign(l.Doc, testkit.Value(l.cloud.Observe(l.t.Context()))(l.t).Machines, l.Decided())
	l.Configure(l.Doc, slots)
}

// decisions renders the recorded decisions.
func (l *lab) decisions() string {
	var all []string
	for name, d := range l.Decided() {
		all = append(all, fmt.Sprintf("%s %s", name, d))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestSurge checks plans with extra machines during a roll, and the decisions that are recorded before the first step.
func TestSurge(t *testing.T) {
	workers := []string{"demo-a-1", "demo-a-2", "demo-a-3"}
	for _, c := range []struct {
		name, remembers string
		plan            func(t *testing.T) (*lab, string)
	}{
		{"surge-roll", "demo-a-4 surge", func(t *testing.T) (*lab, string) {
			l := surgeLab(t, 1, []int{3}, []int{3})
			return l, l.surging(workers...)
		}},
		{"surge-pools", "demo-a-3 surge, demo-a-4 surge, demo-b-2 surge", func(t *testing.T) (*lab, string) { // not more than workers change; none takes the pods of b-1
			l := surgeLab(t, 5, []int{2, 1}, []int{2, 1})
			return l, l.surging("demo-a-1", "demo-a-2", "demo-b-1")
		}},
		{"surge-scale-up", "demo-a-5 surge", func(t *testing.T) (*lab, string) { // a-4 is to stay
			l := surgeLab(t, 1, []int{4}, []int{3})
			return l, l.surging(workers...)
		}},
		{"surge-scale-down", "", func(t *testing.T) (*lab, string) { // a-3, which will be removed anyway, serves until the others are changed
			l := surgeLab(t, 1, []int{2}, []int{3})
			return l, l.surging(workers[:2]...)
		}},
		{"surge-killed", "demo-a-4 surge", func(t *testing.T) (*lab, string) { // a-1 is changed already
			l := surgeLab(t, 1, []int{3}, []int{3})
			l.surged("demo-a-4", 4)
			return l, l.surging(workers[1:]...)
		}},
		{"surge-late", "demo-a-3 surge, demo-b-2 surge", func(t *testing.T) (*lab, string) { // other machines learn the addresses before the nodes join
			l := surgeLab(t, 1, []int{2, 1}, []int{2, 1})
			l.cloud.late = true
			return l, l.surging("demo-a-1", "demo-b-1")
		}},
		{"surge-killed-at-its-end", "demo-a-4 leave", func(t *testing.T) (*lab, string) { // all are changed
			l := surgeLab(t, 1, []int{3}, []int{3})
			l.surged("demo-a-4", 4)
			return l, l.surging()
		}},
		{"surge-never-made", "", func(t *testing.T) (*lab, string) { // and there are no changes left
			l := surgeLab(t, 1, []int{3}, []int{3})
			testkit.Must(t, l.Decide(t.Context(), wanted.Surge, "demo-a-4"))
			return l, l.surging()
		}},
		{"surge-drift", "demo-a-4 surge", func(t *testing.T) (*lab, string) { // only the replaced machine needs consent
			l := surgeLab(t, 1, []int{3}, []int{3})
			l.cloud.drift = map[string][]string{"demo-a-1": {"flavor is small, large is wanted"}}
			drifted := wanted.Decisions{}.With(l.cloud.drift)
			o := l.observed(drifted, controlPlanes(1)...)
			o.Drifted = l.cloud.drift
			decided, _, err := l.withSurge(t.Context(), o, nil, drifted)
			testkit.Must(t, err)
			o = l.observed(decided, controlPlanes(1)...)
			o.Drifted = l.cloud.drift
			return l, l.mustPlan(o)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, text := c.plan(t)
			golden(t, c.name, text)
			if got := l.decisions(); got != c.remembers {
				t.Errorf("remembered is %q, want %q", got, c.remembers)
			}
		})
	}
}

// TestSurgeOnlyWhereItHelps: no extra machine is created if no worker goes away, if that is unknown, or if the document does not want it.
func TestSurgeOnlyWhereItHelps(t *testing.T) {
	kubelet := &machine.Report{Changes: []machine.Change{{Kind: "unit", Name: "kubelet.service", Action: "restart", Why: "its file changed"}}}
	for name, c := range map[string]struct {
		maxSurge int
		change   func(*lab, *observe.Observed)
	}{
		"not wanted": {0, func(l *lab, o *observe.Observed) { l.away(o, "demo-a-1") }},
		"pods stay":  {1, func(_ *lab, o *observe.Observed) { o.Machines["demo-a-1"].Report = kubelet }},
		"the machine does not serve": {1, func(l *lab, o *observe.Observed) {
			l.away(o, "demo-a-1")
			o.Nodes["demo-a-1"] = kube.NodeInfo{Name: "demo-a-1"}
		}},
		"the API does not answer": {1, func(l *lab, o *observe.Observed) { l.away(o, "demo-a-1"); o.APIErr = env.ErrNotBootstrapped("demo") }},
	} {
		l := surgeLab(t, c.maxSurge, []int{2}, []int{2})
		o := l.observed(nil, controlPlanes(1)...)
		c.change(l, o)
		decided, changed, err := l.withSurge(t.Context(), o, nil, wanted.Decisions{})
		if err != nil || changed || len(decided) > 0 || l.decisions() != "" {
			t.Errorf("%s: %v, %v, remembered %q", name, decided, err, l.decisions())
		}
	}
}

// TestSurgeNotMissed: a decided extra machine that does not exist yet because the plan pauses before is not reported as missing; an existing one
// is shown.
func TestSurgeNotMissed(t *testing.T) {
	l := surgeLab(t, 1, []int{2}, []int{2})
	testkit.Must(t, l.Decide(t.Context(), wanted.Surge, "demo-a-3"))
	if n := len(l.observed(l.Decided(), controlPlanes(1)...).Expected()); n != 3 {
		t.Errorf("%d machines are expected, want 3", n)
	}
	l.surged("demo-a-3", 3)
	if n := len(l.observed(l.Decided(), controlPlanes(1)...).Expected()); n != 4 {
		t.Errorf("%d machines are expected, want 4", n)
	}
}

// TestSurgeHasRoom: the obstacles of an upgrade are checked with the pools' future extra machines, except those whose nodes exist and can be
// checked themselves.
func TestSurgeHasRoom(t *testing.T) {
	for name, c := range map[string]struct {
		maxSurge    int
		now, before []int // machines of the pools
		change      func(*lab)
		want        string
	}{
		"none is wanted":        {0, []int{2}, []int{2}, nil, "demo-a-1+0 demo-a-2+0"},
		"one":                   {1, []int{2, 1}, []int{2, 1}, nil, "demo-a-1+1 demo-a-2+1 demo-b-1+1"},
		"no more than drained":  {3, []int{2, 1}, []int{2, 1}, nil, "demo-a-1+2 demo-a-2+2 demo-b-1+1"},
		"one goes anyway":       {1, []int{2}, []int{3}, nil, "demo-a-1+0 demo-a-2+0"},
		"a pool stays behind":   {1, []int{1, 1}, []int{1, 1}, func(l *lab) { l.Doc.Spec.Workers[0].Version = "v1.36.4" }, "demo-b-1+1"},
		"one is decided":        {1, []int{2}, []int{2}, func(l *lab) { testkit.Must(t, l.Decide(t.Context(), wanted.Surge, "demo-a-3")) }, "demo-a-1+1 demo-a-2+1"},
		"it is there as a node": {2, []int{2}, []int{2}, func(l *lab) { l.surged("demo-a-3", 3) }, "demo-a-1+1 demo-a-2+1"},
	} {
		l := surgeLab(t, c.maxSurge, c.now, c.before)
		if c.change != nil {
			c.change(l)
		}
		var got []string
		for _, d := range l.Drains(l.observed(l.Decided(), controlPlanes(1)...), hops.Of("v1.37.2")) {
			got = append(got, fmt.Sprintf("%s+%d", d.Node, d.Beside))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// TestIntroduced: once a machine's address is known, the configuration of control-plane machines contains it, so that they approve its kubelet's
// certificate; nothing restarts for that.
func TestIntroduced(t *testing.T) {
	l := surgeLab(t, 1, []int{1}, []int{1})
	l.cloud.late = true
	testkit.Must(t, l.Decide(t.Context(), wanted.Surge, "demo-a-2"))
	o := l.observed(l.Decided(), controlPlanes(1)...)
	cp := o.Want[slices.IndexFunc(o.Want, wanted.Slot.IsControlPlane)]
	before := testkit.Value(l.configuration(cp))(t)
	machines := testkit.Value(l.infrastructure(t.Context(), o))(t)
	testkit.Must(t, machines[0].Run(t.Context(), silent{}))
	told := changes(before, testkit.Value(l.configuration(cp))(t))
	if !slices.ContainsFunc(told, func(c machine.Change) bool { return c.Name == "/etc/kubernetes/naupegos-machines.json" }) || observe.Disruptive(&machine.Report{Changes: told}) {
		t.Errorf("%s is told %+v", cp.Name, told)
	}
}

// TestIntroduce updates all other nodes, whether they answer or not; all other failures are errors.
func TestIntroduce(t *testing.T) {
	want, _ := wanted.Assign(document(t, 3, 2, 2), nil, nil)
	for kind, told := range map[fail.Kind]int{fail.Unreachable: 4, fail.NotReady: 4, fail.NotFound: 4, fail.Refused: 2} {
		var names []string
		err := observe.Introduce(want, "demo-a-2", func(s wanted.Slot) error {
			if names = append(names, s.Name); s.Name == "demo-cp-2" {
				return fail.New(kind, "no")
			}
			return nil
		})
		if len(names) != told || (err == nil) != (told == 4) {
			t.Errorf("%v: %v, told %v", kind, err, names)
		}
	}
}

// TestQuietly: nothing that others depend on is restarted by the way.
func TestQuietly(t *testing.T) {
	file := machine.Change{Kind: "file", Name: "/etc/hosts", Action: "update"}
	for name, c := range map[string]struct {
		changes []machine.Change
		err     error
		calls   int
	}{
		"nothing to do": {nil, nil, 1}, "a file": {[]machine.Change{file}, nil, 2}, "it does not answer": {[]machine.Change{file}, env.ErrNotBootstrapped("demo"), 1},
		"a restart": {[]machine.Change{file, {Kind: "unit", Name: "kubelet.service", Action: "restart"}}, nil, 1},
	} {
		var asked []bool
		err := observe.Quietly(func(dryRun bool) (machine.Report, error) {
			asked = append(asked, dryRun)
			return machine.Report{Changes: c.changes}, c.err
		})
		if len(asked) != c.calls || !asked[0] || c.calls == 2 && asked[1] || (err == nil) != (c.err == nil) {
			t.Errorf("%s: asked %v, %v", name, asked, err)
		}
	}
}

// TestSurgeGoes: removing an extra machine is not reported as a loss, and afterwards it is neither observed nor recorded.
func TestSurgeGoes(t *testing.T) {
	l := surgeLab(t, 1, []int{2}, []int{2})
	l.surged("demo-a-3", 3)
	o := l.away(l.observed(l.Decided(), controlPlanes(1)...), "demo-a-1")
	machines := testkit.Value(l.infrastructure(t.Context(), o))(t)
	steps := testkit.Value(l.steps(o, machines))(t)
	i := slices.IndexFunc(steps, func(s *plan.Step) bool { return s.ID == provider.DestroyStep("demo-a-3") })
	if i < 0 || steps[i].Disruption() != plan.Rolling {
		t.Fatalf("the plan is\n%s", l.printed(steps))
	}
	known := func() bool {
		return slices.ContainsFunc(l.Known(), func(s wanted.Slot) bool { return s.Name == "demo-a-3" })
	}
	if !known() {
		t.Error("it is not looked for while it is there")
	}
	testkit.Must(t, steps[i].Run(t.Context(), silent{}))
	if known() || l.decisions() != "" {
		t.Errorf("it went, and is still looked for, or remembered: %q", l.decisions())
	}
}

// clouded is a provider in memory whose clusters have a cloud controller.
type clouded struct {
	*cloud
	provider.CloudIntegration
}

// TestSurgeInCloud: pods move to a machine once the cloud's controller has initialized its node, and nothing waits for a machine that was
// removed.
func TestSurgeInCloud(t *testing.T) {
	on := onOpenStack(t, &keystone{})
	l := surgeLab(t, 1, []int{1}, []int{1})
	l.Prov = clouded{l.cloud, on.Cluster.Cloud()}
	o := l.away(l.observed(l.Decided(), controlPlanes(1)...), "demo-a-1")
	decided, surges, err := l.withSurge(t.Context(), o, nil, l.Decided())
	testkit.Must(t, err)
	if !surges {
		t.Fatal("there is no extra machine")
	}
	o = l.away(l.observed(decided, controlPlanes(1)...), "demo-a-1")
	o.Recorded = false // as in an upgrade
	a := l.applying(o, testkit.Value(l.infrastructure(t.Context(), o))(t))
	a.planWorkers()
	a.planInitialized()
	steps := map[string]*plan.Step{}
	for _, s := range testkit.Value(a.graph.Seal(stage.ApplyRules))(t) {
		steps[s.ID] = s
	}
	comes, all := steps["cloud/node/demo-a-2"], steps[nodes.InitializedStep]
	if comes == nil || all == nil || !slices.Contains(comes.Needs, "node/demo-a-2") || !slices.Contains(steps["drain/demo-a-1"].Needs, comes.ID) {
		t.Fatalf("the plan is\n%s", l.printed(slices.Collect(maps.Values(steps))))
	}
	tainted := map[string]bool{"demo-cp-1": false, "demo-a-1": false}
	l.UseAPI(withNodes(t, tainted))
	for _, c := range []struct {
		surge string
		come  bool
	}{{"is not there yet, or has gone", false}, {"is not initialized", false}, {"is initialized", true}} {
		if c.surge != "is not there yet, or has gone" {
			tainted["demo-a-2"] = !c.come
		}
		one, err := comes.Run(t.Context(), silent{}), all.Run(t.Context(), silent{})
		if (one == nil) != c.come || one != nil && fail.KindOf(one) != fail.NotReady || err != nil {
			t.Errorf("it %s: its own step says %v, the other one %v", c.surge, one, err)
		}
	}

	// An interrupted apply whose new node had joined but was not initialized also waits for it.
	l.surged("demo-a-2", 2)
	for tainted, want := range map[bool]int{true: 1, false: 0} {
		o := l.away(l.observed(l.Decided(), controlPlanes(1)...), "demo-a-1")
		if n := o.Nodes["demo-a-2"]; tainted {
			n.Taints = append(n.Taints, kube.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: "NoSchedule"})
			o.Nodes[n.Name] = n
		}
		if got := strings.Count(l.mustPlan(o), "wait    cloud/node/demo-a-2"); got != want {
			t.Errorf("tainted %t: the plan waits %d times", tainted, got)
		}
	}
}
