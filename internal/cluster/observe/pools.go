package observe

import (
	"context"

	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/provider"
)

// Pools lists the pools that scale, with their machines as the provider has them.
func (c *Observer) Pools(ctx context.Context) ([]scaling.Pool, error) {
	inv, err := c.Prov.Observe(ctx)
	if err != nil {
		return nil, err
	}
	want, gone := wanted.Assign(c.Doc, inv.Machines, c.Decided())
	have := map[string]provider.Machine{}
	for _, m := range inv.Machines {
		have[m.Name] = m
	}
	var pools []scaling.Pool
	for _, p := range c.Doc.Spec.Workers {
		if !p.Scales() {
			continue
		}
		out := scaling.Pool{Name: p.Name, Changes: scaling.Changes(c.Facts, p), Min: p.Least(), Max: p.MaxReplicas, Size: p.Count(), Shape: scaling.ShapeOf(c.Facts, p.Name)}
		if out.Shape != nil {
			out.Shape.Labels, out.Shape.Taints = c.Marks(wanted.Slot{Role: provider.Worker, Pool: p.Name}).Labels, p.Taints
		}
		for _, s := range want {
			if m, exists := have[s.Name]; s.Pool == p.Name {
				m.Name = s.Name
				out.Machines = append(out.Machines, scaling.Machine{Name: s.Name, ProviderID: c.ProviderID(m), Exists: exists, Runs: m.State == provider.Running})
			}
		}
		for _, m := range gone {
			if m.Pool == p.Name {
				out.Machines = append(out.Machines, scaling.Machine{Name: m.Name, ProviderID: c.ProviderID(m), Exists: true, Runs: m.State == provider.Running, Leaves: true})
			}
		}
		pools = append(pools, out)
	}
	return pools, nil
}

// RememberShapes stores the capacity of the nodes in pools that scale.
func (c *Observer) RememberShapes(ctx context.Context, o *Observed) error {
	for _, s := range o.Want {
		n := o.Nodes[s.Name]
		if s.Role != provider.Worker || scaling.Find(c.Doc, s.Pool) == nil || !n.Ready || len(n.Allocatable) == 0 {
			continue
		}
		if err := scaling.RememberShape(ctx, c.Facts, s.Pool, scaling.Shape{Capacity: n.Capacity, Allocatable: n.Allocatable}); err != nil {
			return err
		}
	}
	return nil
}
