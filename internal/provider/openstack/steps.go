package openstack

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/balancer"
	"github.com/naupegos/naupegos/internal/provider/openstack/volume"
)

// Steps returns the steps that create the network, the security groups and every wanted machine, and bring the machines up; none if nothing is
// to do. It uses the last observation.
func (p *Provider) Steps(ctx context.Context, want provider.Wanted, seen *provider.Inventory) ([]*plan.Step, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeouts.Step)
	defer cancel()
	for _, m := range want.Machines {
		if _, err := encodeUserData(m); err != nil {
			return nil, err
		}
	}
	if err := p.checkLasting(ctx); err != nil {
		return nil, err
	}
	if err := p.floating.LookForFormer(ctx); err != nil {
		return nil, err
	}
	if err := findSite(ctx, p); err != nil {
		return nil, err
	}
	steps, err := p.networkPlans()
	if err != nil {
		return nil, err
	}
	cidr := p.spec().Network.CIDR
	if p.spec().Network.Existing != "" {
		sub, err := p.existing.Subnet(ctx)
		if err != nil {
			return nil, err
		}
		cidr = sub.CIDR
	}
	machines, fresh := p.machineSteps(want, seen)
	steps = append(steps, p.groupsPlan(cidr))
	if len(fresh) > 0 {
		if err := p.known.serverGroups.Fresh(ctx); err != nil {
			return nil, err
		}
		steps = append(steps, p.serverGroupsPlan(want.Machines, fresh), p.keypairPlan(), p.volumes.Plan(fresh))
	}
	steps = append(steps, p.vipSteps(want)...)
	ports, portsOf := p.portsPlans(want)
	steps = append(steps, ports...)
	front := []string{vipStep, provider.MachineStep(balancer.First(want))}
	for _, s := range p.balancer.Steps(want) {
		front = append(front, s.ID)
		s.Needs = append(s.Needs, networkStep, routerStep, portsOf[balancer.First(want)])
		steps = append(steps, s)
	}
	for _, m := range machines {
		m.Needs = append(m.Needs, portsOf[m.Subject])
	}
	steps = append(steps, machines...)
	front = slices.DeleteFunc(front, func(id string) bool {
		return !slices.ContainsFunc(steps, func(s *plan.Step) bool { return s != nil && s.ID == id })
	})
	record, err := p.dns.Step(ctx, front...)
	if err != nil {
		return nil, err
	}
	steps = append(steps, p.volumes.SurplusPlan(want), last(labelsPlan(p), steps), record)
	return order(slices.DeleteFunc(steps, func(s *plan.Step) bool { return s == nil })), nil
}

// last lets a step wait for all others; nil stays nil.
func last(s *plan.Step, others []*plan.Step) *plan.Step {
	if s == nil {
		return nil
	}
	for _, o := range others {
		if o != nil {
			s.Needs = append(s.Needs, o.ID)
		}
	}
	return s
}

// Balance returns the step that updates the load balancer to the current machines; none if it is up to date.
func (p *Provider) Balance(want provider.Wanted, _ *provider.Inventory) []*plan.Step {
	return p.balancer.Balance(want)
}

// machineSteps returns the steps of machines that differ from the wanted state, and the machines to be created.
func (p *Provider) machineSteps(want provider.Wanted, seen *provider.Inventory) (steps []*plan.Step, fresh []provider.MachineSpec) {
	for _, spec := range want.Machines {
		m, found := find(seen, spec.Name)
		if found && m.State == provider.Running && len(p.incomplete(spec)) == 0 {
			continue
		}
		if !found || m.State == provider.Partial {
			fresh = append(fresh, spec)
		}
		steps = append(steps, p.machinePlan(spec, m, found))
	}
	return steps, fresh
}

func find(seen *provider.Inventory, name string) (provider.Machine, bool) {
	if seen != nil {
		for _, m := range seen.Machines {
			if m.Name == name {
				return m, true
			}
		}
	}
	return provider.Machine{}, false
}

// beforeMachine lists the steps that every machine waits for, besides its port. The router is needed only once the machine has booted, except
// for a machine with a floating IP (machinePlan).
var beforeMachine = []string{serverGroupsStep, keypairStep, volume.Step}

// order adds the needs of the machines' steps, and removes needs for steps outside the plan.
func order(steps []*plan.Step) []*plan.Step {
	in := map[string]bool{}
	for _, s := range steps {
		in[s.ID] = true
	}
	for _, s := range steps {
		if s.ID == provider.MachineStep(s.Subject) {
			s.Needs = append(s.Needs, beforeMachine...)
		}
		s.Needs = slices.DeleteFunc(s.Needs, func(id string) bool { return !in[id] })
		slices.Sort(s.Needs)
		s.Needs = slices.Compact(s.Needs)
	}
	return steps
}
