package cluster

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/cluster/filter"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/stage"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// look observes everything and asks the provider for the steps to the machines that are wanted. The provider comes first: it
// gives new machines their addresses, which the other machines' configurations name.
func (c *Cluster) look(ctx context.Context, decided wanted.Decisions) (*observe.Observed, []*plan.Step, error) {
	o, err := c.ObserveInventory(ctx, decided)
	if err != nil {
		return nil, nil, err
	}
	if err := c.checkInitial(o); err != nil {
		return nil, nil, err
	}
	if err := c.CheckUnclean(o); err != nil {
		return nil, nil, err
	}
	if err := c.CheckChanges(); err != nil {
		return nil, nil, err
	}
	machines, err := c.infrastructure(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	return o, machines, c.ObserveRest(ctx, o)
}

// addressesPending reports whether a machine joins a running cluster with an address that is known only after its creation. The other machines' configurations
// contain the address, so they can be compared only afterwards. In a new cluster, gateways learn the workers' addresses afterwards, and all machines learn
// the addresses of machines from a stock, which are installed long after each other.
func (c *Cluster) addressesPending(ctx context.Context, o *observe.Observed) bool {
	early := !c.Facts.Bootstrapped() && !c.Prov.Traits().Stock
	return slices.ContainsFunc(o.Want, func(s wanted.Slot) bool {
		if early && (s.Role != provider.Worker || c.Doc.Spec.Endpoint.IngressWanted() == nil) {
			return false
		}
		m, err := c.Prov.Machine(ctx, s.Name)
		return err != nil || m.Address == ""
	})
}

// infrastructure returns the provider's steps for the machines and everything that they need.
func (c *Cluster) infrastructure(ctx context.Context, o *observe.Observed) ([]*plan.Step, error) {
	want, err := c.WantedMachines(o.Want)
	if err != nil {
		return nil, err
	}
	left := *o.Inventory
	left.Machines = slices.DeleteFunc(slices.Clone(left.Machines), func(m provider.Machine) bool { return o.Replaced[m.Name] != nil })
	steps, err := c.Prov.Steps(ctx, want, &left)
	if err != nil {
		return nil, err
	}
	if len(steps) > 0 {
		if err := c.Prov.Preflight(ctx, want); err != nil {
			return nil, err
		}
		if w, ok := c.Prov.(provider.Warner); ok {
			o.Warnings = w.Warnings()
		}
	}
	if k, ok := c.Prov.(provider.Keeper); ok {
		kept, err := k.Kept(ctx, &left)
		if err != nil {
			return nil, err
		}
		o.Warnings = append(o.Warnings, kept...)
	}
	c.recordLocation(steps)
	return steps, nil
}

// recordLocation makes the provider's steps record where the cluster lives before the first of them creates anything.
func (c *Cluster) recordLocation(steps []*plan.Step) {
	h, ok := c.Prov.(provider.Housed)
	if !ok || c.Facts.Get(memory.Home) != "" {
		return
	}
	for _, s := range steps {
		run := s.Run
		s.Run = func(ctx context.Context, p plan.Progress) error {
			home, err := h.Home(ctx)
			if err == nil {
				err = c.Facts.Set(ctx, memory.Home, home)
			}
			if err != nil {
				return err
			}
			return run(ctx, p)
		}
	}
}

// planAdmission adds joining machines to the packet filters of the others before they need it, and keeps leaving machines in them until they are
// removed. The filters' permanent rules are part of each machine's configuration, which is written late on machines that restart servers, and
// early on others.
func (a *applying) planAdmission() {
	var from, to, at []string // names, their addresses, and the machines with filters
	behind := false           // some filter is to become another one
	for _, s := range a.o.Want {
		if !a.Fenced(s.Role) {
			continue
		}
		seen := a.o.Machines[s.Name]
		switch {
		case !a.o.Nodes[s.Name].Ready:
			from = append(from, s.Name)
			if seen != nil {
				to = append(to, seen.Machine.Address)
			}
		case seen != nil && seen.Machine.MayRun():
			at = append(at, s.Name)
		}
		behind = behind || seen != nil && seen.Report != nil && slices.ContainsFunc(seen.Report.Changes, changesFilter)
	}
	for _, m := range a.going() {
		from, to, at = append(from, m.Name), append(to, m.Address), append(at, m.Name)
	}
	if !behind || len(from) == 0 {
		return
	}
	a.add(stage.Admit, &plan.Step{
		ID: "admit", Action: plan.Change, Subject: "cluster", Title: "allow " + strings.Join(from, ", ") + " through the packet filters",
		Reason: "they are being added or removed; the permission expires after a day",
		Run: func(ctx context.Context, _ plan.Progress) error {
			var g errgroup.Group
			for _, name := range at {
				g.Go(func() error {
					return a.LetIn(ctx, name, append([]string{"admit", filter.Table, filter.Visitors}, to...))
				})
			}
			return g.Wait()
		},
	})
}

// going lists the removed nodes' machines that may still run.
func (a *applying) going() []provider.Machine {
	return slices.DeleteFunc(slices.Clone(a.o.Remove), func(m provider.Machine) bool { return m.Role == provider.Gateway || !m.MayRun() })
}

// ConfigureStep configures a machine. A joining machine also admits the leaving machines: its packet filter names only wanted machines, and a leaving machine may
// be the leader of etcd, which a new member needs.
func (a *applying) ConfigureStep(s wanted.Slot, action plan.Action, reason string, seen *observe.Seen) *plan.Step {
	step := a.Cluster.ConfigureStep(s, action, reason, seen)
	going := a.going()
	if len(going) == 0 || !a.Fenced(s.Role) || a.o.Nodes[s.Name].Ready {
		return step
	}
	args := []string{"admit", filter.Table, filter.Visitors}
	for _, m := range going {
		args = append(args, m.Address)
	}
	configure := step.Run
	step.Run = func(ctx context.Context, p plan.Progress) error {
		if err := configure(ctx, p); err != nil {
			return err
		}
		return a.LetIn(ctx, s.Name, args)
	}
	return step
}

func changesFilter(ch machine.Change) bool {
	return ch.Kind == "file" && ch.Name == filter.RulePath && ch.Action == "update"
}

// planForgetWireGuard forgets addresses and keys of removed peers and gateways, once the gateways that are left no longer
// know them.
func (a *applying) planForgetWireGuard() {
	stale := a.WireGuard().Stale()
	if len(stale) == 0 {
		return
	}
	var names []string
	for _, end := range stale {
		names = append(names, end.String())
	}
	a.add(stage.Forget, &plan.Step{
		ID: "wireguard/forget", Action: plan.Change, Subject: "cluster", Title: "forget removed WireGuard peers",
		Reason: "no longer wanted: " + strings.Join(names, ", "),
		Run:    func(ctx context.Context, _ plan.Progress) error { return a.WireGuard().Forget(ctx, stale) },
	})
}
