package metal

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// Preflight checks that the stock has a machine for each vacant seat, and that there is a system image to install on it.
func (p *Provider) Preflight(ctx context.Context, want provider.Wanted) error {
	given, err := p.claim(ctx, p.seats(want.Machines), true)
	if err != nil {
		return err
	}
	if err := p.checkDiskNames(ctx); err != nil {
		return err
	}
	if len(given) > 0 {
		if _, err := p.o.System(ctx); err != nil {
			return err
		}
	}
	return p.foresee(ctx, given)
}

// seats returns the registry's seats for machines.
func (p *Provider) seats(specs []provider.MachineSpec) (seats []registry.Seat) {
	for _, s := range specs {
		seats = append(seats, p.seat(s))
	}
	return seats
}

// seat returns the registry's seat for a machine.
func (p *Provider) seat(s provider.MachineSpec) registry.Seat {
	pool := p.spec().Pool(string(s.Role), s.Pool)
	return registry.Seat{
		Pool: v1alpha1.MetalPoolName(string(s.Role), s.Pool), Number: s.Index,
		Labelled: func(m *registry.Machine) string { return p.unfit(pool, m) },
		Fits:     func(m *registry.Machine) string { return lacking(pool, m) },
	}
}

// claim takes machines from the stock for vacant seats; with dry it only chooses them.
func (p *Provider) claim(ctx context.Context, seats []registry.Seat, dry bool) ([]registry.Given, error) {
	given, err := p.o.Registry.Claim(ctx, p.cluster(), p.spec().Spread, seats, dry)
	if err != nil && ctx.Err() != nil {
		err = fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "take machines for cluster %s", p.cluster())
	}
	return given, err
}

// unfit says why a pool does not take a free machine, regardless of the machine's facts; empty if it may.
func (p *Provider) unfit(pool v1alpha1.MetalPool, m *registry.Machine) string {
	for _, other := range p.spec().Pools {
		if other.Name != pool.Name && names(other, m) {
			return "it is kept for " + other.Name + ", which names it"
		}
	}
	if m.BootsFromDisk() {
		return "an operator had it installed: naupegos machine assign gives it to this cluster anyway, and it is reinstalled"
	}
	if len(pool.Machines) > 0 && !names(pool, m) {
		return "it is not among the machines that " + pool.Name + " names"
	}
	for k, v := range pool.Labels {
		if m.Labels[k] != v {
			return fmt.Sprintf("%s wants the label %s=%s", pool.Name, k, v)
		}
	}
	return ""
}

// lacking says why a machine's facts do not satisfy a pool; empty if they do.
func lacking(pool v1alpha1.MetalPool, m *registry.Machine) string {
	said := registry.FactsOf(m.Facts)
	for k, pattern := range pool.Facts {
		if !slices.ContainsFunc(said[k], func(v string) bool { ok, _ := path.Match(pattern, v); return ok }) {
			return fmt.Sprintf("%s wants %s=%s, and it says %s", pool.Name, k, pattern, orNothing(strings.Join(said[k], ", ")))
		}
	}
	return tooSmall(pool, m)
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// tooSmall says which of a machine's CPUs, memory and disks do not suffice for a pool; empty if all do. It ignores CPUs and memory
// that the machine does not report.
func tooSmall(pool v1alpha1.MetalPool, m *registry.Machine) string {
	if s := m.Facts.System; s != nil {
		switch gib := int(s.MemoryBytes >> 30); {
		case s.CPUs > 0 && s.CPUs < pool.MinCPUs:
			return fmt.Sprintf("%s wants %d CPUs, and it has %d", pool.Name, pool.MinCPUs, s.CPUs)
		case s.MemoryBytes > 0 && s.MemoryBytes < int64(pool.MinMemoryGiB)<<30/16*15: // the firmware reserves some
			return fmt.Sprintf("%s wants %d GiB of memory, and it has %d", pool.Name, pool.MinMemoryGiB, gib)
		}
	}
	return diskLacks(pool, m)
}

// names reports whether a pool names a machine.
func names(pool v1alpha1.MetalPool, m *registry.Machine) bool {
	return slices.ContainsFunc(pool.Machines, func(ref string) bool {
		if uuid, err := facts.ParseUUID(ref); err == nil {
			return uuid == m.UUID
		}
		if mac, err := facts.ParseMAC(ref); err == nil {
			return slices.Contains(m.MACs, mac)
		}
		return ref == m.Name
	})
}
