package cluster

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

// decided returns the remembered decisions.
func (c *Cluster) decided() wanted.Decisions {
	fs := wanted.Decisions{}
	for name, v := range c.facts.Each(memory.Decision) {
		fs[name] = wanted.Decision(v)
	}
	return fs
}

// Decide remembers a decision for machines.
func (c *Cluster) Decide(ctx context.Context, decision wanted.Decision, machines ...string) error {
	for _, m := range machines {
		if err := c.facts.SetOf(ctx, memory.Decision, m, string(decision)); err != nil {
			return err
		}
	}
	return nil
}

// forgetGone forgets the decisions of machines that were carried out, where a crash came before that was remembered.
func (c *Cluster) forgetGone(ctx context.Context, inv *provider.Inventory) error {
	for name := range c.decided() {
		if slices.ContainsFunc(inv.Machines, func(m provider.Machine) bool { return m.Name == name }) {
			continue
		}
		if err := c.facts.SetOf(ctx, memory.Decision, name, ""); err != nil {
			return err
		}
	}
	return nil
}

// PlanRemove plans for a document whose groups are smaller by these machines: they go, whatever their index.
func (c *Cluster) PlanRemove(ctx context.Context, machines ...string) (*Applied, error) {
	return c.planDecision(ctx, "remove", wanted.Remove, machines)
}

// PlanReplace plans to put another machine of the same name in each machine's place: the old one is drained where it answers,
// taken out of etcd and Kubernetes, and destroyed before the new one is made.
func (c *Cluster) PlanReplace(ctx context.Context, machines ...string) (*Applied, error) {
	return c.planDecision(ctx, "replace", wanted.Replace, machines)
}

func (c *Cluster) planDecision(ctx context.Context, verb string, decision wanted.Decision, machines []string) (*Applied, error) {
	if !c.facts.Bootstrapped() {
		return nil, errNotBootstrapped(c.Name())
	}
	inv, err := c.prov.Observe(ctx)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	var names []string
	for _, m := range inv.Machines {
		have[m.Name] = true
		names = append(names, m.Name)
	}
	decided := c.decided()
	for _, m := range machines {
		if !have[m] {
			return nil, errNoSuchMachine(m, c.Name(), names)
		}
		decided[m] = decision
	}
	ap, err := c.planApply(ctx, verb, decided)
	if err != nil {
		return nil, err
	}
	if c.controlPlaneUnseen(ap.Observed) {
		return nil, fail.Wrap(fail.NotReady, firstError(ap.Observed.EtcdErr, ap.Observed.APIErr),
			"%s %s: it can't be foreseen whether the others carry on", verb, join(machines)).
			Do("naupegos apply brings what is down back; see naupegos status %s", c.Name())
	}
	return ap, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
