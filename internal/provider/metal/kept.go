package metal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider"
)

var _ provider.Keeper = (*Provider)(nil)

// Kept implements provider.Keeper: a system stays on the disk that it was installed on. It ignores disk.overwrite and disk.data, which
// matter only to installations.
func (p *Provider) Kept(ctx context.Context, seen *provider.Inventory) ([]string, error) {
	all, err := p.claimed(ctx)
	if err != nil {
		return nil, err
	}
	type change struct{ field, was, now string }
	var changes []change
	machines := map[change][]string{}
	for i := range all {
		m := &all[i]
		as := p.named(m.Claim)
		there := slices.ContainsFunc(seen.Machines, func(s provider.Machine) bool { return s.Name == as.Name })
		if !there || !p.isOurs(m.Record.Order, as.Name) || !m.BootsFromDisk() {
			continue // it will be installed by the current document
		}
		field, was, now := p.field(as)+".disk.", m.Record.Order.Disk, diskRule(p.pool(as).Disk)
		for _, c := range []change{
			{field + "serial", orAny(was.Serial), orAny(now.Serial)},
			{field + "minGiB", fmt.Sprint(was.MinBytes >> 30), fmt.Sprint(now.MinBytes >> 30)},
		} {
			if c.was == c.now {
				continue
			}
			if machines[c] == nil {
				changes = append(changes, c)
			}
			machines[c] = append(machines[c], as.Name)
		}
	}
	var words []string
	for _, c := range changes {
		slices.Sort(machines[c])
		stay := "stays on the disk that it was"
		if len(machines[c]) > 1 {
			stay = "stay on the disks that they were"
		}
		words = append(words, fmt.Sprintf("%s was %s, and is %s now: %s %s installed on; naupegos node replace %s %s has the place filled by the rule of now",
			c.field, c.was, c.now, strings.Join(machines[c], ", "), stay, p.cluster(), machines[c][0]))
	}
	slices.Sort(words)
	return words, nil
}

// field returns the document's path of a machine's pool.
func (p *Provider) field(m provider.Machine) string {
	name := v1alpha1.MetalPoolName(string(m.Role), m.Pool)
	if i := slices.IndexFunc(p.spec().Pools, func(l v1alpha1.MetalPool) bool { return l.Name == name }); i >= 0 {
		return fmt.Sprintf("spec.provider.metal.pools[%d]", i)
	}
	return "spec.provider.metal.pools (" + name + ")"
}

func orAny(serial string) string {
	if serial == "" {
		return "any"
	}
	return serial
}
