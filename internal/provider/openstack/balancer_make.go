package openstack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

const balancerStep = "loadbalancer"

// balancerSteps returns the step that makes the load balancer with the API's front, beginning with one control-plane machine as its only member; none
// where it is there.
func (p *Provider) balancerSteps(want provider.Wanted) []*plan.Step {
	if p.octavia() == nil {
		return nil
	}
	b := p.seenBalancer()
	s := &plan.Step{
		ID: balancerStep, Action: plan.Create, Title: "make load balancer " + p.n.Name(frontAPI), Subject: "cluster", Reason: "it does not exist",
		Needs: []string{networkStep, routerStep}, Timeout: 2*p.opts.Timeouts.Boot + p.opts.Timeouts.Step,
		Run: func(ctx context.Context, progress plan.Progress) error { return p.ensureBalancer(ctx, want, progress) },
	}
	if b == nil {
		s.Details = []string{fmt.Sprintf("port %d to %s, to the others once the API answers", p.opts.Cluster.Spec.Endpoint.Port, p.firstMember(want))}
		return []*plan.Step{s}
	}
	s.Action, s.Title = plan.Change, "mend load balancer "+b.lb.Name
	if s.Details = p.defects(b, want); len(s.Details) == 0 {
		return nil
	}
	s.Reason = "it is not as wanted"
	p.askForAddress(s, b.lb.VipPortID)
	return []*plan.Step{s}
}

// defects reports what of the load balancer a balancerSteps' step would mend. That it has all members is Balance's business, and so
// are its other ports.
func (p *Provider) defects(b *balancer, want provider.Wanted) []string {
	var out []string
	if b.lb.ProvisioningStatus != lbActive {
		out = append(out, "it is "+b.lb.ProvisioningStatus)
	}
	if len(b.surplus) > 0 {
		out = append(out, "there is a second one, left by a call that was cut off")
	}
	api, f := p.apiFront(b)
	out = append(out, api.settings(f)...)
	if f.pool.ID != "" && !p.served(f, want) {
		out = append(out, "no wanted control-plane machine is in its pool")
	}
	switch internal := p.octavia().Internal; {
	case internal && (p.hasFloatingIP(b.lb.VipPortID) || len(p.former) > 0):
		out = append(out, "its floating IP is no longer wanted")
	case !internal && p.frontIPLack(b.lb.VipPortID) != "":
		out = append(out, p.frontIPLack(b.lb.VipPortID))
	}
	return out
}

// apiFront returns the API's front as it is wanted and as it was seen.
func (p *Provider) apiFront(b *balancer) (frontWant, front) {
	f := b.front(p.n.Name(frontAPI))
	w := p.wantedFronts(p.cidr())[0]
	if p.cidr() == "" && len(w.allowed) > 0 && within(w.allowed, f.listener.AllowedCIDRs) {
		w.allowed = sorted(f.listener.AllowedCIDRs) // an existing network's, which nobody has asked for
	}
	return w, f
}

// within reports whether the seen networks are the wanted ones and at most one more. The first wanted one is not known.
func within(want, seen []string) bool {
	for _, w := range want {
		if w != "" && !slices.Contains(seen, w) {
			return false
		}
	}
	return len(seen) <= len(want)
}

// served reports whether a wanted control-plane machine is in the API's pool.
func (p *Provider) served(f front, want provider.Wanted) bool {
	for _, m := range f.members {
		for _, s := range want.Machines {
			if s.Role != provider.ControlPlane || s.Name != m.Name {
				continue
			}
			if now, err := p.Machine(context.Background(), s.Name); err == nil && now.Address == m.Address {
				return true
			}
		}
	}
	return false
}

// ensureBalancer makes the load balancer, or mends it.
func (p *Provider) ensureBalancer(ctx context.Context, want provider.Wanted, progress plan.Progress) error {
	c, err := p.neededBalancing(ctx)
	if err != nil {
		return err
	}
	p.fronts.mu.Lock()
	defer p.fronts.mu.Unlock()
	err = p.makeBalancer(ctx, c, want, progress)
	if errors.Is(err, errBroken) {
		if err = p.deleteBroken(ctx, c, progress); err == nil {
			err = p.makeBalancer(ctx, c, want, progress)
		}
	}
	if err != nil {
		return err
	}
	return p.ensureBalancerIP(ctx, progress)
}

