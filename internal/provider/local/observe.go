package local

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/address"
	"github.com/naupegos/naupegos/internal/provider/local/hostnet"
	"github.com/naupegos/naupegos/internal/provider/local/process"
)

// Observe finds the cluster's machines and its other remains on this host. It changes nothing.
func (p *Provider) Observe(ctx context.Context) (*provider.Inventory, error) {
	rs, err := records(p.n.machines())
	if err != nil {
		return nil, err
	}
	inv := &provider.Inventory{}
	for _, r := range rs {
		m, err := p.observed(r)
		if err != nil {
			return nil, err
		}
		inv.Machines = append(inv.Machines, m)
	}
	provider.Sort(inv.Machines)
	subnet, err := p.subnetOf()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(p.n.network()); err == nil {
		inv.VIP = address.Nth(subnet, address.VIP).String()
	}
	inv.Others, err = p.others(rs)
	return inv, err
}

// observed reports the state of a recorded machine.
func (p *Provider) observed(r record) (provider.Machine, error) {
	m := provider.Machine{
		Name: r.Name, Role: r.Role, Pool: r.Pool, Index: r.Index, Address: r.ip(), User: "root", Port: 22, State: provider.Stopped,
	}
	if r.HostKey != "" {
		m.HostKeys = []string{r.HostKey}
	}
	if r.damage != "" {
		m.State, m.Detail = provider.Failed, "its record is damaged: "+r.damage
		return m, nil
	}
	if !r.Created {
		m.State, m.Detail = provider.Partial, "its disk is not complete"
		return m, nil
	}
	running, err := supervisor(p.n.machine(r.Name))
	if err != nil {
		return m, err
	}
	if running.Alive() {
		return m, p.checkRunning(r, &m)
	}
	groups, err := p.n.machineCgroups(r.Name)
	if err != nil {
		return m, err
	}
	left, err := process.PIDs(groups)
	if len(left) > 0 {
		m.State, m.Detail = provider.Failed, fmt.Sprintf("its supervisor is gone but %d of its processes still run", len(left))
	}
	return m, err
}

// checkRunning sets the state of a machine whose supervisor is alive.
func (p *Provider) checkRunning(r record, m *provider.Machine) error {
	m.State = provider.Running
	ok, err := hostnet.Attached(r.Link, r.Bridge)
	if err == nil && !ok {
		m.State, m.Detail = provider.Failed, "it runs, but its link "+r.Link+" is not on bridge "+r.Bridge
	}
	return err
}

// others lists parts of the cluster that belong to no machine: stray links, and the network if no machine is left.
func (p *Provider) others(rs []record) ([]string, error) {
	var out []string
	if _, err := os.Stat(p.n.network()); err == nil && len(rs) == 0 {
		out = append(out, "network record "+p.n.network())
	}
	links, err := hostnet.LinksOf(p.n.linkPrefix())
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		if !slices.ContainsFunc(rs, func(r record) bool { return r.Link == l }) {
			out = append(out, "link "+l)
		}
	}
	return out, nil
}

// Machine reports the current state of one machine. A machine that Steps has assigned an address but that does not exist yet is
// Partial.
func (p *Provider) Machine(_ context.Context, name string) (provider.Machine, error) {
	r, err := readRecord(p.n.machine(name))
	if err == nil && r.Name == name {
		return p.observed(r)
	}
	p.mu.Lock()
	planned, ok := p.planned[name]
	p.mu.Unlock()
	if ok {
		m, err := p.observed(planned)
		m.Detail = "not made yet"
		return m, err
	}
	return provider.Machine{}, fail.New(fail.NotFound, "cluster %s has no machine of this name on this host", p.opts.ClusterName).At(name)
}

// VIP returns the virtual address for gateways, or fail.NotFound until the subnet is known.
func (p *Provider) VIP(context.Context) (string, error) {
	subnet, err := p.subnetOf()
	if err != nil {
		return "", err
	}
	if !subnet.IsValid() {
		return "", fail.New(fail.NotFound, "cluster %s has no network yet", p.opts.ClusterName)
	}
	return address.Nth(subnet, address.VIP).String(), nil
}

// Network returns the subnet of the cluster's machines; it is invalid until one is chosen.
func (p *Provider) Network(context.Context) (netip.Prefix, error) { return p.subnetOf() }
