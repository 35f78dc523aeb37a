package metal

import (
	"context"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/bmc"
)

// Power switches a machine on or kills it through its BMC, or shuts it down: through its own system or, if that does not answer, its BMC.
func (p *Provider) Power(ctx context.Context, name, state string) error {
	m, err := p.holder(ctx, name)
	if err != nil {
		return err
	}
	if m.Record.BMC == nil && (state == "on" || state == "kill") {
		return fail.New(fail.Refused, "power %s: no BMC is configured for %s", state, m.Title()).At(name).
			Do("naupegos machine bmc %s --address … --user … --password-file …; or power it on or off at the machine", m.UUID)
	}
	spec := specOf(p.named(m.Claim))
	switch state {
	case "on":
		return p.answers(ctx, spec, mute{})
	case "kill":
		err = p.kill(ctx, m)
	case "off":
		err = p.off(ctx, m)
	default:
		return fail.New(fail.Invalid, "unknown power state %q", state).At(name).Do("use on, off or kill")
	}
	if err == nil {
		p.look(ctx, m)
	}
	return err
}

func specOf(m provider.Machine) provider.MachineSpec {
	return provider.MachineSpec{Name: m.Name, Role: m.Role, Pool: m.Pool, Index: m.Index}
}

func (p *Provider) kill(ctx context.Context, m *registry.Machine) error {
	_, err := p.o.Registry.SwitchPower(ctx, m.UUID, "off", bmc.AsUsual, "cluster "+p.cluster())
	return err
}

// off shuts a machine down by SSH, or by its BMC's soft switch if it is on but does not answer. With a BMC it waits until the power is off.
func (p *Provider) off(ctx context.Context, m *registry.Machine) error {
	now := p.look(ctx, m)
	switch {
	case now.State == provider.Stopped:
		return nil
	case now.State == provider.Unreachable:
		return fail.New(fail.Unreachable, "shut the machine down: %s", now.Detail).At(now.Name).Do("it may be off already, or cut off: this can't be told from here").Enough()
	case now.State != provider.Running:
		return fail.New(fail.NotReady, "%s", now.Detail).At(now.Name)
	}
	if now.Detail == "" && len(now.HostKeys) > 0 {
		if err := p.reach.ShutDown(ctx, host(now)); err != nil {
			return err
		}
	} else if _, err := p.o.Registry.SwitchPower(ctx, m.UUID, "shutdown", bmc.AsUsual, "cluster "+p.cluster()); err != nil {
		return err
	}
	if m.Record.BMC == nil {
		return nil
	}
	return p.wait(ctx, specOf(now), mute{}, func(m *registry.Machine) (bool, string, error) {
		on, err := p.o.Registry.SwitchPower(ctx, m.UUID, "status", bmc.AsUsual, "")
		if fail.KindOf(err) == fail.NotReady { // neither on nor off, for example while powering off
			return false, err.Error(), nil
		}
		return err == nil && !on, "it is still on", err
	})
}

// mute discards progress.
type mute struct{}

// Status implements plan.Progress.
func (mute) Status(string, ...any) {}

var _ plan.Progress = mute{}

// Switches implements provider.PartlySwitched: only machines with a BMC can be switched.
func (p *Provider) Switches(ctx context.Context, name string) bool {
	m, err := p.holder(ctx, name)
	return err == nil && m.Record.BMC != nil
}
