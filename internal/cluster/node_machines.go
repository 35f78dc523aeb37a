package cluster

import (
	"context"

	"github.com/naupegos/naupegos/internal/provider"
)

// MachineList lists the cluster's machines as the provider finds them, and what else of the cluster exists there.
func (c *Cluster) MachineList(ctx context.Context) ([]provider.Machine, []string, error) {
	inv, err := c.prov.Observe(ctx)
	if err != nil {
		return nil, nil, err
	}
	return inv.Machines, inv.Others, nil
}

// CheckMachines returns the names as they are, or those of all machines where none is given: fail.NotFound where one is not
// a machine of the cluster.
func (c *Cluster) CheckMachines(ctx context.Context, names []string) ([]string, error) {
	ms, _, err := c.MachineList(ctx)
	if err != nil {
		return nil, err
	}
	var all []string
	known := map[string]bool{}
	for _, m := range ms {
		all = append(all, m.Name)
		known[m.Name] = true
	}
	if len(names) == 0 {
		return all, nil
	}
	for _, n := range names {
		if !known[n] {
			return nil, errNoSuchMachine(n, c.Name(), all)
		}
	}
	return names, nil
}
