package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
)

// The stages of an apply.
const (
	stagePrepare          plan.Stage = "prepare"            // what must be there before anything is changed
	stageMachines         plan.Stage = "machines"           // the provider's steps
	stageAdmit            plan.Stage = "admit"              // packet filters let new machines in
	stageRepair           plan.Stage = "repair"             // lost members and nodes go, control-plane machines are replaced
	stageBootstrap        plan.Stage = "bootstrap"          // gateways and control-plane machines that don't serve yet
	stageJoin             plan.Stage = "join"               // new members of the control plane, one after another
	stageBalance          plan.Stage = "balance"            // a load balancer of the cloud learns of them
	stageRollGateways     plan.Stage = "roll-gateways"      // one after another
	stageRollControlPlane plan.Stage = "roll-control-plane" // one after another
	stageServe            plan.Stage = "serve"              // the API answers
	stageRecord           plan.Stage = "record"             // kubeadm's records and addons
	stageWorkers          plan.Stage = "workers"            // workers that don't serve yet
	stageNodes            plan.Stage = "nodes"              // nodes are registered, labelled and Ready
	stageRollWorkers      plan.Stage = "roll-workers"       // in as many lanes as may be unavailable
	stageAdvance          plan.Stage = "advance"            // an upgrade, or a rotation, goes on
	stageRetire           plan.Stage = "retire"             // machines that are no longer wanted go
	stageProve            plan.Stage = "prove"              // smoke tests
	stageForget           plan.Stage = "forget"             // what is remembered of those that went
	stageLay              plan.Stage = "lay"                // machines that make backups learn what the store knows now
)

// applyRules say in which order a cluster is changed: what is broken is repaired first, then comes what is new, then what is restarted, and
// what goes comes last. Gateways learn where replaced machines are, and know new API servers before an old one restarts; no kubelet gets ahead of an API server. Workers that are
// new are waited for by those that go and by the smoke tests alone: one that never comes is no reason to leave others as they are.
var applyRules = []plan.Rule{
	{Stage: stagePrepare},
	{Stage: stageMachines},
	{Stage: stageAdmit},
	{Stage: stageRepair, Waits: []plan.Stage{stagePrepare, stageAdmit}},
	{Stage: stageBootstrap, Waits: []plan.Stage{stageMachines}, Per: plan.SameSubject},
	{Stage: stageJoin, Waits: []plan.Stage{stageRepair}},
	{Stage: stageJoin, Waits: []plan.Stage{stageMachines}, Per: plan.SameSubject},
	{Stage: stageBalance, Waits: []plan.Stage{stageBootstrap, stageJoin}},
	{Stage: stageRollGateways, Waits: []plan.Stage{stageRepair}},
	{Stage: stageRollGateways, Waits: []plan.Stage{stageMachines}, Per: plan.SameSubject},
	{Stage: stageRollControlPlane, Waits: []plan.Stage{stagePrepare, stageBootstrap, stageJoin, stageRollGateways}},
	{Stage: stageServe, Waits: []plan.Stage{stageBootstrap, stageRollGateways, stageRollControlPlane}},
	{Stage: stageRecord, Waits: []plan.Stage{stageServe, stageRollControlPlane}},
	{Stage: stageWorkers, Waits: []plan.Stage{stageAdmit}},
	{Stage: stageWorkers, Waits: []plan.Stage{stageMachines, stageRepair}, Per: plan.SameSubject},
	{Stage: stageNodes, Waits: []plan.Stage{stageMachines, stageBootstrap, stageJoin, stageRollControlPlane, stageWorkers}, Per: plan.SameSubject},
	{Stage: stageRollWorkers, Waits: []plan.Stage{stageRollControlPlane}},
	{Stage: stageRollWorkers, Waits: []plan.Stage{stageMachines}, Per: plan.SameSubject},
	{Stage: stageRetire, Waits: []plan.Stage{stageBootstrap, stageJoin, stageBalance, stageRollControlPlane, stageWorkers, stageNodes, stageRollWorkers}},
	{Stage: stageProve, Waits: []plan.Stage{stageRecord, stageBalance, stageNodes, stageRollWorkers, stageRetire}},
	{Stage: stageAdvance, Waits: []plan.Stage{stageRecord, stageBalance, stageWorkers, stageNodes, stageRollWorkers, stageRetire, stageProve}},
	{Stage: stageForget, Waits: []plan.Stage{stageRetire}},
	{Stage: stageLay, Waits: []plan.Stage{stageAdvance, stageForget}},
}

