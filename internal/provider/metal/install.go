package metal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/registry/order"
)

// bring gets the machine of a seat claimed, installed and running. It can resume from any interruption.
func (p *Provider) bring(ctx context.Context, spec provider.MachineSpec, progress plan.Progress) error {
	progress.Status("looking for its machine")
	if err := ctx.Err(); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "bring %s up", spec.Name)
	}
	if _, err := p.claim(ctx, []registry.Seat{p.seat(spec)}, false); err != nil {
		return err
	}
	m, err := p.holder(ctx, spec.Name)
	if err != nil {
		return err
	}
	if now := p.convert(m); now.State != provider.Running {
		if err := p.install(ctx, m, spec, progress); err != nil {
			return err
		}
	}
	return p.answers(ctx, spec, progress)
}

// isOurs reports whether an order installs a machine under this name in this cluster.
func (p *Provider) isOurs(o *order.Order, name string) bool {
	return o != nil && o.Hostname == name && o.Group == registry.GroupOf(p.cluster())
}

// install orders the installation of a machine, makes the machine boot from the network unless it already waits for its order, and waits
// until the installed system has reported.
func (p *Provider) install(ctx context.Context, m *registry.Machine, spec provider.MachineSpec, progress plan.Progress) error {
	by := "cluster " + p.cluster()
	if ours := p.isOurs(m.Record.Order, spec.Name); !ours || !m.BootsFromDisk() {
		o, err := p.order(ctx, m, spec)
		if err != nil {
			return err
		}
		// Keep an old system that still runs from taking the order: the machine must be installed from scratch.
		if _, err := p.o.Registry.SetStrategy(ctx, m.UUID, none); err != nil {
			return err
		}
		if m.BootsFromDisk() || p.gaveUp(m) { // installed before it was assigned to this cluster, or a new attempt after failures
			if m, err = p.o.Registry.Reinstall(ctx, m.UUID, nil, by); err != nil {
				return err
			}
		}
		if m, err = p.o.Registry.SetOrder(ctx, m.UUID, o, by); err != nil {
			return err
		}
		if err := p.fromNetwork(ctx, m, progress); err != nil {
			return err
		}
	}
	err := p.wait(ctx, spec, progress, func(m *registry.Machine) (done bool, say string, err error) {
		switch {
		case p.gaveUp(m):
			return false, "", fail.New(fail.Refused, "its installation failed: %s", m.Record.Why).At(spec.Name).
				Do("see why: naupegos machine journal %s --install; the same command then tries again", m.UUID)
		case otherKey(m) != "":
			return false, otherKey(m), nil
		case registry.State(m.State) == registry.Failed:
			return false, "the installation is tried again: " + m.Record.Why, nil
		case registry.State(m.State) == registry.Denied:
			return false, "it has to wait: " + m.Record.Why, nil
		}
		now := p.convert(m)
		switch {
		case now.State != provider.Running:
			return false, said(m, now.Detail), nil
		case m.Report.Digest != m.Record.Wanted:
			return false, m.Title() + ": it reports another system than the one that was ordered", nil
		}
		return true, "", nil
	})
	if err == nil {
		_, err = p.o.Registry.SetStrategy(ctx, m.UUID, p.pool(p.named(m.Claim)).Strategy)
	}
	return err
}

// none is the strategy with which a running machine takes no orders.
const none = "none"

// gaveUp reports whether a machine's installation failed so often that the server no longer lets the machine retry by itself.
func (p *Provider) gaveUp(m *registry.Machine) bool {
	return !m.Record.Reinstall && m.Record.Failures >= p.o.Registry.Retries()
}

// otherKey returns a message if a machine's latest report is a request with a new key, which an operator must approve; else it
// returns "". Before installation, a machine's key is only in memory, so a power loss makes the machine ask with a new one.
func otherKey(m *registry.Machine) string {
	a := m.Record.Asks
	if a == nil || a.Since.Before(m.Record.StateAt) || m.Record.Progress != nil && a.Since.Before(m.Record.Progress.At) {
		return ""
	}
	return fmt.Sprintf("%s asks for approval of another key, as it does if power was lost before it was installed: if its console shows %s, naupegos machine approve %s --key %s",
		m.Title(), a.Key, m.UUID, a.Key)
}

// said describes the progress of a machine's installation; without progress it returns detail.
func said(m *registry.Machine, detail string) string {
	if q := m.Record.Progress; q != nil && q.Total > 0 {
		return fmt.Sprintf("%s: %s, %d %%", m.Title(), q.Stage, q.Done*100/q.Total)
	} else if q != nil {
		return m.Title() + ": " + q.Stage
	}
	return detail
}

// discovers reports whether a machine, if it is on, runs the discovery system: it waits for its order or executes it, and needs no reboot.
func discovers(m *registry.Machine) bool {
	return slices.Contains([]registry.State{registry.Discovered, registry.Denied, registry.Granted}, registry.State(m.State))
}

