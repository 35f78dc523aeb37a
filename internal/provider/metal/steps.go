package metal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/bmc"
)

// claimStep is the ID of the step that takes either all missing machines at once or none: a control plane must not start with fewer
// machines than its odd number.
const claimStep = "claim"

// Steps returns the steps that take machines for vacant seats, install machines, and switch machines on.
func (p *Provider) Steps(ctx context.Context, want provider.Wanted, seen *provider.Inventory) ([]*plan.Step, error) {
	var missing []provider.MachineSpec
	var steps []*plan.Step
	for _, spec := range want.Machines {
		i := slices.IndexFunc(seen.Machines, func(m provider.Machine) bool { return m.Name == spec.Name })
		if i < 0 {
			missing = append(missing, spec)
			continue
		}
		if s := p.mendStep(spec, seen.Machines[i]); s != nil {
			steps = append(steps, s)
		}
	}
	if len(missing) == 0 {
		return steps, nil
	}
	seats := p.seats(missing)
	given, err := p.claim(ctx, seats, true)
	if err != nil && fail.KindOf(err) != fail.Refused { // Preflight reports what is missing
		return nil, err
	}
	all := &plan.Step{
		ID: claimStep, Action: plan.Create, Subject: "cluster", Title: "take " + machines(len(missing)) + " from the stock",
		Reason: "either all missing machines are taken, or none",
		Run: func(ctx context.Context, progress plan.Progress) error {
			progress.Status("taking %s", machines(len(missing)))
			if err := ctx.Err(); err != nil {
				return fail.Wrap(fail.KindOf(err), err, "take machines for cluster %s", p.cluster())
			}
			_, err := p.claim(ctx, seats, false)
			return err
		},
	}
	for _, spec := range missing {
		s := p.installStep(spec, "it does not exist")
		s.Needs = []string{claimStep}
		for _, g := range given {
			if p.isSeat(g, spec) {
				s.Details = append([]string{"machine " + title(g)}, s.Details...)
				all.Details = append(all.Details, title(g)+" as "+spec.Name)
			}
		}
		steps = append(steps, s)
	}
	return append([]*plan.Step{all}, steps...), nil
}

func machines(n int) string {
	if n == 1 {
		return "1 machine"
	}
	return fmt.Sprintf("%d machines", n)
}

func (p *Provider) isSeat(g registry.Given, s provider.MachineSpec) bool {
	return g.Pool == v1alpha1.MetalPoolName(string(s.Role), s.Pool) && g.Seat == s.Index
}

func title(g registry.Given) string {
	if g.Domain == "" {
		return g.Machine
	}
	return g.Machine + " (" + g.Domain + ")"
}

// mendStep returns the step that makes a machine in its seat usable; nil if it already is, or if no step can help.
func (p *Provider) mendStep(spec provider.MachineSpec, m provider.Machine) *plan.Step {
	switch m.State {
	case provider.Partial, provider.Failed:
		return p.installStep(spec, m.Detail)
	case provider.Stopped:
		return &plan.Step{
			ID: provider.MachineStep(spec.Name), Action: plan.Change, Subject: spec.Name, Title: "power on " + spec.Name, Reason: "it is powered off",
			Timeout: p.o.Document.Spec.Timeouts.MachineBoot.Duration,
			Run: func(ctx context.Context, progress plan.Progress) error {
				return p.bring(ctx, spec, progress)
			},
		}
	}
	return nil
}

// installStep returns the step that takes a machine for a seat, if the seat is vacant, and installs it.
func (p *Provider) installStep(spec provider.MachineSpec, reason string) *plan.Step {
	pool := p.spec().Pool(string(spec.Role), spec.Pool)
	s := &plan.Step{
		ID: provider.MachineStep(spec.Name), Action: plan.Create, Subject: spec.Name, Title: "install " + spec.Name, Reason: reason,
		Timeout: p.spec().InstallTimeout.Duration,
		Run:     func(ctx context.Context, progress plan.Progress) error { return p.bring(ctx, spec, progress) },
	}
	disk := fmt.Sprintf("on the smallest disk of at least %d GiB without foreign data", pool.Disk.MinGiB)
	if pool.Disk.Serial != "" {
		disk = "on the disk " + pool.Disk.Serial
	}
	s.Details = append(s.Details, disk)
	if len(pool.Disk.Overwrite) > 0 {
		s.Details = append(s.Details, "disks that may be overwritten although they hold data: "+strings.Join(pool.Disk.Overwrite, ", "))
	}
	return s
}

// DestroyMachine returns the step that powers a machine off, if it has a BMC, and returns it to the stock. The machine's agent cleans it before.
func (p *Provider) DestroyMachine(m provider.Machine) *plan.Step { return p.giveBackStep(m, false) }

// ReinstallMachine implements provider.Reinstaller: its step returns a machine to the stock, so that it is reinstalled for the same seat.
func (p *Provider) ReinstallMachine(m provider.Machine) *plan.Step {
	s := p.giveBackStep(m, true)
	s.Details = append(s.Details, "the same machine is reinstalled and takes its place again, unless it can't be used any more")
	return s
}

func (p *Provider) giveBackStep(m provider.Machine, again bool) *plan.Step {
	s := &plan.Step{
		ID: provider.DestroyStep(m.Name), Action: plan.Destroy, Subject: m.Name, Title: "return " + m.Name + " to the stock",
		Reason: "it is no longer part of the cluster",
		Run: func(ctx context.Context, progress plan.Progress) error {
			return p.giveBack(ctx, m.Name, again, progress)
		},
	}
	if m.State == provider.Unreachable { // only machines that can't be switched off are
		s.Consent = provider.ConsentLeave
		s.Details = []string{"it does not answer and can't be powered off from here: if it comes back, it runs what is on its disk"}
	}
	return s
}

// Destroy returns the steps that return all machines to the stock.
func (p *Provider) Destroy(_ context.Context, seen *provider.Inventory) []*plan.Step {
	var steps []*plan.Step
	for _, m := range seen.Machines {
		steps = append(steps, p.DestroyMachine(m))
	}
	return steps
}

func (p *Provider) giveBack(ctx context.Context, name string, again bool, progress plan.Progress) error {
	progress.Status("returning it to the stock")
	if err := ctx.Err(); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "give %s back", name)
	}
	m, err := p.holder(ctx, name)
	if fail.KindOf(err) == fail.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if m.Record.BMC != nil {
		progress.Status("powering it off")
		if _, err := p.o.Registry.SwitchPower(ctx, m.UUID, "off", bmc.AsUsual, "cluster "+p.cluster()); err != nil && fail.KindOf(err) != fail.Unreachable && fail.KindOf(err) != fail.Unauthorized {
			return err
		}
	}
	p.mu.Lock()
	delete(p.found, name)
	p.mu.Unlock()
	return p.o.Registry.GiveBack(ctx, m.UUID, p.cluster(), "cluster "+p.cluster(), again)
}
