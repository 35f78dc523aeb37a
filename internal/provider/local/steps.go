package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/address"
)

// Steps returns the steps that make the network, the image and every wanted machine exist and run. It assigns addresses
// to machines that don't exist; Machine and VIP report addresses from then on.
func (p *Provider) Steps(ctx context.Context, want provider.Wanted, seen *provider.Inventory) ([]*plan.Step, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	subnet, err := p.planSubnet()
	if err != nil {
		return nil, err
	}
	if err := p.planAddresses(want, subnet); err != nil {
		return nil, err
	}
	var steps []*plan.Step
	network, err := p.networkPlan(ctx, subnet)
	if err != nil {
		return nil, err
	}
	if network != nil {
		steps = append(steps, network)
	}
	var image *plan.Step
	for _, spec := range want.Machines {
		m, found := find(seen, spec.Name)
		if found && m.State == provider.Running {
			continue
		}
		if (!found || m.State == provider.Partial) && image == nil {
			if image, err = p.imagePlan(); err != nil {
				return nil, err
			}
			if image != nil {
				steps = append(steps, image)
			}
		}
		steps = append(steps, p.machinePlan(spec, m, found))
	}
	return needs(steps), nil
}

// needs makes every machine's step depend on the network and image steps, if the plan has them.
func needs(steps []*plan.Step) []*plan.Step {
	var before []string
	for _, s := range steps {
		if s.ID == networkStep || s.ID == imageStep {
			before = append(before, s.ID)
		}
	}
	for _, s := range steps {
		if !slices.Contains(before, s.ID) {
			s.Needs = before
		}
	}
	return steps
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

// planAddresses assigns every wanted machine without a record its requested address, or else the lowest free one for its role.
func (p *Provider) planAddresses(want provider.Wanted, subnet netip.Prefix) error {
	rs, err := records(p.n.machines())
	if err != nil {
		return err
	}
	taken := map[uint32]bool{}
	have := map[string]bool{}
	for _, r := range rs {
		if addr, err := netip.ParseAddr(r.ip()); err == nil {
			taken[address.Number(subnet, addr)] = true
			have[r.Name] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, r := range p.planned { // machines that this Provider planned before keep their addresses
		if addr, err := netip.ParseAddr(r.ip()); err == nil && !have[name] {
			taken[address.Number(subnet, addr)] = true
			have[name] = true
		}
	}
	for _, spec := range want.Machines {
		if !dnsLabel.MatchString(spec.Name) {
			return fail.New(fail.Invalid, "machine name %q is not a DNS label", spec.Name)
		}
		if have[spec.Name] {
			continue
		}
		host, err := address.Place(spec, subnet, taken)
		if err != nil {
			return err
		}
		p.planned[spec.Name] = p.newRecord(spec, subnet, host)
	}
	return nil
}

func (p *Provider) newRecord(spec provider.MachineSpec, subnet netip.Prefix, host uint32) record {
	return record{
		Cluster: p.n.cluster, Name: spec.Name, Role: spec.Role, Pool: spec.Pool, Index: spec.Index,
		Address: fmt.Sprintf("%s/%d", address.Nth(subnet, host), subnet.Bits()), Gateway: address.Nth(subnet, address.ThisHost).String(),
		Bridge: p.n.bridge(), Link: p.n.link(host),
	}
}

// machinePlan returns the step that gets a machine running from its observed state m.
func (p *Provider) machinePlan(spec provider.MachineSpec, m provider.Machine, found bool) *plan.Step {
	s := &plan.Step{
		ID: provider.MachineStep(spec.Name), Action: plan.Create, Title: "boot machine " + spec.Name, Subject: spec.Name,
		Reason: "it does not exist", Timeout: p.opts.Timeouts.Boot + time.Minute,
		Run: func(ctx context.Context, progress plan.Progress) error { return p.ensureMachine(ctx, spec, progress) },
	}
	if found {
		s.Reason = "it is " + string(m.State)
		if m.Detail != "" {
			s.Reason += ": " + m.Detail
		}
		if m.State != provider.Partial {
			s.Action, s.Title = plan.Change, "start machine "+spec.Name
		}
	}
	if r, err := p.recordOf(spec.Name); err == nil {
		s.Details = []string{"address " + r.ip()}
	}
	return s
}

// recordOf returns a machine's record, or the one planned for it.
func (p *Provider) recordOf(name string) (record, error) {
	if r, err := readRecord(p.n.machine(name)); err == nil && r.Name == name && r.Address != "" {
		return r, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.planned[name]
	if !ok {
		return r, fail.New(fail.Internal, "no address was planned").At(name)
	}
	return r, nil
}

// planAgain plans an address for a machine whose record is missing, and returns its new record.
func (p *Provider) planAgain(spec provider.MachineSpec) (record, error) {
	subnet, err := p.planSubnet()
	if err != nil {
		return record{}, err
	}
	if err := p.planAddresses(provider.Wanted{Machines: []provider.MachineSpec{spec}}, subnet); err != nil {
		return record{}, err
	}
	return p.recordOf(spec.Name)
}

// ensureMachine runs a machine's step: it makes the disk unless it is complete, and starts the machine unless it runs.
func (p *Provider) ensureMachine(ctx context.Context, spec provider.MachineSpec, progress plan.Progress) error {
	r, err := p.recordOf(spec.Name)
	if err != nil { // the record was removed with the machine that this one replaces
		r, err = p.planAgain(spec)
	}
	if err != nil {
		return err
	}
	if _, err := readRecord(p.n.machine(spec.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail.Wrap(fail.Refused, err, "use the machine's record").At(spec.Name).
			Do("its disk may be whole: mend %s, or remove the machine and apply again", recordFile(p.n.machine(spec.Name)))
	}
	if !r.Created {
		if err := p.createMachine(ctx, spec, r, progress); err != nil {
			return err
		}
	}
	progress.Status("starting")
	return p.startMachine(ctx, spec.Name, progress)
}
