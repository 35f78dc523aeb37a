package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/files"
)

// DestroyMachine returns the step that removes a machine and everything that belongs to it, from any state.
func (p *Provider) DestroyMachine(m provider.Machine) *plan.Step {
	return &plan.Step{
		ID: provider.DestroyStep(m.Name), Action: plan.Destroy, Title: "destroy machine " + m.Name, Subject: m.Name,
		Reason: "it is no longer wanted",
		Run: func(ctx context.Context, progress plan.Progress) error {
			progress.Status("killing and removing")
			err := ctx.Err()
			if err == nil {
				err = p.wipe(ctx, m.Name)
			}
			if err != nil {
				return fail.Wrap(fail.KindOf(err), err, "destroy machine").At(m.Name)
			}
			return nil
		},
	}
}

// Destroy returns the steps that remove the cluster: machines in parallel, then the network, then everything else,
// with a check that nothing is left.
func (p *Provider) Destroy(_ context.Context, seen *provider.Inventory) []*plan.Step {
	var steps []*plan.Step
	var machines []string
	if seen != nil {
		for _, m := range seen.Machines {
			s := p.DestroyMachine(m)
			s.Reason = "the cluster is destroyed"
			steps = append(steps, s)
			machines = append(machines, s.ID)
		}
	}
	return append(steps,
		&plan.Step{
			ID: destroyNetworkStep, Action: plan.Destroy, Title: "remove network", Subject: "cluster", Reason: "the cluster is destroyed",
			Details: []string{"bridge " + p.n.bridge(), "nftables table inet " + p.n.table()}, Needs: machines,
			Run: func(ctx context.Context, _ plan.Progress) error { return p.removeNetwork(ctx) },
		},
		&plan.Step{
			ID: sweepStep, Action: plan.Destroy, Title: "remove the rest, and verify that nothing remains", Subject: "cluster",
			Reason: "the cluster is destroyed", Details: []string{"directory " + p.n.dir()}, Needs: []string{destroyNetworkStep},
			Run: func(ctx context.Context, _ plan.Progress) error { return p.sweep(ctx) },
		})
}

const (
	destroyNetworkStep = "destroy-network"
	sweepStep          = "destroy-rest"
)

// wipe removes a machine: first its processes, then its disk. Its record is marked incomplete first and removed last, so that an
// interrupted wipe leaves a Partial machine and not an unknown one.
func (p *Provider) wipe(ctx context.Context, name string) error {
	dir := p.n.machine(name)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return p.clearProcesses(ctx, name)
	}
	if r, err := readRecord(dir); err == nil && r.Created {
		r.Created = false
		if err := files.WriteJSON(recordFile(dir), r); err != nil {
			return err
		}
	}
	if err := p.clearProcesses(ctx, name); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == filepath.Base(recordFile(dir)) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// clearProcesses kills a machine and removes its cgroups, link and mounts from the kernel.
func (p *Provider) clearProcesses(ctx context.Context, name string) error {
	if err := p.killMachine(ctx, name); err != nil {
		return err
	}
	return p.unmount(ctx, name)
}
