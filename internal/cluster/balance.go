package cluster

import "github.com/naupegos/naupegos/internal/provider"

// planBalance has the provider's own load balancer, where the API is behind one, follow the machines: once the API answers
// and machines are configured.
func (c *Cluster) planBalance(b *builder, o *Observed) error {
	balancer, ok := c.prov.(provider.Balancer)
	if !ok {
		return nil
	}
	want, err := c.wantedMachines(o.Want)
	if err != nil {
		return err
	}
	for _, s := range balancer.Balance(want, o.Inventory) {
		b.after(s, "api")
		b.after(s, b.with("configure/")...)
		b.add(s)
	}
	return nil
}
