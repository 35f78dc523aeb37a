package nodes

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/provider"
)

// NodeRow is a machine with its node, or a node whose machine is not ours.
type NodeRow struct {
	Name    string    `json:"name"`
	Role    string    `json:"role,omitempty"`
	Pool    string    `json:"pool,omitempty"`
	Address string    `json:"address,omitempty"`
	State   string    `json:"state,omitempty"` // of the machine: the provider's word, or "missing", "unwanted"; empty: not ours
	Node    string    `json:"node,omitempty"`  // "Ready", "Ready, cordoned", or why not; empty for gateways and if unknown
	Version string    `json:"version,omitempty"`
	Created time.Time `json:"created,omitzero"` // of the node
}

// NodeList lists the nodes of a cluster.
type NodeList struct {
	Nodes   []NodeRow
	Problem string // why the Kubernetes API does not answer; empty if it does
}

// NodeList lists machines and nodes. It does not ask the machines themselves.
func (c *Nodes) NodeList(ctx context.Context) (*NodeList, error) {
	o, err := c.ObserveInventory(ctx, c.Decided())
	if err != nil {
		return nil, err
	}
	if err := c.ObserveAPI(ctx, o); err != nil {
		return nil, err
	}
	list := &NodeList{}
	if o.APIErr != nil {
		list.Problem = o.APIErr.Error()
	}
	for _, s := range o.Expected() {
		r := NodeRow{Name: s.Name, Role: string(s.Role), Pool: s.Pool, State: "missing"}
		if m := o.Machine(s.Name); m != nil {
			r.Address, r.State = m.Address, string(m.State)
		}
		list.Nodes = append(list.Nodes, withNode(o, r))
	}
	for _, m := range o.Remove {
		list.Nodes = append(list.Nodes, withNode(o, NodeRow{Name: m.Name, Role: string(m.Role), Pool: m.Pool, Address: m.Address, State: "unwanted"}))
	}
	var others []NodeRow
	for name, n := range o.Nodes {
		if slices.ContainsFunc(list.Nodes, func(r NodeRow) bool { return r.Name == name }) {
			continue
		}
		others = append(others, withNode(o, NodeRow{Name: name, Role: strings.Join(n.Roles, ","), Address: strings.Join(n.Addresses, ",")}))
	}
	slices.SortFunc(others, func(a, b NodeRow) int { return strings.Compare(a.Name, b.Name) })
	list.Nodes = append(list.Nodes, others...)
	return list, nil
}

// withNode adds the node's state from the API.
func withNode(o *observe.Observed, r NodeRow) NodeRow {
	n, ok := o.Nodes[r.Name]
	switch {
	case ok:
		r.Node, r.Version, r.Created = o.NodeWords(n), n.Version, n.Created
	case o.Nodes != nil && r.Role != string(provider.Gateway):
		r.Node = "not registered"
	}
	return r
}

// MachineList returns the cluster's machines as the provider observes them, and the cluster's other resources there.
func (c *Nodes) MachineList(ctx context.Context) ([]provider.Machine, []string, error) {
	inv, err := c.Prov.Observe(ctx)
	if err != nil {
		return nil, nil, err
	}
	return inv.Machines, inv.Others, nil
}

// CheckMachines returns the given names, or the names of all machines if there are none given. It returns fail.NotFound for a name outside the cluster.
func (c *Nodes) CheckMachines(ctx context.Context, names []string) ([]string, error) {
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
			return nil, env.ErrNoSuchMachine(n, c.Name(), all)
		}
	}
	return names, nil
}