// repairRules say in which order a machine is healed by a reboot or a power cycle. A replacement follows applyRules.
var repairRules = []plan.Rule{
	{Stage: stageRepair},
	{Stage: stageNodes, Waits: []plan.Stage{stageRepair}},
}

// updateRules say in which order machines get another state of their operating system: one after another, in the order of a roll.
var updateRules = []plan.Rule{
	{Stage: stagePrepare},
	{Stage: stageRollGateways, Waits: []plan.Stage{stagePrepare}},
	{Stage: stageRollControlPlane, Waits: []plan.Stage{stagePrepare, stageRollGateways}},
	{Stage: stageRollWorkers, Waits: []plan.Stage{stageRollControlPlane}},
}

// partOf says which part of a cluster a step makes. What nodes can't be Ready without, the pod network, is the cluster's, not an addon.
func (a *applying) partOf(s *plan.Step) parts.Part {
	gateway := func(w wanted.Slot) bool { return w.Name == s.Subject && w.Role == provider.Gateway }
	leaving := func(m provider.Machine) bool { return m.Name == s.Subject && m.Role == provider.Gateway }
	switch {
	case s.Stage == stageMachines || s.ID == initialStep: // once it is settled who begins etcd, it is known what every machine is to be
		return parts.Infrastructure
	case s.Stage == stageProve:
		return parts.Test
	case slices.ContainsFunc(a.o.Want, gateway) || slices.ContainsFunc(a.o.Remove, leaving):
		return parts.Gateways
	case s.ID == credentialStep || slices.ContainsFunc(a.CloudAddonList(), func(ad addon.Addon) bool { return addonID(ad.Name) == s.ID }):
		return parts.Addons
	}
	return parts.Cluster
}

// applying is an apply while it is planned.
type applying struct {
	*Cluster
	o     *observe.Observed
	graph plan.Graph
	made  map[string]*plan.Step // the provider's step that leaves a machine running, by the machine's name
	sent  string                // the step that was the last to be sent much to the disk of a member of etcd: see inTurn
}

func (c *Cluster) applying(o *observe.Observed, machines []*plan.Step) *applying {
	a := &applying{Cluster: c, o: o, made: map[string]*plan.Step{}}
	for _, s := range machines {
		if s.ID == provider.MachineStep(s.Subject) {
			a.made[s.Subject] = s
		}
	}
	return a
}

// steps lists what takes the observed to the wanted; machines are the provider's own steps.
func (c *Cluster) steps(o *observe.Observed, machines []*plan.Step) ([]*plan.Step, error) {
	a := c.applying(o, machines)
	a.planBundle()
	a.planMachines(machines)
	a.planInitial()
	a.planGateways()
	balanced, err := a.planBalance()
	if err != nil {
		return nil, err
	}
	a.planControlPlane(balanced)
	a.planAPI(machines)
	if !c.ControlPlaneUnseen(o) {
		if err := a.planRepairs(); err != nil {
			return nil, err
		}
		a.planAdmission()
		a.planJoins()
		a.planRecords()
		a.planEncryption()
		a.planReleases()
		if err := a.planRotation(); err != nil {
			return nil, err
		}
		a.planWorkers()
		a.planNodes()
		if err := a.planRemovals(); err != nil {
			return nil, err
		}
		a.planForgetWireGuard()
		a.planSmoke()
		if err := a.planLaying(); err != nil {
			return nil, err
		}
	}
	return a.graph.Seal(applyRules)
}

// add puts a step into a stage, marked as in need of consent where it removes a machine that drifted.
func (a *applying) add(stage plan.Stage, s *plan.Step, needs ...plan.Need) {
	a.graph.Add(stage, askConsent(s, a.o.Drifted[s.Subject]), needs...)
}

// chain puts steps into a stage, each of which waits for the one before; the first waits for needs. It returns the need of the last.
func (a *applying) chain(stage plan.Stage, steps []*plan.Step, needs ...plan.Need) []plan.Need {
	for _, s := range steps {
		a.add(stage, s, needs...)
		needs = plan.After(s.ID)
	}
	return needs
}

// upToDate reports whether nothing is to be done on a machine.
func (a *applying) upToDate(s wanted.Slot) bool {
	return a.o.Machines[s.Name].UpToDate() && a.made[s.Name] == nil
}

