package balancer

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

// Steps returns the step that creates the load balancer with the API's front, and one control-plane machine as its first member, or repairs the
// existing one; none if that has no defects. The step needs the network and its way out.
func (k *Keeper) Steps(want provider.Wanted) []*plan.Step {
	if k.opts.Octavia == nil {
		return nil
	}
	b := k.Seen()
	s := &plan.Step{
		ID: balancerStep, Action: plan.Create, Title: "create load balancer " + k.opts.Names.Name(FrontAPI), Subject: "cluster", Reason: "it does not exist",
		Timeout: 2*k.opts.Timeouts.Boot + k.opts.Timeouts.Step,
		Run:     func(ctx context.Context, progress plan.Progress) error { return k.ensure(ctx, want, progress) },
	}
	if b == nil {
		s.Details = []string{fmt.Sprintf("port %d to %s, to the others once the API answers", k.opts.Port, First(want))}
		return []*plan.Step{s}
	}
	s.Action, s.Title = plan.Change, "repair load balancer "+b.LB.Name
	if s.Details = k.defects(b, want); len(s.Details) == 0 {
		return nil
	}
	s.Reason = "it differs from the document"
	k.opts.Floating.AskConsent(s, b.LB.VipPortID)
	return []*plan.Step{s}
}

// defects lists the defects of the load balancer that the step of Steps corrects. Balance handles the other members and ports.
func (k *Keeper) defects(b *State, want provider.Wanted) []string {
	var out []string
	if b.LB.ProvisioningStatus != Active {
		out = append(out, "it is "+b.LB.ProvisioningStatus)
	}
	if len(b.Surplus) > 0 {
		out = append(out, "there is a second one, left by an interrupted request")
	}
	api, f := k.apiFront(b)
	out = append(out, api.settings(f)...)
	if f.Pool.ID != "" && !k.served(f, want) {
		out = append(out, "no wanted control-plane machine is in its pool")
	}
	if lack := k.opts.Floating.Lack(b.LB.VipPortID); lack != "" {
		out = append(out, lack)
	}
	return out
}

// apiFront returns the API's front in the wanted and in the seen state.
func (k *Keeper) apiFront(b *State) (frontWant, Front) {
	f := b.Front(k.opts.Names.Name(FrontAPI))
	w := k.wantedFronts(k.opts.CIDR())[0]
	if k.opts.CIDR() == "" && len(w.allowed) > 0 && within(w.allowed, f.Listener.AllowedCIDRs) {
		w.allowed = sorted(f.Listener.AllowedCIDRs) // the one more may be the CIDR of an existing network, which was not looked up yet
	}
	return w, f
}

// within reports whether seen holds all known networks of want and at most one more, in place of the unknown one, which is empty in want.
func within(want, seen []string) bool {
	for _, w := range want {
		if w != "" && !slices.Contains(seen, w) {
			return false
		}
	}
	return len(seen) <= len(want)
}

// served reports whether a wanted control-plane machine is in the API's pool.
func (k *Keeper) served(f Front, want provider.Wanted) bool {
	for _, m := range f.Members {
		for _, s := range want.Machines {
			if s.Role != provider.ControlPlane || s.Name != m.Name {
				continue
			}
			if now, err := k.opts.Machine(context.Background(), s.Name); err == nil && now.Address == m.Address {
				return true
			}
		}
	}
	return false
}

// ensure creates or corrects the load balancer.
func (k *Keeper) ensure(ctx context.Context, want provider.Wanted, progress plan.Progress) error {
	c, err := k.needed(ctx)
	if err != nil {
		return err
	}
	k.changing.Lock()
	defer k.changing.Unlock()
	err = k.makeOrAdopt(ctx, c, want, progress)
	if errors.Is(err, errBroken) {
		if err = k.deleteBroken(ctx, c, progress); err == nil {
			err = k.makeOrAdopt(ctx, c, want, progress)
		}
	}
	if err != nil {
		return err
	}
	return k.ensureFloating(ctx, progress)
}

// ensureFloating ensures that the load balancer's address has a floating IP, or none if it is internal.
func (k *Keeper) ensureFloating(ctx context.Context, progress plan.Progress) error {
	b := k.Seen()
	if b == nil {
		return fail.New(fail.NotReady, "the load balancer does not exist").At(k.opts.Names.Name(FrontAPI))
	}
	if !k.opts.Octavia.Internal {
		progress.Status("floating IP for %s", b.LB.VipAddress)
	}
	return k.opts.Floating.Ensure(ctx, b.LB.VipPortID)
}

