package local

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/hostnet"
	"github.com/naupegos/naupegos/internal/provider/local/process"
	"github.com/naupegos/naupegos/internal/tool"
)

// Power starts ("on"), shuts down ("off") or kills ("kill") one machine. "off" waits Timeouts.Stop for a clean shutdown, then kills.
func (p *Provider) Power(ctx context.Context, name, state string) error {
	r, err := readRecord(p.n.machine(name))
	if err != nil || !r.Created {
		return fail.New(fail.NotFound, "cluster %s has no machine of this name on this host", p.opts.ClusterName).At(name)
	}
	switch state {
	case "on":
		return p.powerOn(ctx, name)
	case "off":
		return p.stopMachine(ctx, name)
	case "kill":
		return p.killMachine(ctx, name)
	}
	return fail.New(fail.Invalid, "unknown power state %q", state).Do("use on, off or kill")
}

// powerOn starts a machine. First it restores the network, in case a reboot of the host removed it.
func (p *Provider) powerOn(ctx context.Context, name string) error {
	subnet, err := p.subnetOf()
	if err != nil {
		return err
	}
	missing, err := p.checkNetwork(ctx, subnet)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		if err := p.makeNetwork(ctx, subnet); err != nil {
			return err
		}
	}
	return p.startMachine(ctx, name, silent{})
}

type silent struct{}

func (silent) Status(string, ...any) {}

var _ plan.Progress = silent{}

// stopMachine shuts the machine down cleanly, for at most Timeouts.Stop, and then kills what is left.
func (p *Provider) stopMachine(ctx context.Context, name string) error {
	running, err := supervisor(p.n.machine(name))
	if err != nil {
		return err
	}
	if err := running.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, p.opts.Timeouts.Stop)
	defer cancel()
	err = tool.Until(wait, 20*time.Millisecond, func() (bool, error) { return !running.Alive(), nil })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return p.killMachine(ctx, name)
}

// killMachine kills the machine at once: its supervisor and everything in its cgroups.
func (p *Provider) killMachine(ctx context.Context, name string) error {
	running, err := supervisor(p.n.machine(name))
	if err != nil {
		return err
	}
	unsaid, err := supervisors(p.n.machine(name))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeouts.Kill)
	defer cancel()
	// Remove its link first: a dying machine's network stack would still answer for addresses that other machines take over.
	if err := p.removeLinkOf(name); err != nil {
		return err
	}
	for _, s := range append(unsaid, running) {
		if err := s.Signal(syscall.SIGKILL); err != nil {
			return err
		}
	}
	if err := p.clearRemains(ctx, name); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "kill machine").At(name)
	}
	return tool.Until(ctx, 10*time.Millisecond, func() (bool, error) { return !running.Alive(), nil })
}

// clearRemains removes what a machine without a supervisor may have left behind: processes, cgroups, its transient
// unit, its link and run.json. The machine's disk stays.
func (p *Provider) clearRemains(ctx context.Context, name string) error {
	groups, err := p.n.machineCgroups(name)
	if err != nil {
		return err
	}
	if err := process.KillCgroups(ctx, groups); err != nil {
		return err
	}
	if err := process.RemoveUnits(ctx, p.n.unit(name)); err != nil {
		return err
	}
	if err := process.RemoveCgroups(ctx, groups); err != nil {
		return err
	}
	if err := p.removeLinkOf(name); err != nil {
		return err
	}
	return files.IgnoreGone(os.Remove(runFile(p.n.machine(name))))
}

// removeLinkOf takes the machine off the network.
func (p *Provider) removeLinkOf(name string) error {
	if r, err := readRecord(p.n.machine(name)); err == nil && r.Link != "" {
		return hostnet.RemoveLink(r.Link)
	}
	return nil
}
