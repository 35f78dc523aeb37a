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

// bring has the machine of a seat be there, installed and running. It goes on from wherever it was cut off.
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

// isOurs reports whether a machine was told to be installed as who it is in the cluster.
func (p *Provider) isOurs(o *order.Order, name string) bool {
	return o != nil && o.Hostname == name && o.Group == registry.GroupOf(p.cluster())
}

// install orders the installation of a machine, has it boot from the network unless it waits there already, and waits until what was
// installed has reported.
func (p *Provider) install(ctx context.Context, m *registry.Machine, spec provider.MachineSpec, progress plan.Progress) error {
	by := "cluster " + p.cluster()
	if ours := p.isOurs(m.Record.Order, spec.Name); !ours || !m.BootsFromDisk() {
		o, err := p.order(ctx, m, spec)
		if err != nil {
			return err
		}
		// A system from before that still runs takes no order: it is to be installed from nothing.
		if _, err := p.o.Registry.SetStrategy(ctx, m.UUID, none); err != nil {
			return err
		}
		if m.BootsFromDisk() || p.gaveUp(m) { // what somebody had installed before the machine was assigned, or what is tried again
			if m, err = p.o.Registry.Reinstall(ctx, m.UUID, by); err != nil {
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

// none is the strategy of machines that take no orders while they run.
const none = "none"

// gaveUp reports whether a machine is not installed again by itself: it asks to be, and is denied it.
func (p *Provider) gaveUp(m *registry.Machine) bool {
	return !m.Record.Reinstall && m.Record.Failures >= p.o.Registry.Retries()
}

// otherKey says that nothing becomes of a machine before somebody approves another key: it has asked with one since it was heard of otherwise. Its
// own was in its memory alone, and is lost where power is before the disk has it. Empty: it has not.
func otherKey(m *registry.Machine) string {
	a := m.Record.Asks
	if a == nil || a.Since.Before(m.Record.StateAt) || m.Record.Progress != nil && a.Since.Before(m.Record.Progress.At) {
		return ""
	}
	return fmt.Sprintf("%s asks for approval of another key, as it does if power was lost before it was installed: if its console shows %s, naupegos machine approve %s --key %s",
		m.Title(), a.Key, m.UUID, a.Key)
}

// said is how far a machine is, in words.
func said(m *registry.Machine, detail string) string {
	if q := m.Record.Progress; q != nil && q.Total > 0 {
		return fmt.Sprintf("%s: %s, %d %%", m.Title(), q.Stage, q.Done*100/q.Total)
	} else if q != nil {
		return m.Title() + ": " + q.Stage
	}
	return detail
}

// discovers reports whether a machine runs the discovery system, if it runs: it waits for its order there, or carries it out, and need not be started.
func discovers(m *registry.Machine) bool {
	return slices.Contains([]registry.State{registry.Discovered, registry.Denied, registry.Granted}, registry.State(m.State))
}

// fromNetwork has a machine boot from the network unless it has done so and is there, or says that somebody has to.
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

// heard reports whether a machine that is on is heard of. Where it was not lately, it is listened to for as long: perhaps it said all the while how
// far its installation is, and nobody was there to hear it, for the server was away. To switch it off then would end that installation.
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

// order says what is to be installed on a machine.
func (p *Provider) order(ctx context.Context, m *registry.Machine, spec provider.MachineSpec) (*order.Order, error) {
	system, err := p.o.System(ctx)
	if err != nil {
		return nil, err
	}
	pool := p.spec().Pool(string(spec.Role), spec.Pool)
	if m.Facts == nil { // as lists have machines
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

// diskRule is where the system goes, in an order's words.
func diskRule(d v1alpha1.MetalDisk) order.Disk {
	return order.Disk{Serial: d.Serial, MinBytes: int64(d.MinGiB) << 30, Consent: d.Overwrite}
}

// answers switches a machine on that is off, and waits until it lets us in.
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

// hasAnswered: only a machine that can be worked with has host keys.
func hasAnswered(m provider.Machine) bool { return len(m.HostKeys) > 0 }

// wait looks at a machine until it is as it should be, and says what it waits for.
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
			return fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "wait for %s (%s): %s", spec.Name, m.Title(), last).Do("naupegos machine show %s shows what it does; the same command continues", m.UUID)
		case <-tick.C:
		}
	}
}
