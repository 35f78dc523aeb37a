package cluster

import "github.com/naupegos/naupegos/internal/provider"

// planBalance has the provider's own load balancer, where the API is behind one, follow the machines: once the API answers
// and machines are configured. It does not wait for those that are configured already and restart: they wait for it, so that others serve
// meanwhile (see orderRolls).
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
		for _, id := range b.with("configure/") {
			if !b.ids[id].Rolling {
				b.after(s, id)
			}
		}
		b.add(s)
	}
	return nil
}
