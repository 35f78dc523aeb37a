package metal

import (
	"context"
	"fmt"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/registry/order"
)

var _ provider.Renewer = (*Provider)(nil)

// Outdated implements provider.Renewer. Machines in pools whose strategy restarts no machine keep their system.
func (p *Provider) Outdated(ctx context.Context) (map[string]provider.Newer, error) {
	system, err := p.o.System(ctx)
	if fail.KindOf(err) == fail.Refused {
		return nil, nil // without a system image nothing is newer
	}
	if err != nil {
		return nil, err
	}
	all, err := p.claimed(ctx)
	if err != nil {
		return nil, err
	}
	newer := map[string]provider.Newer{}
	for i := range all {
		m := &all[i]
		now := p.convert(m)
		if now.State != provider.Running || !restarts(p.pool(now).Strategy) {
			continue
		}
		why := ""
		switch has := m.Record.Order; {
		case m.Report.Digest != m.Record.Wanted:
			why = "it does not run the system that was ordered"
		case has.System.ID != system.ID:
			why = fmt.Sprintf("it has system %s, and %s is available", short(has.System.ID), short(system.ID))
		default:
			continue
		}
		o, err := p.renewal(ctx, m, specOf(now))
		if err != nil {
			return nil, err
		}
		n := provider.Newer{Why: why, Within: p.spec().InstallTimeout.Duration + order.UsualTrial}
		if o.Digest() == m.Record.Refused {
			n.Never = wentBack(now.Name, system)
		}
		newer[now.Name] = n
	}
	return newer, nil
}

// renewal returns the order for an installed machine: the new system is written to its present disk, whatever the document now says about disks.
func (p *Provider) renewal(ctx context.Context, m *registry.Machine, spec provider.MachineSpec) (*order.Order, error) {
	o, err := p.order(ctx, m, spec)
	if err == nil {
		o.Disk = m.Record.Order.Disk
	}
	return o, err
}

// restarts reports whether a strategy lets running machines take another system.
func restarts(strategy string) bool {
	return strategy == order.Reboot || strategy == order.Kexec || strategy == order.Poweroff
}

// wentBack returns the error for a machine that tried a system and returned to its former one.
func wentBack(name string, s order.System) error {
	return fail.New(fail.Refused, "the system %s did not come up, and the machine went back to the one before", s.ID).At(name).
		Do("naupegos apply lets pods onto it again; make another system (naupegos image system), or name the one before in spec.provider.metal.system")
}

// short shortens a system's ID for messages.
func short(id string) string { return id[:min(len(id), len("sha256:")+12)] }

// Renew implements provider.Renewer: it orders the newest system, and waits until the machine has taken it by its pool's strategy and
// reports that it runs. If the machine returns to its former system, Renew restores the former order.
func (p *Provider) Renew(ctx context.Context, name string, progress plan.Progress) error {
	m, err := p.holder(ctx, name)
	if err != nil {
		return err
	}
	spec, by, was := specOf(p.named(m.Claim)), "cluster "+p.cluster(), m.Record.Order
	strategy := p.pool(p.named(m.Claim)).Strategy
	if !restarts(strategy) || !p.isOurs(was, name) {
		return fail.New(fail.Refused, "replace the system image of %s: its pool has the strategy %s", name, strategy).Do("naupegos node replace reinstalls it")
	}
	o, err := p.renewal(ctx, m, spec)
	if err != nil {
		return err
	}
	if _, err := p.o.Registry.SetStrategy(ctx, m.UUID, strategy); err != nil {
		return err
	}
	if _, err := p.o.Registry.SetOrder(ctx, m.UUID, o, by); err != nil {
		return err
	}
	back := false
	err = p.wait(ctx, spec, progress, func(m *registry.Machine) (done bool, say string, err error) {
		switch {
		case m.Record.Refused == m.Record.Wanted:
			back = true
			return false, "", wentBack(name, o.System)
		case m.Report != nil && m.Report.Digest == m.Record.Wanted:
			return true, "", nil
		}
		now := p.look(ctx, m)
		switch {
		case strategy != order.Poweroff:
		case now.State == provider.Unreachable:
			return false, "power on " + m.Title() + " once it is off: it has no BMC, so this can't be done from here", nil
		case now.State == provider.Stopped:
			_, err := p.o.Registry.SwitchPower(ctx, m.UUID, "on", bmc.FromDisk, by)
			return false, m.Title() + ": it is powered on", err
		}
		return false, m.Title() + ": it is to install system " + short(o.System.ID) + ", by " + strategy, nil
	})
	if back { // make the order match the system that runs
		if _, e := p.o.Registry.SetOrder(ctx, m.UUID, was, by); e != nil {
			return e
		}
	}
	if err != nil {
		return err
	}
	return p.answers(ctx, spec, progress)
}