// inTurn are the needs of the step that configures a machine and restarts nothing: where images of a release are sent to a disk that has a member of
// etcd, the one that sends to another such disk. Members wait for their disks, and only one of them may: etcd answers without it.
func (a *applying) inTurn(s wanted.Slot) (needs []plan.Need) {
	seen := a.o.Machines[s.Name]
	if !a.Facts.Bootstrapped() || seen == nil || seen.Report == nil || len(seen.Report.Missing) == 0 || !s.IsControlPlane() && !a.Prov.Traits().SharedKernel {
		return nil
	}
	if a.sent != "" {
		needs = plan.After(a.sent)
	}
	a.sent = observe.ConfigureID(s.Name)
	return needs
}

// configured is the step that makes a machine as it should be.
func (a *applying) configured(s wanted.Slot) *plan.Step {
	seen := a.o.Machines[s.Name]
	return a.ConfigureStep(s, observe.ActionFor(seen), observe.ReasonFor(seen, a.made[s.Name] != nil), observe.Details(seen))
}

// planMachines takes over the provider's steps, but for those that wait until the machine has gone whose place they fill: see replacement.
func (a *applying) planMachines(machines []*plan.Step) {
	for _, s := range machines {
		if a.o.Replaced[s.Subject] == nil || s != a.made[s.Subject] {
			a.add(stageMachines, a.forSurge(s))
		}
	}
}

// addressesOf are the needs of machines whose address only their creation tells.
func (a *applying) addressesOf(names []string) []plan.Need {
	var ids []string
	for _, n := range names {
		if a.AddressUnknown(n) {
			ids = append(ids, provider.MachineStep(n))
		}
	}
	return plan.IfPlanned(ids...)
}

// ids returns the steps' IDs.
func ids(steps []*plan.Step) []string {
	var out []string
	for _, s := range steps {
		out = append(out, s.ID)
	}
	return out
}

// idsOf returns the IDs that f gives to names.
func idsOf(f func(string) string, names []string) []string {
	out := slices.Clone(names)
	for i, n := range names {
		out[i] = f(n)
	}
	return out
}

func healthID(name string) string { return "health/" + name }

// gate lets what follows begin only when this control-plane machine works again, by what it says itself now: kubelet takes a moment to see
// that a manifest has changed, during which the servers of before still answer.
func (c *Cluster) gate(name, reason string) *plan.Step {
	return &plan.Step{
		ID: healthID(name), Action: plan.Wait, Subject: name, Title: "wait until the control plane on " + name + " is ready", Reason: reason,
		Run: func(ctx context.Context, p plan.Progress) error {
			return observe.Serving(ctx, c.Plane, []string{name}, p)
		},
	}
}

// afterOthers has a step that restarts what serves wait until the other control-plane machines have taken up what they were told: by this
// apply, or by one before that was cut short; and until etcd can do without its member. What was sick before is not waited for beyond that.
func (c *Cluster) afterOthers(s *plan.Step, o *observe.Observed) {
	var others []string
	for _, m := range o.Want {
		if m.IsControlPlane() && m.Name != s.Subject && !c.joins(o, m) && o.Serves(m.Name) && o.Machines[m.Name].UpToDate() {
			others = append(others, m.Name)
		}
	}
	well := !slices.ContainsFunc(o.Health, func(h etcd.Health) bool { return !h.OK() })
	run := s.Run
	s.Run = func(ctx context.Context, p plan.Progress) error {
		if len(others) > 0 {
			p.Status("waiting until the other control-plane machines are ready")
		}
		for _, name := range others {
			if err := c.Plane.Settled(ctx, name); err != nil {
				return err
			}
		}
		if well {
			if err := c.WaitEtcd(ctx); err != nil {
				return err
			}
		}
		if err := c.mayStop(ctx, s.Subject, observe.EndsEtcd(o.Machines[s.Subject].Report)); err != nil {
			return err
		}
		return run(ctx, p)
	}
}

// mayStop is fail.NotReady while etcd would lose its quorum without a machine's member: the only one may. A leader that is to stop hands over first.
func (c *Cluster) mayStop(ctx context.Context, name string, stops bool) error {
	return c.WithEtcd(ctx, func(e *etcd.Client) error {
		members, err := e.Members(ctx)
		if err != nil {
			return err
		}
		health := e.Health(ctx, members)
		if err := stoppable(members, health, name); err != nil || !stops || etcd.Now(members, health).Voters == 1 {
			return err
		}
		return handOver(ctx, e, members, name)
	})
}

