package openstack

import (
	"context"
	"slices"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
)

const balanceStep = "balance/loadbalancer"

// Balance returns the step that has the load balancer follow the machines: every control-plane machine behind the API, every worker
// behind the ingress ports, and those ports as the document wants them. None where that is so. One step, for Octavia takes
// one change at a time.
func (p *Provider) Balance(want provider.Wanted, _ *provider.Inventory) []*plan.Step {
	if p.octavia() == nil {
		return nil
	}
	s := &plan.Step{
		ID: balanceStep, Action: plan.Change, Title: "have the load balancer follow the machines", Subject: "cluster",
		Timeout: 2*p.opts.Timeouts.Boot + p.opts.Timeouts.Step,
		Run:     func(ctx context.Context, progress plan.Progress) error { return p.follow(ctx, want, progress) },
	}
	for _, made := range p.balancerSteps(want) { // in the same plan, by Steps
		s.Needs = append(s.Needs, made.ID)
	}
	b := p.seenBalancer()
	if b == nil {
		s.Reason = "it begins with one control-plane machine"
		return []*plan.Step{s}
	}
	if s.Details = p.unbalanced(b, want); len(s.Details) == 0 {
		return nil
	}
	s.Reason = "its members or ports are not as wanted"
	return []*plan.Step{s}
}

// unbalanced reports what differs between the load balancer and the machines that are wanted.
func (p *Provider) unbalanced(b *balancer, want provider.Wanted) []string {
	var out []string
	for i, w := range p.wantedFronts(p.cidr()) {
		f := b.front(w.name)
		if i > 0 { // of the API's own front, all else is balancerSteps' business
			out = append(out, w.settings(f)...)
		}
		have, known := f.machines(), p.wantedMembers(context.Background(), w, want)
		out = append(out, changes(have, known)...)
		for _, s := range want.Machines {
			unknown := func(ms []member) bool {
				return !slices.ContainsFunc(ms, func(m member) bool { return m.name == s.Name })
			}
			if s.Role == w.role && unknown(known) {
				out = append(out, "add "+s.Name)
			}
		}
	}
	for _, name := range p.unwanted(b) {
		out = append(out, "remove "+name)
	}
	return out
}

// unwanted lists the fronts of ours that the document no longer wants.
func (p *Provider) unwanted(b *balancer) []string {
	var out []string
	fronts := p.wantedFronts("")
	for _, name := range p.frontNames() {
		f := b.front(name)
		if (f.listener.ID != "" || f.pool.ID != "") && !slices.ContainsFunc(fronts, func(w frontWant) bool { return w.name == name }) {
			out = append(out, name)
		}
	}
	return out
}

// follow makes what Balance promises.
func (p *Provider) follow(ctx context.Context, want provider.Wanted, progress plan.Progress) error {
	c, err := p.neededBalancing(ctx)
	if err != nil {
		return err
	}
	p.fronts.mu.Lock()
	defer p.fronts.mu.Unlock()
	subnet, err := p.subnet(ctx)
	if err != nil {
		return err
	}
	b, err := p.lookAtBalancer(ctx, c)
	if err != nil {
		return err
	}
	if b == nil {
		return fail.New(fail.NotReady, "the load balancer does not exist").At(p.n.Name(frontAPI)).Do("apply again")
	}
	for _, w := range p.wantedFronts(subnet.CIDR) {
		members := p.wantedMembers(ctx, w, want)
		if n := machinesOf(want, w.role); len(members) < n {
			return fail.New(fail.NotReady, "the addresses of %d of %d machines are not known yet", n-len(members), n).At(w.name)
		}
		if err := p.ensureFront(ctx, c, b, w, members, progress); err != nil {
			return err
		}
	}
	for _, name := range p.unwanted(b) {
		if err := (fronting{p, c, b, progress}).remove(ctx, name, b.front(name)); err != nil {
			return err
		}
	}
	_, err = p.lookAtBalancer(ctx, c)
	return err
}

func machinesOf(want provider.Wanted, role provider.Role) int {
	n := 0
	for _, s := range want.Machines {
		if s.Role == role {
			n++
		}
	}
	return n
}
