package cluster

import (
	"slices"
	"strings"
)

// Things lists what was observed, one line a thing, sorted: machines with their state and addresses, nodes, members of etcd, and what
// could not be asked. Two plans from the same lines were made from the same state, as far as it can be told.
func (o *Observed) Things() []string {
	var out []string
	add := func(words ...string) {
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		out = append(out, strings.Join(words, " "))
	}
	for _, m := range o.Inventory.Machines {
		add("machine", m.Name, string(m.State), m.Address, m.Public, m.ID)
	}
	for _, other := range o.Inventory.Others {
		add("other", other)
	}
	if o.Inventory.VIP != "" {
		add("virtual address", o.Inventory.VIP)
	}
	for name, n := range o.Nodes {
		add("node", name, n.Version)
	}
	for _, m := range o.Members {
		add("etcd member", m.Name)
	}
	if o.APIErr != nil {
		add("the API does not answer")
	}
	if o.EtcdErr != nil {
		add("etcd does not answer")
	}
	slices.Sort(out)
	return out
}