// makeBalancer makes the load balancer, or adopts the one that is there, and makes or mends its API front. Its parts are made one after
// the other. Octavia can make a whole one by a single call, but that of OpenStack Zed was seen, each time, to leave the parts
// PENDING_CREATE for ever while the load balancer gets ACTIVE, and such a one takes no change any more; and before 2024.1 such a call
// is refused where it has allowed networks (bug 2057751).
func (p *Provider) makeBalancer(ctx context.Context, c *gophercloud.ServiceClient, want provider.Wanted, progress plan.Progress) error {
	subnet, err := p.subnet(ctx)
	if err != nil {
		return err
	}
	first, err := p.first(ctx, want)
	if err != nil {
		return err
	}
	b, err := p.lookAtBalancer(ctx, c)
	if err != nil {
		return err
	}
	if b == nil {
		if b, err = p.createBalancer(ctx, c, subnet.ID, progress); err != nil {
			return err
		}
	}
	if err := p.checkDefaultProvider(b); err != nil {
		return err
	}
	for _, id := range b.surplus {
		if err := p.deleteBalancer(ctx, c, id, progress); err != nil {
			return err
		}
	}
	if err := p.settle(ctx, c, b.lb.ID, "wait for load balancer "+b.lb.Name, progress); err != nil {
		return err
	}
	api := p.wantedFronts(subnet.CIDR)[0]
	f := b.front(api.name)
	members := f.machines()
	if !p.served(f, want) {
		members = sortMembers(append(members, first...))
	}
	if err := p.ensureFront(ctx, c, b, api, members, progress); err != nil {
		return err
	}
	_, err = p.lookAtBalancer(ctx, c)
	return err
}

// first returns the control-plane machine that the load balancer begins with. fail.NotReady where its address is not known yet.
func (p *Provider) first(ctx context.Context, want provider.Wanted) ([]member, error) {
	name := p.firstMember(want)
	m, err := p.Machine(ctx, name)
	if err != nil {
		return nil, err
	}
	if m.Address == "" {
		return nil, fail.New(fail.NotReady, "its address is not known yet").At(name)
	}
	return []member{{name: name, address: m.Address, port: p.wantedFronts("")[0].to}}, nil
}

// createBalancer asks for an empty load balancer. It carries its tag from the start: where the answer never comes, the next attempt finds it.
func (p *Provider) createBalancer(ctx context.Context, c *gophercloud.ServiceClient, subnetID string, progress plan.Progress) (*balancer, error) {
	opts := loadbalancers.CreateOpts{
		Name: p.n.Name(frontAPI), Description: p.n.Mark(), VipSubnetID: subnetID, VipAddress: p.fronts.lost, Tags: p.n.RoleTags(frontAPI),
		AvailabilityZone: p.octavia().Zone, Provider: p.octavia().Provider,
	}
	var err error
	if opts.FlavorID, err = p.balancerFlavor(ctx, c); err != nil {
		return nil, err
	}
	progress.Status("asking for it")
	lb, err := loadbalancers.Create(ctx, c, opts).Extract()
	if err != nil {
		return nil, cloud.Wrap(err, "make load balancer %s", opts.Name)
	}
	b := &balancer{lb: *lb, fronts: map[string]front{}, ports: map[int]string{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.balancer = b
	return b, nil
}

func (p *Provider) listenerOpts(w frontWant) listeners.CreateOpts {
	idle := w.idle
	return listeners.CreateOpts{
		Name: w.name, Protocol: listeners.ProtocolTCP, ProtocolPort: w.port, AllowedCIDRs: w.allowed,
		TimeoutClientData: &idle, TimeoutMemberData: &idle, Tags: []string{p.n.Mark()},
	}
}

func (p *Provider) poolOpts(w frontWant) pools.CreateOpts {
	return pools.CreateOpts{Name: w.name, Protocol: pools.ProtocolTCP, LBMethod: w.spread, Tags: []string{p.n.Mark()}}
}

func (p *Provider) monitorOpts(w frontWant) monitors.CreateOpts {
	return monitors.CreateOpts{
		Name: w.name, Type: w.monitor, Delay: monitorDelay, Timeout: monitorTimeout, MaxRetries: monitorTries, MaxRetriesDown: monitorTries,
		Tags: []string{p.n.Mark()},
	}
}

// others reports what exists, for people.
func (b *balancer) others() []string {
	if b == nil {
		return nil
	}
	out := []string{"load balancer " + b.lb.Name + " (" + strings.ToLower(b.lb.ProvisioningStatus) + ", " + b.lb.VipAddress + ")"}
	for _, id := range b.surplus {
		out = append(out, "load balancer "+id)
	}
	return out
}
