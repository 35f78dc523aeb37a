package env

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/store"
)

// LoadTarget determines the wanted machines unless a verb has observed them already.
func (c *Env) LoadTarget(ctx context.Context) error {
	c.slotMu.Lock()
	defer c.slotMu.Unlock()
	if c.slots != nil {
		return nil
	}
	inv, err := c.Prov.Observe(ctx)
	if err != nil {
		return err
	}
	c.slots, _ = wanted.Assign(c.Doc, inv.Machines, c.Decided())
	return nil
}

// Known returns the machines that there should be, as the last look at the provider had it.
func (c *Env) Known() []wanted.Slot {
	c.slotMu.Lock()
	defer c.slotMu.Unlock()
	return c.slots
}

// SetTarget sets the wanted machines. The slice must not be changed afterwards.
func (c *Env) SetTarget(slots []wanted.Slot) {
	c.slotMu.Lock()
	defer c.slotMu.Unlock()
	c.slots = slots
}

// Gateways lists the names of the wanted gateways.
func (c *Env) Gateways() []string { return c.NamesOf(provider.Gateway) }

// NamesOf lists the wanted machines of a role, in order.
func (c *Env) NamesOf(r provider.Role) []string {
	var names []string
	for _, s := range c.Known() {
		if s.Role == r {
			names = append(names, s.Name)
		}
	}
	return names
}

// NodesOf returns the names of the nodes of a new cluster with this document.
func NodesOf(doc *v1alpha1.Cluster) []string {
	want, _ := wanted.Assign(doc, nil, nil)
	return nodeNames(want)
}

// NodeNames returns the names of the nodes that the cluster is to have.
func (c *Env) NodeNames(ctx context.Context) ([]string, error) {
	err := c.LoadTarget(ctx)
	return nodeNames(c.Known()), err
}

func nodeNames(want []wanted.Slot) (names []string) {
	for _, s := range want {
		if s.Role != provider.Gateway {
			names = append(names, s.Name)
		}
	}
	return names
}

// AuthorizedKeys lists who may log in to machines: Naupegos and the keys of the document.
func (c *Env) AuthorizedKeys() []string {
	return slices.Concat(c.PublicKeys, c.Doc.Spec.Access.SSHKeys)
}

// Fenced reports whether machines of a role have a packet filter against other hosts. Gateways have none, because they serve other hosts.
func (c *Env) Fenced(r provider.Role) bool {
	return r != provider.Gateway && !c.Bare && c.Doc.Spec.Security.PacketFilterWanted()
}

// Decided returns the remembered decisions.
func (c *Env) Decided() wanted.Decisions {
	fs := wanted.Decisions{}
	for name, v := range c.Facts.Each(memory.Decision) {
		fs[name] = wanted.Decision(v)
	}
	return fs
}

// DecisionOf returns the decision about a machine of a record's cluster; "" without one.
func DecisionOf(rec *store.Cluster, machine string) wanted.Decision {
	return wanted.Decision(memory.NewFacts(rec, nil).Of(memory.Decision, machine))
}

// Decide remembers a decision for machines.
func (c *Env) Decide(ctx context.Context, decision wanted.Decision, machines ...string) error {
	for _, m := range machines {
		if err := c.Facts.SetOf(ctx, memory.Decision, m, string(decision)); err != nil {
			return err
		}
	}
	return nil
}

// ForgetGone deletes decisions that were executed before a crash prevented their deletion.
func (c *Env) ForgetGone(ctx context.Context, inv *provider.Inventory) error {
	for name, d := range c.Decided() {
		if d == wanted.Surge || slices.ContainsFunc(inv.Machines, func(m provider.Machine) bool { return m.Name == name }) {
			continue
		}
		if err := c.Facts.SetOf(ctx, memory.Decision, name, ""); err != nil {
			return err
		}
	}
	return nil
}

// Resize sets the size of a pool that scales, from the next plan on. It returns fail.Refused if the document's bounds don't allow the size.
func (c *Env) Resize(ctx context.Context, pool string, size int) error {
	return scaling.Resize(ctx, c.Facts, c.Doc, pool, size)
}

// MachineNamed returns the full name of a machine, given its full or short name. If there is no such machine, it returns fail.NotFound with the
// existing names.
func (c *Env) MachineNamed(ctx context.Context, name string) (string, error) {
	if err := c.LoadTarget(ctx); err != nil {
		return "", err
	}
	full := wanted.MachineNamed(c.Doc, name)
	_, err := c.Prov.Machine(ctx, full)
	if fail.KindOf(err) != fail.NotFound {
		return full, err
	}
	known := wanted.Names(c.Known())
	if slices.Contains(known, full) {
		return "", fail.New(fail.NotFound, "the machine does not exist yet").At(full).Do("naupegos apply creates it")
	}
	return "", ErrNoSuchMachine(name, c.Name(), known)
}
