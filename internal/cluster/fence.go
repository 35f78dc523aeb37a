package cluster

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/cluster/filter"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

// fenced reports whether machines of a role refuse to strangers what they say to each other. Gateways say nothing that is not for others, too.
func (c *Cluster) fenced(r provider.Role) bool {
	return r != provider.Gateway && c.doc.Spec.Security.PacketFilterWanted()
}

// fence is a machine's packet filter, where it has one.
func (c *Cluster) fence(ctx context.Context, s wanted.Slot) (machine.Config, error) {
	if !c.fenced(s.Role) {
		return machine.Config{Machine: s.Name}, nil
	}
	p := filter.Params{
		Machine: s.Name, ControlPlane: s.IsControlPlane(), VXLAN: c.doc.Spec.Kubernetes.CNI == layout.CNIFlannel,
		Pods: c.doc.Spec.Kubernetes.PodCIDR, Admit: c.doc.Spec.Security.PacketFilter.Admit,
	}
	machines, err := c.addresses(ctx)
	if err != nil {
		return machine.Config{}, err
	}
	for _, m := range machines {
		p.Machines = append(p.Machines, m.Address)
	}
	return filter.Config(p)
}

// planAdmission lets machines that come through the packet filters of the others before they need it, and those that go until they have gone:
// the rules that name who is wanted are written late on some machines, for that restarts what others depend on, and early on others.
func (a *applying) planAdmission() {
	var from, to, at []string // names, their addresses, and who has filters
	behind := false           // some filter is to become another one
	for _, s := range a.o.Want {
		if !a.fenced(s.Role) {
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
	for _, m := range a.o.Remove {
		if m.Role != provider.Gateway && m.MayRun() {
			from, to, at = append(from, m.Name), append(to, m.Address), append(at, m.Name)
		}
	}
	if !behind || len(from) == 0 {
		return
	}
	a.add(stageAdmit, &plan.Step{
		ID: "admit", Action: plan.Change, Subject: "cluster", Title: "let " + strings.Join(from, ", ") + " through the packet filters",
		Reason: "machines that come or go, for a day",
		Run: func(ctx context.Context, _ plan.Progress) error {
			var g errgroup.Group
			for _, name := range at {
				g.Go(func() error {
					return a.letIn(ctx, name, append([]string{"admit", filter.Table, filter.Visitors}, to...))
				})
			}
			return g.Wait()
		},
	})
}

func changesFilter(ch machine.Change) bool {
	return ch.Kind == "file" && ch.Name == filter.RulePath && ch.Action == "update"
}

// letIn has a machine's agent let others in. One that does not answer now is configured later, or says then why not.
func (c *Cluster) letIn(ctx context.Context, name string, args []string) error {
	h, err := c.Host(ctx, name)
	if err == nil {
		_, err = c.dialer.Agent(ctx, h, nil, args...)
	}
	if fail.KindOf(err) == fail.Unreachable {
		return nil
	}
	return err
}
