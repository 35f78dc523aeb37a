package cluster

import (
	"context"
	"slices"
	"sort"

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
func (c *Cluster) planApply(ctx context.Context, verb string, decided Fates) (*Applied, error) {
	o, machines, err := c.look(ctx, decided)
	if err != nil {
		return nil, err
	}
	if err := o.unfit(); err != nil {
		return nil, err
	}
	if drifted, err := c.drifted(o); err != nil {
		return nil, err
	} else if len(drifted) > 0 && !c.blind(o) {
		if o, machines, err = c.look(ctx, decided.with(drifted)); err != nil {
			return nil, err
		}
		o.Drifted = drifted
	}
	if c.blind(o) && len(o.Replaced) > 0 { // nothing is replaced before it is known that the others can carry on
		apiErr, etcdErr := o.APIErr, o.EtcdErr
		if o, machines, err = c.look(ctx, decided.without(Renew)); err != nil {
			return nil, err
		}
		if !c.blind(o) { // it can be seen by now; but this plan is not the one to act upon it
			o.APIErr, o.EtcdErr = apiErr, etcdErr
		}
	}
	p := &plan.Plan{Verb: verb, Cluster: c.Name(), Warnings: o.Warnings}
	if p.Steps, err = c.steps(o, machines); err != nil {
		return nil, err
	}
	return &Applied{Plan: p, Observed: o, More: c.blind(o) || len(o.Replaced) > 0 || c.strangers(ctx, o)}, p.Check()
}

// steps lists what takes the observed to the wanted; machines are the provider's own steps.
func (c *Cluster) steps(o *Observed, machines []*plan.Step) ([]*plan.Step, error) {
	b, blind := newBuilder(), c.blind(o)
	b.add(machines...)
	c.planInitial(b)
	c.planGateways(b, o)
	c.planControlPlane(b, o)
	var replaced []*plan.Step
	if !blind {
		var err error
		if replaced, err = c.planReplacements(b, o); err != nil {
			return nil, err
		}
		c.planJoins(b, o)
	}
	c.planAPI(b, o, machines)
	if err := c.planBalance(b, o); err != nil {
		return nil, err
	}
	if !blind {
		c.planRecords(b, o)
		c.planWorkers(b, o)
		c.planNodes(b, o)
		c.orderRolls(b, o)
		c.spreadPods(b)
		orderReplacements(b, replaced)
		if err := c.planRemovals(b, o); err != nil {
			return nil, err
		}
		c.planForgetWireGuard(b)
		c.planSmoke(b, o)
	}
	askConsent(b.steps, o.Drifted)
	return inOrder(b.steps), nil
}

// inOrder puts steps after those that they need, for the printed plan; else they stay in the order in which they were added.
func inOrder(steps []*plan.Step) []*plan.Step {
	out, done := make([]*plan.Step, 0, len(steps)), map[string]bool{}
	waits := func(s *plan.Step) bool {
		return slices.ContainsFunc(s.Needs, func(id string) bool { return !done[id] })
	}
	for len(steps) > 0 {
		i := slices.IndexFunc(steps, func(s *plan.Step) bool { return !waits(s) })
		if i < 0 { // a circle or an unknown need: Check names it
			return append(out, steps...)
		}
		out, done[steps[i].ID] = append(out, steps[i]), true
		steps = slices.Delete(slices.Clone(steps), i, i+1)
	}
	return out
}

// checkInitial refuses to go on with a bootstrap whose control plane is no longer the one that was begun.
func (c *Cluster) checkInitial(o *Observed) error {
	if c.facts.bootstrapped() {
		return nil
	}
	wanted := map[string]bool{}
	for _, n := range c.namesOf(provider.ControlPlane) {
		wanted[n] = true
	}
	for name := range c.facts.initialMembers() {
		if !wanted[name] {
			return fail.New(fail.Refused, "the first apply began with control-plane machine %s, which the document no longer wants", name).
				Do("apply with the former number until the cluster is up, then scale; or naupegos destroy %s and begin again", c.Name())
		}
	}
	return nil
}

// planInitial fixes, once, which control-plane machines start etcd together.
func (c *Cluster) planInitial(b *builder) {
	if c.facts.get(factInitial) != "" {
		return
	}
	names := c.namesOf(provider.ControlPlane)
	s := &plan.Step{
		ID: "etcd/initial", Action: plan.Create, Subject: "cluster", Title: "settle the initial etcd members",
		Reason: "all members start together, as one static cluster",
		Run: func(ctx context.Context, _ plan.Progress) error {
			var parts []string
			for _, n := range names {
				addr, err := c.address(ctx, n)
				if err != nil {
					return err
				}
				parts = append(parts, n+"="+peerURL(addr))
			}
			sort.Strings(parts)
			return c.facts.set(ctx, factInitial, join(parts))
		},
	}
	c.afterAddresses(b, s, names)
	b.add(s)
}

// afterAddresses makes s wait for machines whose address only their creation tells.
func (c *Cluster) afterAddresses(b *builder, s *plan.Step, names []string) {
	for _, n := range names {
		if m, err := c.prov.Machine(context.Background(), n); err != nil || m.Address == "" {
			b.after(s, provider.MachineStep(n))
		}
	}
}

// planGateways configures gateways that are not as wanted, one after another where they serve already.
func (c *Cluster) planGateways(b *builder, o *Observed) {
	previous, named := "", append(c.gateways(), c.namesOf(provider.ControlPlane)...)
	for _, s := range o.Want {
		if s.Role != provider.Gateway {
			continue
		}
		seen := o.Machines[s.Name]
		if seen.UpToDate() && !b.has(provider.MachineStep(s.Name)) {
			continue
		}
		st := c.configureStep(s, actionFor(seen), reasonFor(seen, b.has(provider.MachineStep(s.Name))), details(seen))
		b.after(st, provider.MachineStep(s.Name))
		c.afterAddresses(b, st, named)
		if c.facts.bootstrapped() {
			b.after(st, previous)
			previous = st.ID
		}
		b.add(st)
		if c.facts.bootstrapped() && !c.blind(o) { // else the API is waited for anyway
			gate := c.gatewayGate(s.Name)
			b.after(gate, st.ID)
			b.add(gate)
			previous = gate.ID
		}
	}
}

// planControlPlane configures control-plane machines that are members already, or are to be from the start. What serves is restarted one
// machine after another, once those are configured that don't serve: nothing is lost by restarting them, and each waits for all to be well.
func (c *Cluster) planControlPlane(b *builder, o *Observed) {
	var rolling []*plan.Step
	var before []string
	for _, s := range o.Want {
		if !s.isControlPlane() || c.joins(o, s) {
			continue
		}
		seen := o.Machines[s.Name]
		if seen.UpToDate() && !b.has(provider.MachineStep(s.Name)) {
			if o.mute(s.Name) {
				b.add(c.gate(s.Name, "its etcd member does not answer"))
			}
			continue
		}
		st := c.configureStep(s, actionFor(seen), reasonFor(seen, b.has(provider.MachineStep(s.Name))), details(seen))
		b.after(st, provider.MachineStep(s.Name), "etcd/initial")
		serves := c.facts.bootstrapped() && o.serves(s.Name)
		if serves && seen.mayRestart() {
			rolling = append(rolling, st)
			continue
		}
		if b.add(st); !serves {
			before = append(before, st.ID)
		}
	}
	for _, st := range rolling {
		st.Rolling = true
		c.afterOthers(st, o)
		b.after(st, before...)
		gate := c.gate(st.Subject, "one control-plane machine at a time")
		b.add(st)
		b.after(gate, st.ID)
		b.add(gate)
		before = []string{gate.ID}
	}
}

// planAPI waits for the API through the endpoint, where it was not seen answering.
func (c *Cluster) planAPI(b *builder, o *Observed, infrastructure []*plan.Step) {
	if c.facts.bootstrapped() && o.APIErr == nil && o.EtcdErr == nil {
		return
	}
	s := &plan.Step{
		ID: "api", Action: plan.Wait, Subject: "cluster", Title: "wait for the Kubernetes API",
		Reason: "everything that follows goes through it",
		Run: func(ctx context.Context, p plan.Progress) error {
			client, err := c.Kube(ctx)
			if err != nil {
				return err
			}
			p.Status("waiting for %s/readyz", client.Server())
			if err := lookAfter(ctx, c.admit, c.apiTrouble); err != nil {
				return err
			}
			return c.facts.set(ctx, factBootstrapped, "true")
		},
	}
	b.after(s, b.with("configure/")...)
	workers := map[string]bool{} // which may never come
	for _, name := range c.namesOf(provider.Worker) {
		workers[provider.MachineStep(name)] = true
	}
	for _, i := range infrastructure {
		if !workers[i.ID] {
			b.after(s, i.ID)
		}
	}
	b.add(s)
}

// planWorkers configures workers that are not as wanted; see paceWorkers.
func (c *Cluster) planWorkers(b *builder, o *Observed) {
	for _, s := range o.Want {
		if s.Role != provider.Worker {
			continue
		}
		seen := o.Machines[s.Name]
		if seen.UpToDate() && !b.has(provider.MachineStep(s.Name)) {
			continue
		}
		st := c.configureStep(s, actionFor(seen), reasonFor(seen, b.has(provider.MachineStep(s.Name))), details(seen))
		b.after(st, provider.MachineStep(s.Name), "api")
		b.add(st)
	}
}

// marks says which labels and taints a machine's node should carry.
func (c *Cluster) marks(s slot) kube.Marks {
	if s.isControlPlane() {
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
		for k, v := range w.Labels {
			m.Labels[k] = v
		}
		for _, t := range w.Taints {
			m.Taints = append(m.Taints, kube.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	return m
}