// withSurge returns the decisions with the machines that are to be there while workers are taken away in turn, and whether that changes them.
// They are remembered before any is made: an apply that is cut off is gone on with, and leaves none behind.
func (c *Cluster) withSurge(ctx context.Context, o *observe.Observed, machines []*plan.Step, decided wanted.Decisions) (wanted.Decisions, bool, error) {
	if !c.Facts.Bootstrapped() || c.ControlPlaneUnseen(o) {
		return decided, false, nil
	}
	a, r := c.applying(o, machines), wanted.Rolling{Away: map[string]int{}, Going: map[string]bool{}, Nodes: map[string]bool{}}
	for _, s := range wanted.Own(o.Want) {
		if a.rolls(s) && endsPods(o.Machines[s.Name].Report) || o.Drifted[s.Name] != nil && o.Nodes[s.Name].Ready {
			r.Away[s.Pool]++
		}
	}
	for _, m := range o.Remove {
		r.Going[m.Name] = o.TakesPods(m)
	}
	for name := range o.Nodes {
		r.Nodes[name] = true
	}
	next := decided.WithSurge(c.Doc, o.Inventory.Machines, r)
	for _, ds := range []wanted.Decisions{decided, next} {
		for name := range ds {
			if decided[name] == next[name] {
				continue
			}
			if err := c.Decide(ctx, next[name], name); err != nil {
				return nil, false, err
			}
		}
	}
	return next, !maps.Equal(decided, next), nil
}

// forSurge says why a machine is made that is to be there while others of its pool are changed.
func (a *applying) forSurge(s *plan.Step) *plan.Step {
	i := slices.IndexFunc(a.o.Want, func(w wanted.Slot) bool { return w.Surge && w.Name == s.Subject })
	if i < 0 || s != a.made[s.Subject] {
		return s
	}
	other := *s
	other.Reason = "pool " + a.o.Want[i].Pool + " gets an extra machine while its own are changed"
	return &other
}

// planSurge has the nodes serve that are there while their pool is changed, and returns what is to be waited for. One that serves stays as it
// is: it goes soon. No kubelet of theirs is ahead of an API server either.
func (a *applying) planSurge(pool string) (joined []plan.Need) {
	for _, s := range a.o.Want {
		if !s.Surge || s.Pool != pool || a.rolls(s) {
			continue
		}
		var unit []*plan.Step
		n, known := a.o.Nodes[s.Name]
		if a.made[s.Name] != nil && a.AddressUnknown(s.Name) {
			unit = append(unit, a.IntroduceStep(s))
		}
		if !a.upToDate(s) {
			unit = append(unit, a.configured(s))
		}
		if len(unit) > 0 || !n.Ready || !n.Initialized() || a.o.Stale(n) != "" || !kube.Marked(n, a.Marks(s)) {
			unit = append(unit, a.joined(s, known)...)
		}
		if n.Annotations[kube.OwnedCordon] != "" {
			unit = append(unit, a.uncordonSteps(s)...)
		}
		joined = append(joined, a.chain(stageRollWorkers, unit)...)
	}
	return joined
}

// retireSurge lists the steps that take a machine out that was there while its pool was changed. Nothing that was there before the plan goes
// with it: its pods move as they do wherever machines are changed in turn.
func (a *applying) retireSurge(s wanted.Slot) []*plan.Step {
	m := provider.Machine{Name: s.Name, Role: s.Role, Pool: s.Pool, Index: s.Index, State: provider.Running}
	if there := a.o.Machine(s.Name); there != nil {
		m = *there
	}
	reason := "pool " + s.Pool + " no longer needs the extra machine"
	chain := append([]*plan.Step{a.drainStep(m), a.deleteNodeStep(s.Name, reason)}, a.disposeSteps(a.o, m, reason)...)
	for _, st := range chain {
		st.Rolling, st.Removes = true, false
	}
	last := chain[len(chain)-1]
	last.Run = a.thenForget(s.Name, last.Run)
	return chain
}

// surgeNote says that plans after this one may have machines that come and go.
func (c *Cluster) surgeNote(after []string) []string {
	if n := c.Doc.Spec.Updates.Surge(); n > 0 && len(after) > 0 {
		after = append(after, fmt.Sprintf("a pool has up to %s more while its workers are changed", words.Count(n, "machine", "machines")))
	}
	return after
}
