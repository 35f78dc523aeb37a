package metal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
)

// checkDiskNames refuses a document that names a disk that no machine of the pool has. Otherwise an unprotected data disk, or a system
// disk that is never found, is noticed too late. It looks at the pool's machines and at free machines that the pool would take.
func (p *Provider) checkDiskNames(ctx context.Context) error {
	names := func(pool v1alpha1.MetalPool) bool {
		return len(pool.Disk.Data) > 0 || len(pool.Disk.Overwrite) > 0 || pool.Disk.Serial != ""
	}
	if !slices.ContainsFunc(p.spec().Pools, names) {
		return nil
	}
	stock, err := p.o.Registry.Stock(ctx)
	if err != nil {
		return err
	}
	for i, pool := range p.spec().Pools {
		d := pool.Disk
		if d.Serial == "" && len(d.Data) == 0 && len(d.Overwrite) == 0 {
			continue
		}
		machines := p.ofPool(pool, stock)
		var all []facts.Disk
		for _, m := range machines {
			all = append(all, m.Facts.Disks...)
		}
		if slices.ContainsFunc(machines, func(m registry.Machine) bool { return m.Facts.Disks == nil }) {
			continue // an older discovery system does not report disks: the machine may have any
		}
		for _, f := range []struct {
			name  string
			disks []string
		}{{"serial", []string{d.Serial}}, {"data", d.Data}, {"overwrite", d.Overwrite}} {
			missing := facts.Missing(all, f.disks...)
			if len(missing) == 0 {
				continue
			}
			titles := make([]string, 0, len(machines))
			for _, m := range machines {
				titles = append(titles, m.Title()+" has "+facts.DiskTitles(m.Facts.Disks))
			}
			return fail.New(fail.Refused, "no machine of the pool %s has a disk with the serial number or WWID %s", pool.Name, strings.Join(missing, ", ")).
				At(fmt.Sprintf("spec.provider.metal.pools[%d].disk.%s", i, f.name)).
				Do("name disks as naupegos machine show does; a machine whose disks changed reports them when it boots the discovery image").
				Confide("  %s", orNothing(strings.Join(titles, "\n  "))) // free machines are among them
		}
	}
	return nil
}

// ofPool returns a pool's machines with known facts, and the free ones that it may take, regardless of their disks.
func (p *Provider) ofPool(pool v1alpha1.MetalPool, stock []registry.Machine) (machines []registry.Machine) {
	anyDisk := pool
	anyDisk.Disk = v1alpha1.MetalDisk{}
	for i := range stock {
		m := &stock[i]
		switch {
		case m.Facts == nil:
		case m.Claim.Cluster == p.cluster() && m.Claim.Pool == pool.Name, m.Claim.Cluster == "" && p.unfit(anyDisk, m) == "":
			machines = append(machines, *m)
		}
	}
	return machines
}

// diskLacks says why none of a machine's disks can take the system; empty if one can.
func diskLacks(pool v1alpha1.MetalPool, m *registry.Machine) string {
	d, all := pool.Disk, m.Facts.Disks
	var why []string
	for _, k := range all {
		reason := ""
		switch {
		case k.Removable && d.Serial == "" || k.IsAny(d.Data) || d.Serial != "" && !k.Is(d.Serial) || k.SizeBytes < int64(d.MinGiB)<<30:
			continue
		case k.Obstacle() != "":
			reason = k.Obstacle()
		case k.Unasked() != "" && d.Serial == "":
			reason = k.Unasked() + ": disk.serial can name it"
		case len(k.Holds) > 0 && !slices.Contains(k.Holds, facts.Ours) && !slices.Contains(k.Holds, facts.Unfinished) && !facts.Consents(all, k, d.Overwrite):
			reason = "holds " + strings.Join(k.Holds, ", ") + ", and disk.overwrite does not name it" + facts.Ambiguous(all, k, d.Overwrite)
		default:
			return ""
		}
		why = append(why, k.Title()+" "+reason)
	}
	words := fmt.Sprintf("%s wants a disk of at least %d GiB, and it has %s", pool.Name, d.MinGiB, orNothing(m.Record.Disks))
	if d.Serial != "" {
		words = fmt.Sprintf("%s wants the disk %s of at least %d GiB", pool.Name, d.Serial, d.MinGiB)
	}
	if len(why) > 0 {
		words += ": " + strings.Join(why, "; ")
	}
	return words
}

// diskNames splits a pool's disk names into those of disks that the machine has or may have, and others.
func diskNames(m *registry.Machine, names []string) (here, elsewhere []string) {
	for _, n := range names {
		if m.Facts == nil || m.Facts.Disks == nil || slices.ContainsFunc(m.Facts.Disks, func(d facts.Disk) bool { return d.Is(n) }) {
			here = append(here, n)
			continue
		}
		elsewhere = append(elsewhere, n)
	}
	return here, elsewhere
}
