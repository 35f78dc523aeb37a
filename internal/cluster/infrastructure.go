package cluster

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// look observes everything and asks the provider for the steps to the machines that are wanted. The provider comes first: it
// gives new machines their addresses, which the other machines' configurations name.
func (c *Cluster) look(ctx context.Context, decided wanted.Decisions) (*Observed, []*plan.Step, error) {
	o, err := c.observeInventory(ctx, decided)
	if err != nil {
		return nil, nil, err
	}
	if err := c.checkInitial(o); err != nil {
		return nil, nil, err
	}
	if err := c.checkUnclean(o); err != nil {
		return nil, nil, err
	}
	if err := checkChanges(c.facts, c.rec, c.doc); err != nil {
		return nil, nil, err
	}
	machines, err := c.infrastructure(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	return o, machines, c.observeRest(ctx, o)
}

// controlPlaneUnseen reports whether the API or etcd of a cluster that is up could not be seen.
func (c *Cluster) controlPlaneUnseen(o *Observed) bool {
	return c.facts.Bootstrapped() && (o.APIErr != nil || o.EtcdErr != nil)
}

// addressesPending reports whether machines join a cluster that is up whose addresses only their creation tells. The configurations of
// the others name them, so those can be compared only afterwards. Of a cluster that is not up, gateways learn its workers afterwards.
func (c *Cluster) addressesPending(ctx context.Context, o *Observed) bool {
	return slices.ContainsFunc(o.Want, func(s wanted.Slot) bool {
		if !c.facts.Bootstrapped() && (s.Role != provider.Worker || c.doc.Spec.Endpoint.IngressWanted() == nil) {
			return false
		}
		m, err := c.prov.Machine(ctx, s.Name)
		return err != nil || m.Address == ""
	})
}

// infrastructure asks the provider for what machines need and for the machines themselves.
func (c *Cluster) infrastructure(ctx context.Context, o *Observed) ([]*plan.Step, error) {
	want, err := c.wantedMachines(o.Want)
	if err != nil {
		return nil, err
	}
	left := *o.Inventory
	left.Machines = slices.DeleteFunc(slices.Clone(left.Machines), func(m provider.Machine) bool { return o.Replaced[m.Name] != nil })
	steps, err := c.prov.Steps(ctx, want, &left)
	if err != nil {
		return nil, err
	}
	if len(steps) > 0 {
		if err := c.prov.Preflight(ctx, want); err != nil {
			return nil, err
		}
		if w, ok := c.prov.(provider.Warner); ok {
			o.Warnings = w.Warnings()
		}
	}
	c.recordLocation(steps)
	return steps, nil
}

// recordLocation has the provider's steps remember, before the first of them makes anything, where the cluster lives.
func (c *Cluster) recordLocation(steps []*plan.Step) {
	h, ok := c.prov.(provider.Housed)
	if !ok || c.facts.Get(memory.Home) != "" {
		return
	}
	for _, s := range steps {
		run := s.Run
		s.Run = func(ctx context.Context, p plan.Progress) error {
			home, err := h.Home(ctx)
			if err == nil {
				err = c.facts.Set(ctx, memory.Home, home)
			}
			if err != nil {
				return err
			}
			return run(ctx, p)
		}
	}
}

// wantedMachines is what the provider is asked for.
func (c *Cluster) wantedMachines(slots []wanted.Slot) (provider.Wanted, error) {
	want := provider.Wanted{VIP: c.doc.GatewayCount() > 0}
	for _, s := range slots {
		data, err := c.userData(s)
		if err != nil {
			return want, err
		}
		want.Machines = append(want.Machines, provider.MachineSpec{Name: s.Name, Role: s.Role, Pool: s.Pool, Index: s.Index, UserData: data})
	}
	return want, nil
}

// authorizedKeys lists who may log in to machines: Naupegos and the keys of the document.
func (c *Cluster) authorizedKeys() []string {
	return slices.Concat(c.publicKeys, c.doc.Spec.Access.SSHKeys)
}

// userData renders a machine's user-data in the form that its image reads; it holds no secret.
func (c *Cluster) userData(s wanted.Slot) ([]byte, error) {
	u := machine.UserData{Hostname: s.Name, SSHKeys: c.authorizedKeys()}
	if !c.prov.Traits().HostKeysConsole {
		return machine.CloudInit(u)
	}
	u.HostKeysToConsole = true // where Naupegos reads them
	return u.Render(c.doc.Shape(string(s.Role), s.Pool).UserData)
}

// loadTarget finds out which machines there should be, where no verb has observed yet.
func (c *Cluster) loadTarget(ctx context.Context) error {
	c.slotMu.Lock()
	defer c.slotMu.Unlock()
	if c.slots != nil {
		return nil
	}
	inv, err := c.prov.Observe(ctx)
	if err != nil {
		return err
	}
	c.slots, _ = wanted.Assign(c.doc, inv.Machines, c.decided())
	return nil
}

// known returns the machines that there should be, as the last look at the provider had it.
func (c *Cluster) known() []wanted.Slot {
	c.slotMu.Lock()
	defer c.slotMu.Unlock()
	return c.slots
}

// setTarget says which machines there should be. Nobody may change the slice any more.
func (c *Cluster) setTarget(slots []wanted.Slot) {
	c.slotMu.Lock()
	defer c.slotMu.Unlock()
	c.slots = slots
}

// gateways lists the names of the wanted gateways.
func (c *Cluster) gateways() []string { return c.namesOf(provider.Gateway) }

// namesOf lists the wanted machines of a role, in order.
func (c *Cluster) namesOf(r provider.Role) []string {
	var names []string
	for _, s := range c.known() {
		if s.Role == r {
			names = append(names, s.Name)
		}
	}
	return names
}