// fromNetwork makes a machine boot from the network unless it runs the discovery system already. If the machine has no BMC, it asks the
// operator to power it on.
func (p *Provider) fromNetwork(ctx context.Context, m *registry.Machine, progress plan.Progress) error {
	if m.Record.BMC == nil {
		if !discovers(m) || time.Since(m.Seen) >= p.o.Silence {
			progress.Status("power on %s, so that it boots from the network: it has no BMC, so this can't be done from here", m.Title())
		}
		return ctx.Err()
	}
	if discovers(m) {
		on, err := p.o.Registry.SwitchPower(ctx, m.UUID, "status", bmc.AsUsual, "")
		if err == nil && on {
			on, err = p.heard(ctx, m, progress)
		}
		if err != nil || on {
			return err
		}
	}
	progress.Status("having %s boot from the network", m.Title())
	_, err := p.o.Registry.SwitchPower(ctx, m.UUID, "cycle", bmc.FromNetwork, "cluster "+p.cluster())
	return err
}

// heard reports whether a machine that is on reports to the server. If it has not done so lately, heard waits for a report for as long as
// Options.Silence: the server may have been away during the machine's installation, which a power cycle would abort.
func (p *Provider) heard(ctx context.Context, m *registry.Machine, progress plan.Progress) (bool, error) {
	if time.Since(m.Seen) < p.o.Silence {
		return true, nil
	}
	progress.Status("%s is on but has not reported since %s: it has %s to do so", m.Title(), m.Seen.Format(time.DateTime), p.o.Silence)
	tick := time.NewTicker(p.o.Poll)
	defer tick.Stop()
	for until := time.Now().Add(p.o.Silence); time.Now().Before(until); {
		now, err := p.o.Registry.Machine(ctx, m.UUID)
		if err != nil {
			return false, err
		}
		if now.Seen.After(m.Seen) || now.State != m.State {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "listen to %s", m.Title())
		case <-tick.C:
		}
	}
	return false, nil
}

// order returns the installation order for a machine.
func (p *Provider) order(ctx context.Context, m *registry.Machine, spec provider.MachineSpec) (*order.Order, error) {
	system, err := p.o.System(ctx)
	if err != nil {
		return nil, err
	}
	pool := p.spec().Pool(string(spec.Role), spec.Pool)
	if m.Facts == nil { // lists of machines omit facts
		if m, err = p.o.Registry.Machine(ctx, m.UUID); err != nil {
			return nil, err
		}
	}
	o := &order.Order{
		Schema: order.Schema, UUID: m.UUID, Hostname: spec.Name, System: system, SSHKeys: p.o.SSHKeys, Group: registry.GroupOf(p.cluster()),
		Disk: diskRule(pool.Disk),
	}
	o.Data, o.Elsewhere = diskNames(m, pool.Disk.Data)
	o.Disk.Consent, _ = diskNames(m, pool.Disk.Overwrite)
	if pool.Strategy == order.Kexec {
		o.First = order.Kexec
	}
	return o, o.Check()
}

// diskRule converts the document's rule for the system's disk into an order's.
func diskRule(d v1alpha1.MetalDisk) order.Disk {
	return order.Disk{Serial: d.Serial, MinBytes: int64(d.MinGiB) << 30, Consent: d.Overwrite}
}

// answers switches a machine on if it is off, and waits until it accepts our SSH login.
func (p *Provider) answers(ctx context.Context, spec provider.MachineSpec, progress plan.Progress) error {
	switched := false
	return p.wait(ctx, spec, progress, func(m *registry.Machine) (done bool, say string, err error) {
		now := p.look(ctx, m)
		switch {
		case now.State == provider.Running && now.Detail == "" && hasAnswered(now):
			return true, "", nil
		case now.State == provider.Stopped && !switched:
			switched = true
			_, err := p.o.Registry.SwitchPower(ctx, m.UUID, "on", bmc.AsUsual, "cluster "+p.cluster())
			return false, "it is powered on", err
		}
		return false, orNothing(now.Detail), nil
	})
}

// hasAnswered reports whether a machine has host keys: only an installed machine that has reported has some.
func hasAnswered(m provider.Machine) bool { return len(m.HostKeys) > 0 }

// wait calls look with a machine's current record until look is done or fails, and reports in progress what it waits for.
func (p *Provider) wait(ctx context.Context, spec provider.MachineSpec, progress plan.Progress, look func(m *registry.Machine) (done bool, say string, err error)) error {
	tick := time.NewTicker(p.o.Poll)
	defer tick.Stop()
	last := ""
	for {
		m, err := p.holder(ctx, spec.Name)
		if err != nil {
			return err
		}
		done, say, err := look(m)
		if ctx.Err() == nil && (done || err != nil) {
			return err
		}
		if say != last {
			progress.Status("%s", say)
			last = say
		}
		select {
		case <-ctx.Done():
			return fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "wait for %s (%s): %s", spec.Name, m.Title(), last).Do("naupegos machine show %s shows its progress; the same command continues", m.UUID)
		case <-tick.C:
		}
	}
}
