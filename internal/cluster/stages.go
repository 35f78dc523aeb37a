package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/provider"
)

// partOf returns the part of a cluster that a step belongs to. The pod network belongs to the cluster and is not an addon, because nodes can't be
// Ready without it.
func (a *applying) partOf(s *plan.Step) parts.Part {
	gateway := func(w wanted.Slot) bool { return w.Name == s.Subject && w.Role == provider.Gateway }
	leaving := func(m provider.Machine) bool { return m.Name == s.Subject && m.Role == provider.Gateway }
	switch {
	case s.Stage == stage.Machines || s.ID == nodes.InitialStep: // once the first etcd member is chosen, every machine's role is known
		return parts.Infrastructure
	case s.Stage == stage.Prove:
		return parts.Test
	case slices.ContainsFunc(a.o.Want, gateway) || slices.ContainsFunc(a.o.Remove, leaving):
		return parts.Gateways
	case s.ID == addons.CredentialStep || slices.ContainsFunc(append(a.CloudAddonList(), addon.Site(a.Doc)...), func(ad addon.Addon) bool { return addons.AddonID(ad.Name) == s.ID }) || addons.OfSite(s.ID) || addons.OfSet(s.ID):
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

// steps returns the steps from the observed to the wanted state; machines are the provider's own steps.
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
		a.planAuthentication()
		a.planAuthorization()
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
		if err := a.planSets(); err != nil {
			return nil, err
		}
		if err := a.planLaying(); err != nil {
			return nil, err
		}
	}
	return a.graph.Seal(stage.ApplyRules)
}

// add adds a step to a stage, with a consent if it removes a machine that drifted.
func (a *applying) add(stage plan.Stage, s *plan.Step, needs ...plan.Need) {
	a.graph.Add(stage, nodes.AskConsent(s, a.o.Drifted[s.Subject]), needs...)
}

// chain adds steps to a stage. The first waits for needs, each other for the one before it. It returns the need of the last step.
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

// inTurn returns the needs of a configuration step that restarts nothing. If it sends a release's images to a disk with an etcd member, it waits for the step
// that does so on the previous such disk: one member at a time may wait for its disk, and etcd answers without it.
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
	return a.ConfigureStep(s, observe.ActionFor(seen), observe.ReasonFor(seen, a.made[s.Name] != nil), seen)
}

// planMachines adds the provider's steps, except for machines that take the place of a machine that has to leave first: see replacement.
func (a *applying) planMachines(machines []*plan.Step) {
	for _, s := range machines {
		if a.o.Replaced[s.Subject] == nil || s != a.made[s.Subject] {
			a.add(stage.Machines, a.forSurge(s))
		}
	}
}

// addressesOf returns the needs for machines whose address is unknown until their creation.
func (a *applying) addressesOf(names []string) []plan.Need {
	var ids []string
	for _, n := range names {
		if a.AddressUnknown(n) {
			ids = append(ids, provider.MachineStep(n))
		}
	}
	return plan.IfPlanned(ids...)
}

// withSurge returns the decisions including extra machines for the time in which workers are changed one by one, and whether that adds any. The
// decisions are recorded before a machine is created, so that an interrupted apply continues and leaves none behind.
func (c *Cluster) withSurge(ctx context.Context, o *observe.Observed, machines []*plan.Step, decided wanted.Decisions) (wanted.Decisions, bool, error) {
	if !c.Facts.Bootstrapped() || c.ControlPlaneUnseen(o) {
		return decided, false, nil
	}
	a, r := c.applying(o, machines), wanted.Rolling{Away: map[string]int{}, Going: map[string]bool{}, Nodes: map[string]bool{}}
	for _, s := range wanted.Own(o.Want) {
		if a.rolls(s) && nodes.EndsPods(o.Machines[s.Name].Report) || o.Drifted[s.Name] != nil && o.Nodes[s.Name].Ready {
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

// forSurge adds the reason to the step of an extra machine that serves while others of its pool are changed.
func (a *applying) forSurge(s *plan.Step) *plan.Step {
	i := slices.IndexFunc(a.o.Want, func(w wanted.Slot) bool { return w.Surge && w.Name == s.Subject })
	if i < 0 || s != a.made[s.Subject] {
		return s
	}
	other := *s
	other.Reason = "pool " + a.o.Want[i].Pool + " gets an extra machine while its own are changed"
	return &other
}

// planSurge brings up the extra nodes of a pool that is being changed, and returns what the change waits for. An extra machine that serves already stays as it
// is, because it leaves soon. Its kubelet is not ahead of an API server either.
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
		joined = append(joined, a.chain(stage.RollWorkers, unit)...)
	}
	return joined
}

// retireSurge returns the steps that remove an extra machine after its pool was changed. Only its pods are affected: they move as in any rolling
// change. Its volumes were made for the time of the change, and need no consent to go.
func (a *applying) retireSurge(s wanted.Slot) []*plan.Step {
	m := provider.Machine{Name: s.Name, Role: s.Role, Pool: s.Pool, Index: s.Index, State: provider.Running}
	if there := a.o.Machine(s.Name); there != nil {
		m = *there
	}
	reason := "pool " + s.Pool + " no longer needs the extra machine"
	chain := append([]*plan.Step{a.DrainStep(m), a.DeleteNodeStep(s.Name, reason)}, a.DisposeSteps(a.o, m, reason)...)
	for _, st := range chain {
		st.Rolling, st.Removes, st.Consent = true, false, ""
	}
	last := chain[len(chain)-1]
	last.Run = a.ThenForget(s.Name, last.Run)
	return chain
}

// surgeNote adds that later plans may have temporary machines.
func (c *Cluster) surgeNote(after []string) []string {
	if n := c.Doc.Spec.Updates.Surge(); n > 0 && len(after) > 0 {
		after = append(after, fmt.Sprintf("a pool has up to %s more while its workers are changed", words.Count(n, "machine", "machines")))
	}
	return after
}
