package cluster

import (
	"context"
	"errors"
	"slices"
	"sort"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/cluster/support"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// Applied is a plan with what it was made from.
type Applied struct {
	Plan     *plan.Plan
	Observed *Observed
	// More tells that not everything could be seen (the API or etcd does not answer yet, the address of a new machine is not known):
	// after this plan, plan again.
	More bool
	// Unready says which machines can't be used yet, so that nothing is to be begun; nil where all can.
	Unready error
	// Again plans what is left after this plan; nil: PlanApply does.
	Again func(context.Context) (*Applied, error)
}

// Later says why there may be more to do after this plan; empty where there is not.
func (a *Applied) Later() string {
	switch err := firstError(a.Observed.APIErr, a.Observed.EtcdErr); {
	case !a.More:
		return ""
	case err != nil:
		return "The API or etcd does not answer yet (" + err.Error() + "); once it does, apply may find more to do."
	}
	return "Once this is done, apply may find more to do."
}

// PlanApply compares the document with what is there. An empty plan means that nothing is to do.
func (c *Cluster) PlanApply(ctx context.Context) (*Applied, error) {
	return c.planApply(ctx, "apply", c.decided())
}

// planApply plans for the document and for what was decided about single machines.
func (c *Cluster) planApply(ctx context.Context, verb string, decided wanted.Decisions) (*Applied, error) {
	if err := c.underway(); err != nil {
		return nil, err
	}
	if err := c.issuerReady(ctx); err != nil {
		return nil, err
	}
	if r := c.restoring(); r != nil && r.Living {
		return nil, fail.New(fail.Refused, "what cluster %s holds is being replaced by backup %s, and that has not come to its end", c.Name(), r.Set).
			Do("naupegos backup restore %s --from %s --consent %s continues it", c.Name(), r.Set, ConsentRestore)
	}
	if err := c.recallEncryption(ctx); err != nil {
		return nil, err
	}
	if err := c.advanceEncryption(ctx); err != nil {
		return nil, err
	}
	if err := c.advanceRotation(ctx); err != nil {
		return nil, err
	}
	if err := c.advanceReleases(ctx); err != nil {
		return nil, err
	}
	o, machines, err := c.look(ctx, decided)
	if err != nil {
		return nil, err
	}
	if err := firstError(o.unsigned(), o.unfit(), c.judge.Among(wanted.Names(o.Want))); err != nil {
		return nil, err
	}
	if learned, err := c.overtaken(ctx, o); err != nil {
		return nil, err
	} else if learned {
		if o, machines, err = c.look(ctx, decided); err != nil {
			return nil, err
		}
	}
	if drifted, err := c.drifted(o); err != nil {
		return nil, err
	} else if len(drifted) > 0 && !c.controlPlaneUnseen(o) {
		decided = decided.With(drifted)
		if o, machines, err = c.look(ctx, decided); err != nil {
			return nil, err
		}
		o.Drifted = drifted
	}
	if next, surges, err := c.withSurge(ctx, o, machines, decided); err != nil {
		return nil, err
	} else if surges {
		drifted := o.Drifted
		decided = next
		if o, machines, err = c.look(ctx, decided); err != nil {
			return nil, err
		}
		o.Drifted = drifted
	}
	if c.controlPlaneUnseen(o) && len(o.Replaced) > 0 { // nothing is replaced before it is known that the others can carry on
		apiErr, etcdErr := o.APIErr, o.EtcdErr
		if o, machines, err = c.look(ctx, decided.InPlace()); err != nil {
			return nil, err
		}
		if !c.controlPlaneUnseen(o) { // it can be seen by now; but this plan is not the one to act upon it
			o.APIErr, o.EtcdErr = apiErr, etcdErr
		}
	}
	if o.Obstacles, err = c.obstacles(ctx, o); err != nil {
		return nil, err
	}
	if err := c.rememberShapes(ctx, o); err != nil {
		return nil, err
	}
	p := &plan.Plan{Verb: verb, Cluster: c.Name(), Warnings: planWarnings(c, o)}
	if p.Steps, err = c.steps(o, machines); err != nil {
		return nil, err
	}
	waits := c.takePart(o, p)
	warnOfBudgets(ctx, c, p, o.Obstacles)
	ap := &Applied{Plan: p, Observed: o, More: c.controlPlaneUnseen(o) || len(o.Replaced) > 0 || c.addressesPending(ctx, o) || c.encryptionChanging() || c.upgrading() || c.rotating() || len(wanted.Own(o.Want)) < len(o.Want)}
	if all := o.unready(); len(all) > 0 {
		for _, err := range all {
			p.Warnings = append(p.Warnings, "apply does not begin before this is fixed: "+err.Error())
		}
		ap.Unready = fail.Wrap(fail.KindOf(all[0]), errors.Join(all...), "%s can't be used yet; nothing was begun", plural(len(all), "machine"))
	}
	if waits != nil && ap.Unready == nil {
		ap.Unready = waits
	}
	ap.More = ap.More && !c.onlyTest() && c.PausesAfter() == "" // else it is planned again and again
	return ap, p.Check()
}

// planWarnings returns the warnings of a plan.
func planWarnings(c *Cluster, o *Observed) []string {
	all := slices.Concat(o.Warnings, c.judge.Warnings(wanted.Names(o.Want)))
	if newer := c.newerBundle(); newer != "" {
		all = append(all, newer)
	}
	for _, obstacle := range o.Obstacles {
		all = append(all, "before the upgrade is finished: "+obstacle)
	}
	if now, err := c.toldRotation(); err == nil && c.held(now) {
		all = append(all, c.rotationNote())
	}
	if note := c.soakNote(); note != "" {
		all = append(all, note)
	}
	return all
}

// underway says which verb was begun that has to come to its end before anything else is planned; nil where none was.
func (c *Cluster) underway() error {
	switch {
	case c.facts.Is(memory.Resetting):
		return c.errResetting()
	case c.facts.Is(memory.Releasing):
		return errReleasing(c.Name())
	case c.facts.Is(memory.Importing):
		return errImporting(c.Name())
	case c.recovering() != nil:
		return c.errRecovering()
	}
	return nil
}

// Only has plans be of some parts of the cluster; none: of all.
func (c *Cluster) Only(of []parts.Part) { c.only = of }

// PauseAfter has every plan that rolls a machine end there.
func (c *Cluster) PauseAfter(machine string) { c.pauseAt = machine }

// PausesAfter is the machine at which the last plan ends though there is more to do, as PauseAfter said; empty: it does not.
func (c *Cluster) PausesAfter() string {
	if !c.leftOut {
		return ""
	}
	return c.pauseAt
}

// onlyTest reports whether somebody asks for the smoke tests and for nothing else: they run then, whatever was proven before.
func (c *Cluster) onlyTest() bool { return slices.Equal(c.only, []parts.Part{parts.Test}) }

// takePart leaves of a plan what Only or PauseAfter says. The error says that nothing of it can be done before other parts are.
func (c *Cluster) takePart(o *Observed, p *plan.Plan) error {
	c.leftOut = false
	if c.pauseAt != "" {
		if !slices.ContainsFunc(o.Want, func(s wanted.Slot) bool { return s.Name == c.pauseAt }) {
			return fail.New(fail.NotFound, "cluster %s has no machine %s to pause after", c.Name(), c.pauseAt).Do("naupegos status %s names them", c.Name())
		}
		until := parts.Until(p.Steps, c.pauseAt)
		if n := len(p.Steps) - len(until); n > 0 {
			p.Steps, p.LeftOut, c.leftOut = until, []string{plural(n, "step") + " that come after " + c.pauseAt}, true
		}
		return nil
	}
	if c.only == nil {
		return nil
	}
	part := parts.Select(p.Steps, c.only, c.applying(o, nil).partOf)
	p.Steps, p.LeftOut, c.leftOut = part.Steps, part.LeftOut, len(part.LeftOut) > 0
	if len(p.Steps) > 0 || len(part.Waits) == 0 {
		return nil
	}
	return fail.New(fail.NotReady, "%s can't come before %s", parts.Words(c.only), parts.Words(part.Waits)).At(c.Name()).
		Do("naupegos apply --only %s first; without --only everything comes in its order", strings.ReplaceAll(parts.Words(part.Waits), ", ", ","))
}

// checkInitial refuses to go on with a bootstrap whose control plane is no longer the one that was begun.
func (c *Cluster) checkInitial(o *Observed) error {
	if c.facts.Bootstrapped() {
		return nil
	}
	wanted := map[string]bool{}
	for _, n := range c.namesOf(provider.ControlPlane) {
		wanted[n] = true
	}
	for name := range c.initialMembers() {
		if !wanted[name] {
			return fail.New(fail.Refused, "the first apply began with control-plane machine %s, which the document no longer wants", name).
				Do("apply with the former number until the cluster is up, then scale; or naupegos destroy %s and begin again", c.Name())
		}
	}
	return nil
}

// planInitial fixes, once, which control-plane machines start etcd together.
func (a *applying) planInitial() {
	if a.facts.Get(memory.EtcdInitial) != "" {
		return
	}
	names := a.namesOf(provider.ControlPlane)
	a.add(stagePrepare, &plan.Step{
		ID: initialStep, Action: plan.Create, Subject: "cluster", Title: "record the initial etcd members",
		Reason: "the initial members start together, by static bootstrapping",
		Run: func(ctx context.Context, _ plan.Progress) error {
			var parts []string
			for _, n := range names {
				addr, err := a.address(ctx, n)
				if err != nil {
					return err
				}
				parts = append(parts, n+"="+peerURL(addr))
			}
			sort.Strings(parts)
			return a.facts.Set(ctx, memory.EtcdInitial, join(parts))
		},
	}, a.addressesOf(names)...)
}

// addressUnknown reports whether only a machine's creation tells its address.
func (c *Cluster) addressUnknown(name string) bool {
	m, err := c.prov.Machine(context.Background(), name)
	return err != nil || m.Address == ""
}

// planGateways configures gateways that are not as wanted, one after another once the cluster is up, and replaces those that are to be.
func (a *applying) planGateways() {
	var previous []plan.Need
	addresses := a.addressesOf(append(a.gateways(), a.namesOf(provider.ControlPlane)...))
	for _, s := range a.o.Want {
		if s.Role != provider.Gateway || a.upToDate(s) {
			continue
		}
		st := a.configured(s)
		if !a.facts.Bootstrapped() {
			a.add(stageBootstrap, st, addresses...)
			continue
		}
		unit := append(a.replacement(s), st)
		if !a.controlPlaneUnseen(a.o) { // else the API is waited for anyway
			unit = append(unit, a.gatewayGate(s.Name))
		}
		others := slices.DeleteFunc(slices.Clone(addresses), func(n plan.Need) bool { return n.ID == provider.MachineStep(s.Name) })
		previous = a.chain(stageRollGateways, unit, append(others, previous...)...)
	}
}

// planControlPlane configures control-plane machines that are members already, or are to be from the start. What serves is restarted one
// machine after another, once those are configured that don't serve, and the load balancer knows who else does: nothing is lost by
// restarting them, and each waits for all to be well.
func (a *applying) planControlPlane(balanced []string) {
	var previous []plan.Need
	if !a.controlPlaneUnseen(a.o) { // else the load balancer waits for the API
		previous = plan.After(balanced...)
	}
	for _, s := range a.o.leaderLast() {
		if !s.IsControlPlane() || a.joins(a.o, s) {
			continue
		}
		if a.upToDate(s) {
			if a.o.mute(s.Name) {
				a.add(stageBootstrap, a.gate(s.Name, "its etcd member does not answer"))
			} else if behind := a.o.Machines[s.Name].Behind; behind != "" {
				previous = a.chain(stageRollControlPlane, []*plan.Step{a.gate(s.Name, "it was changed but not waited for: "+behind)}, previous...)
			}
			continue
		}
		st := a.configured(s)
		if !a.facts.Bootstrapped() || !a.o.serves(s.Name) || !a.o.Machines[s.Name].mayRestart() {
			needs := plan.IfPlanned(initialStep)
			if a.restoring() != nil && !a.facts.Bootstrapped() {
				lay := a.layStep(s.Name)
				a.add(stageBootstrap, lay, needs...)
				needs = plan.After(lay.ID)
			}
			a.add(stageBootstrap, st, append(needs, a.inTurn(s)...)...)
			continue
		}
		st.Rolling = true
		a.afterOthers(st, a.o)
		previous = a.chain(stageRollControlPlane, append([]*plan.Step{st, a.gate(s.Name, "one control-plane machine at a time")}, a.checkSteps(s.Name)...), previous...)
	}
}

// IDs of steps that others wait for.
const (
	initialStep = "etcd/initial"
	apiStep     = "api"
)

// planAPI waits for the API through the endpoint, where it was not seen answering. Workers' machines may never come: it does not wait for them.
func (a *applying) planAPI(infrastructure []*plan.Step) {
	if a.facts.Bootstrapped() && a.o.APIErr == nil && a.o.EtcdErr == nil {
		return
	}
	workers := idsOf(provider.MachineStep, a.namesOf(provider.Worker))
	others := slices.DeleteFunc(ids(infrastructure), func(id string) bool { return slices.Contains(workers, id) })
	a.add(stageServe, &plan.Step{
		ID: apiStep, Action: plan.Wait, Subject: "cluster", Title: "wait for the Kubernetes API",
		Reason: "the steps that follow use it",
		Run: func(ctx context.Context, p plan.Progress) error {
			client, err := a.Kube(ctx)
			if err != nil {
				return err
			}
			p.Status("waiting for %s/readyz", client.Server())
			if err := support.WaitThenDiagnose(ctx, a.admit, a.apiTrouble); err != nil {
				return err
			}
			if err := a.facts.Set(ctx, memory.Bootstrapped, "true"); err != nil {
				return err
			}
			return a.dropSnapshot()
		},
	}, plan.After(others...)...)
}

// marks says which labels and taints a machine's node should carry.
func (c *Cluster) marks(s wanted.Slot) kube.Marks {
	if s.IsControlPlane() {
		m := kube.Marks{Labels: map[string]string{
			"node-role.kubernetes.io/control-plane":                   "",
			"node.kubernetes.io/exclude-from-external-load-balancers": "",
		}}
		for k, v := range c.doc.Spec.ControlPlane.Labels {
			m.Labels[k] = v
		}
		if !c.doc.Spec.ControlPlane.Schedulable {
			m.Taints = []kube.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: "NoSchedule"}}
		}
		return m
	}
	m := kube.Marks{Labels: map[string]string{poolLabel: s.Pool}}
	for _, w := range c.doc.Spec.Workers {
		if w.Name != s.Pool {
			continue
		}
		if w.Scales() && !c.prov.Traits().ExternalCloud { // where kubelet says it itself
			m.ProviderID = c.providerID(provider.Machine{Name: s.Name})
		}
		for k, v := range w.Labels {
			m.Labels[k] = v
		}
		for _, t := range w.Taints {
			m.Taints = append(m.Taints, kube.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	return m
}
