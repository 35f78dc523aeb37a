package removal

import (
	"cmp"
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// ResetOptions selects what PlanReset resets.
type ResetOptions struct {
	Machine     string // the only one, which leaves the cluster until the next apply; empty: all
	KeepVolumes bool   // leave the volumes of PersistentVolumeClaims in the cloud
}

// PlanReset takes Kubernetes off machines and leaves these, their addresses and their network.
func (c *Removal) PlanReset(ctx context.Context, opts ResetOptions) (*plan.Plan, error) {
	if c.Facts.Is(memory.Importing) {
		return nil, env.ErrImporting(c.Name())
	}
	p := &plan.Plan{Verb: "reset", Cluster: c.Name(), Final: opts.Machine == ""}
	var err error
	if opts.Machine != "" {
		p.Steps, err = c.resetOne(ctx, opts.Machine)
	} else {
		p.Steps, err = c.resetAll(ctx, DestroyOptions{KeepVolumes: opts.KeepVolumes})
	}
	return p, err
}

// BeginReset remembers, before the first step of a reset that was agreed to, that it is begun.
func (c *Removal) BeginReset(ctx context.Context, opts ResetOptions) error {
	if opts.Machine != "" {
		return c.Facts.SetOf(ctx, memory.Unclean, opts.Machine, "true")
	}
	return c.Facts.Set(ctx, memory.Resetting, "true")
}

// resetAll lists the steps that reset every machine and, last, have the next apply build another cluster.
func (c *Removal) resetAll(ctx context.Context, opts DestroyOptions) ([]*plan.Step, error) {
	if now, err := c.ToldRotation(); err != nil || now.Has(pki.SSHKeyName) && !c.Prov.Traits().Given {
		return nil, cmp.Or[error](err, fail.New(fail.Refused, "the SSH key of cluster %s is being rotated: afterwards a machine may accept another key than the remembered one", c.Name()).
			Do("naupegos apply continues that, naupegos certs rotate %s --abandon takes it back; then try again", c.Name()))
	}
	inv, err := c.Prov.Observe(ctx)
	if err != nil {
		return nil, err
	}
	want, _ := wanted.Assign(c.Doc, inv.Machines, c.Decided())
	c.SetTarget(want)
	var graph plan.Graph
	given := c.planFree(ctx, &graph, opts)
	cleaned := c.planClean(&graph, inv.Machines, c.ResetStep, c.leaveUnclean)
	left, err := c.PlanLeftovers(ctx, nil, cleaned, given, opts)
	if err != nil {
		return nil, err
	}
	for _, s := range left {
		graph.Add(stage.Remove, s)
	}
	graph.Add(stage.Forget, &plan.Step{
		ID: "forget", Action: plan.Destroy, Subject: "cluster", Title: "delete the cluster's authorities, keys and state from the store", Removes: true,
		Reason: "the next apply creates a new cluster, which accepts no old credentials",
		Run:    func(ctx context.Context, _ plan.Progress) error { return c.startOver(ctx) },
	})
	return graph.Seal(stage.ResetRules)
}

// leaveUnclean is the step for a machine that can't be cleaned: nothing is put on it until it was.
func (c *Removal) leaveUnclean(m provider.Machine) *plan.Step {
	if c.Prov.Traits().Given && c.Facts.Of(memory.Host, m.Name) == "" {
		return nil // nothing was ever put on it
	}
	return &plan.Step{
		ID: "leave/" + m.Name, Action: plan.Change, Subject: m.Name, Title: "leave " + m.Name + " as it is", Consent: nodes.ConsentLeave,
		Reason:  "it can't be cleaned: it is " + string(m.State),
		Details: []string{"if it comes back, what Naupegos installed on it runs again", "apply refuses to use it until naupegos reset --machine has cleaned it"},
		Run: func(ctx context.Context, _ plan.Progress) error {
			return c.Facts.SetOf(ctx, memory.Unclean, m.Name, "true")
		},
	}
}

// startOver deletes the identity of the cluster: its keys and facts. Access to machines stays. It can be repeated, because it deletes the fact
// that a reset was begun last.
func (c *Removal) startOver(ctx context.Context) error {
	if err := c.PKI.StartOver(ctx); err != nil {
		return err
	}
	if c.Cloud() != nil {
		if err := c.Secrets.Delete(ctx, observe.SecretCredential); err != nil {
			return err
		}
	}
	return c.Facts.StartOver(ctx, pki.SSHKeyName)
}

// resetOne lists the steps that take one machine out of the cluster as replacing it does, and clean it.
func (c *Removal) resetOne(ctx context.Context, name string) ([]*plan.Step, error) {
	o, err := c.Observe(ctx)
	if err != nil {
		return nil, err
	}
	return c.ResetOneOf(o, name)
}

// ResetOneOf lists the steps that reset one observed machine.
func (c *Removal) ResetOneOf(o *observe.Observed, name string) ([]*plan.Step, error) {
	var names []string
	for _, m := range o.Inventory.Machines {
		names = append(names, m.Name)
	}
	i := slices.Index(names, name)
	switch {
	case i < 0:
		return nil, env.ErrNoSuchMachine(name, c.Name(), names)
	case c.Facts.Is(memory.Resetting):
		return nil, c.ErrResetting()
	}
	m := o.Inventory.Machines[i]
	if m.State != provider.Running {
		return nil, fail.New(fail.Refused, "reset %s: it is %s, and can't be cleaned", name, m.State).
			Do("start it and try again, or put another one in its place: naupegos node replace %s %s", c.Name(), name)
	}
	var graph plan.Graph
	clean := c.ResetStep(m)
	clean.Removes = true
	if !c.Facts.Bootstrapped() {
		if c.Facts.Of(memory.Unclean, name) == "" {
			return nil, env.ErrNotBootstrapped(c.Name())
		}
		clean.Run = c.ThenForget(name, clean.Run)
		graph.Add(stage.Clean, clean)
		return graph.Seal(stage.ResetRules)
	}
	if err := c.checkReset(o, m); err != nil {
		return nil, err
	}
	if m.Role == provider.ControlPlane {
		graph.Add(stage.Prepare, c.BackupStep("a control-plane machine is reset", nil))
	}
	clean.Run = c.AfterForgettingKeys(name, clean.Run)
	var previous []plan.Need
	for _, s := range c.RetireBy(o, m, "it is reset", []*plan.Step{clean}) {
		graph.Add(stage.Clean, s, previous...)
		previous = plan.After(s.ID)
	}
	return graph.Seal(stage.ResetRules)
}

// checkReset foresees whether the others carry on without a machine.
func (c *Removal) checkReset(o *observe.Observed, m provider.Machine) error {
	if c.ControlPlaneUnseen(o) {
		return fail.Wrap(fail.NotReady, cmp.Or(o.EtcdErr, o.APIErr), "reset %s: it can't be foreseen whether the others carry on", m.Name).
			Do("naupegos apply repairs it; naupegos reset %s without --machine does not ask them", c.Name())
	}
	if m.Role != provider.Gateway {
		return c.CheckLeaves(o, m, "reset")
	}
	for _, other := range o.Inventory.Machines {
		if other.Role == provider.Gateway && other.Name != m.Name && other.State == provider.Running {
			return nil
		}
	}
	return fail.New(fail.Refused, "reset %s: it is the only gateway that runs, and the API is reached through it", m.Name).
		Do("naupegos apply mends what differs on it; naupegos reset %s resets all", c.Name())
}

// CheckUnclean refuses to configure machines whose reset is not finished: their files belong to another cluster, or would keep etcd's member from joining.
func (c *Removal) CheckUnclean(o *observe.Observed) error {
	for _, s := range o.Want {
		if c.Facts.Of(memory.Unclean, s.Name) == "" || o.Machines[s.Name] == nil {
			continue
		}
		return fail.New(fail.Refused, "%s was to be reset, and is not clean yet", s.Name).
			Do("naupegos reset %s --machine %s cleans it once it answers; or put another one in its place, or take it out of the document", c.Name(), s.Name)
	}
	return nil
}

// ResetNote describes a reset in progress; "" without one.
func (c *Removal) ResetNote() string {
	if c.Facts.Is(memory.Releasing) {
		return "the cluster is being released: naupegos release " + c.Name() + " continues"
	}
	if c.Facts.Is(memory.Importing) {
		return "the cluster is not taken over yet: naupegos import " + c.Name() + " --adopt continues"
	}
	if c.Facts.Is(memory.Resetting) {
		return "begun but not finished: naupegos reset " + c.Name() + " continues"
	}
	return ""
}