// makeOrAdopt creates the load balancer or adopts the existing one, and creates or corrects its API front, part by part. Octavia can create a
// whole load balancer in one call, but OpenStack Zed was seen to leave the parts in PENDING_CREATE forever, every time, while the load
// balancer became ACTIVE; such a load balancer accepts no further change. Before 2024.1 Octavia also refuses such a call with allowed CIDRs
// (bug 2057751).
func (k *Keeper) makeOrAdopt(ctx context.Context, c *gophercloud.ServiceClient, want provider.Wanted, progress plan.Progress) error {
	subnet, err := k.opts.Subnet(ctx)
	if err != nil {
		return err
	}
	first, err := k.first(ctx, want)
	if err != nil {
		return err
	}
	b, err := k.look(ctx, c)
	if err != nil {
		return err
	}
	if b == nil {
		if b, err = k.create(ctx, c, subnet.ID, progress); err != nil {
			return err
		}
	}
	if err := k.checkDefaultProvider(b); err != nil {
		return err
	}
	for _, id := range b.Surplus {
		if err := k.remove(ctx, c, id, progress); err != nil {
			return err
		}
	}
	if err := k.settle(ctx, c, b.LB.ID, "wait for load balancer "+b.LB.Name, progress); err != nil {
		return err
	}
	api := k.wantedFronts(subnet.CIDR)[0]
	f := b.Front(api.name)
	members := f.machines()
	if !k.served(f, want) {
		members = sortMembers(append(members, first...))
	}
	if err := k.ensureFront(ctx, c, b, api, members, progress); err != nil {
		return err
	}
	_, err = k.look(ctx, c)
	return err
}

// first returns the first member, a control-plane machine. It returns fail.NotReady before its address is known.
func (k *Keeper) first(ctx context.Context, want provider.Wanted) ([]member, error) {
	name := First(want)
	m, err := k.opts.Machine(ctx, name)
	if err != nil {
		return nil, err
	}
	if m.Address == "" {
		return nil, fail.New(fail.NotReady, "its address is not known yet").At(name)
	}
	return []member{{name: name, address: m.Address, port: k.wantedFronts("")[0].to}}, nil
}

// create requests an empty load balancer. It carries its tag from the start, so that the next attempt finds it if the answer is lost.
func (k *Keeper) create(ctx context.Context, c *gophercloud.ServiceClient, subnetID string, progress plan.Progress) (*State, error) {
	opts := loadbalancers.CreateOpts{
		Name: k.opts.Names.Name(FrontAPI), Description: k.opts.Names.Mark(), VipSubnetID: subnetID, VipAddress: k.lost, Tags: k.opts.Names.RoleTags(FrontAPI),
		AvailabilityZone: k.opts.Octavia.Zone, Provider: k.opts.Octavia.Provider,
	}
	var err error
	if opts.FlavorID, err = k.flavor(ctx, c); err != nil {
		return nil, err
	}
	progress.Status("requesting the load balancer")
	lb, err := loadbalancers.Create(ctx, c, opts).Extract()
	if err != nil {
		return nil, cloud.Wrap(err, "make load balancer %s", opts.Name)
	}
	b := &State{LB: *lb, Fronts: map[string]Front{}, Ports: map[int]string{}}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen = b
	return b, nil
}

func (k *Keeper) listenerOpts(w frontWant) listeners.CreateOpts {
	idle := w.idle
	return listeners.CreateOpts{
		Name: w.name, Protocol: listeners.ProtocolTCP, ProtocolPort: w.port, AllowedCIDRs: w.allowed,
		TimeoutClientData: &idle, TimeoutMemberData: &idle, Tags: []string{k.opts.Names.Mark()},
	}
}

func (k *Keeper) poolOpts(w frontWant) pools.CreateOpts {
	return pools.CreateOpts{Name: w.name, Protocol: pools.ProtocolTCP, LBMethod: w.spread, Tags: []string{k.opts.Names.Mark()}}
}

func (k *Keeper) monitorOpts(w frontWant) monitors.CreateOpts {
	return monitors.CreateOpts{
		Name: w.name, Type: w.monitor, Delay: monitorDelay, Timeout: monitorTimeout, MaxRetries: monitorTries, MaxRetriesDown: monitorTries,
		Tags: []string{k.opts.Names.Mark()},
	}
}

// Others lists the existing load balancers for display.
func (b *State) Others() []string {
	if b == nil {
		return nil
	}
	out := []string{"load balancer " + b.LB.Name + " (" + strings.ToLower(b.LB.ProvisioningStatus) + ", " + b.LB.VipAddress + ")"}
	for _, id := range b.Surplus {
		out = append(out, "load balancer "+id)
	}
	return out
}
