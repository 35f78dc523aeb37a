package cluster

import "github.com/naupegos/naupegos/internal/provider"

// orderRolls puts what restarts something that serves behind what must come first: gateways roll before the control plane. Joins end, and a
// load balancer of the cloud knows the new API servers, before an old one restarts. Workers roll when every API server is what the document
// says: no kubelet gets ahead of them. Machines that are replaced are the exception: they go when the others have rolled.
func (c *Cluster) orderRolls(b *builder, o *Observed) {
	var first, gates []string
	for _, s := range o.Want {
		health := "health/" + s.Name
		switch {
		case s.Role == provider.Gateway:
			first = append(first, health)
		case s.isControlPlane():
			gates = append(gates, health)
			if o.Replaced[s.Name] == nil {
				first = append(first, "etcd/promote/"+s.Name)
			}
		}
	}
	if len(o.Replaced) == 0 { // else what it waits for may wait for the rolls
		first = append(first, b.with("balance/")...)
	}
	for _, s := range o.Want {
		st := b.ids[configureID(s.Name)]
		if st == nil || !st.Rolling || o.Replaced[s.Name] != nil {
			continue
		}
		switch {
		case s.isControlPlane():
			b.after(st, first...)
		case s.Role == provider.Worker:
			b.after(st, gates...)
		}
	}
}
