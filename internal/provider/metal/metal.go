// Package metal is the provider for physical machines: it takes them out of naupegos server's stock, orders their installation, and
// gives them back.
//
// Its knowledge of machines comes from the registry; the server and the machines themselves carry out installations. It knows nothing
// about booting. It checks installed machines by SSH, like the provider hosts.
package metal

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/hosts"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/bmc"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/store/metal"
)

// Options configures a Provider.
type Options struct {
	Document *v1alpha1.Cluster // defaulted and valid, of this provider
	Registry *registry.Registry
	Run      hosts.Runner
	SSHKeys  []string // keys that may log in to installed machines, as lines of authorized_keys
	// System finds the system image for installations, or returns fail.Refused if there is none.
	System func(ctx context.Context) (order.System, error)

	Patience time.Duration // before a machine that refuses SSH at once is asked again; 0: one second
	Poll     time.Duration // between two looks while waiting; 0: two seconds
	Silence  time.Duration // after which a machine in the discovery system counts as gone; 0: two minutes, because it asks at least once a minute
}

// Provider provides one cluster with machines of the stock.
type Provider struct {
	o     Options
	reach hosts.Reach

	mu    sync.Mutex
	found map[string]answer // by name: the result of the last look at a machine
	odd   []string          // warnings of the last Preflight; see Warnings
}

// answer is the result of looking at a machine.
type answer struct {
	state  provider.State
	detail string
}

var (
	_ provider.Provider = (*Provider)(nil)
	_ provider.Warner   = (*Provider)(nil)

	_ provider.PartlySwitched = (*Provider)(nil)
	_ provider.Reinstaller    = (*Provider)(nil)
)

// New returns the provider of a cluster. It contacts neither registry nor machines.
func New(o Options) *Provider {
	if o.Patience == 0 {
		o.Patience = time.Second
	}
	if o.Poll == 0 {
		o.Poll = 2 * time.Second
	}
	if o.Silence == 0 {
		o.Silence = 2 * time.Minute
	}
	return &Provider{o: o, reach: hosts.Reach{Run: o.Run, Patience: o.Patience}, found: map[string]answer{}}
}

// Traits reports that machines return to a stock, and that they can be switched; Switches reports which.
func (p *Provider) Traits() provider.Traits { return provider.Traits{Stock: true, Switched: true} }

func (p *Provider) cluster() string { return p.o.Document.Metadata.Name }

func (p *Provider) spec() *v1alpha1.Metal { return p.o.Document.Spec.Provider.Metal }

// VIP returns the document's spec.endpoint.vip.
func (p *Provider) VIP(context.Context) (string, error) {
	if v := p.o.Document.Spec.Endpoint.VIP; v != "" {
		return v, nil
	}
	return "", fail.New(fail.NotFound, "spec.endpoint.vip is not set")
}

// Observe finds the machines with seats of this cluster, and checks whether the installed ones answer.
func (p *Provider) Observe(ctx context.Context) (*provider.Inventory, error) {
	all, err := p.claimed(ctx)
	if err != nil {
		return nil, err
	}
	inv := &provider.Inventory{Machines: make([]provider.Machine, len(all))}
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { inv.Machines[i] = p.look(ctx, &all[i]) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, fail.Wrap(fail.KindOf(err), err, "ask machines whether they answer")
	}
	if slices.ContainsFunc(inv.Machines, func(m provider.Machine) bool { return m.Role == provider.Gateway }) {
		inv.VIP = p.o.Document.Spec.Endpoint.VIP
	}
	provider.Sort(inv.Machines)
	return inv, nil
}

// claimed lists the machines with seats of this cluster.
func (p *Provider) claimed(ctx context.Context) ([]registry.Machine, error) {
	all, _, err := p.o.Registry.Find(ctx, metal.Query{Cluster: p.cluster()})
	if err != nil && ctx.Err() != nil {
		err = fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "look for the machines of cluster %s", p.cluster())
	}
	return all, err
}

// holder returns the machine in the seat of this name, or fail.NotFound.
func (p *Provider) holder(ctx context.Context, name string) (*registry.Machine, error) {
	all, err := p.claimed(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if p.named(all[i].Claim).Name == name {
			return &all[i], nil
		}
	}
	return nil, fail.New(fail.NotFound, "no machine of the stock is %s", name).Do("naupegos machine list shows which there are")
}

// Machine reports one machine, with the state that the last look found.
func (p *Provider) Machine(ctx context.Context, name string) (provider.Machine, error) {
	m, err := p.holder(ctx, name)
	if err != nil {
		return provider.Machine{}, err
	}
	p.mu.Lock()
	a, known := p.found[name]
	p.mu.Unlock()
	if !known {
		return p.look(ctx, m), nil
	}
	out := p.convert(m)
	if out.State == provider.Running {
		out.State, out.Detail = a.state, a.detail
	}
	return out, nil
}

// named returns name, role, pool and index of the machine in a seat.
func (p *Provider) named(c metal.Claim) provider.Machine {
	m := provider.Machine{Role: provider.Worker, Pool: c.Pool, Index: c.Seat}
	if c.Pool == registry.ControlPlanePool || c.Pool == registry.GatewayPool {
		m.Role, m.Pool = provider.Role(c.Pool), ""
	}
	m.Name = v1alpha1.MachineName(p.cluster(), string(m.Role), m.Pool, m.Index)
	return m
}

// pool returns the document's pool of a machine.
func (p *Provider) pool(m provider.Machine) v1alpha1.MetalPool {
	return p.spec().Pool(string(m.Role), m.Pool)
}

// convert returns the registry's view of a machine in a seat. State Running means that it is installed, not that it answers.
func (p *Provider) convert(m *registry.Machine) provider.Machine {
	out := p.named(m.Claim)
	out.ID, out.User, out.Port = m.UUID, "root", 22
	if a, err := netip.ParsePrefix(m.Record.Address); err == nil && reachable(a.Addr()) {
		out.Address = a.Addr().String()
	}
	switch why := p.unready(m, out); {
	case why == "":
		out.State, out.HostKeys = provider.Running, m.Record.HostKeys
	case p.gaveUp(m):
		out.State, out.Detail = provider.Failed, m.Title()+": "+why
	default:
		out.State, out.Detail, out.Address = provider.Partial, m.Title()+": "+why, ""
	}
	return out
}

// reachable refuses an address that leads to the server itself or to its link's services: a machine reports its address itself.
func reachable(ip netip.Addr) bool {
	return !ip.IsUnspecified() && !ip.IsLoopback() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast()
}

// unready says why a machine is not usable yet; empty if it is installed and has reported.
func (p *Provider) unready(m *registry.Machine, as provider.Machine) string {
	rec := m.Record
	switch {
	case p.gaveUp(m):
		return "its installation failed: " + rec.Why
	case !p.isOurs(rec.Order, as.Name):
		return "it is not told yet what to install"
	case !m.BootsFromDisk():
		return "it is not installed yet"
	case m.Report == nil || m.Report.At.Before(rec.Installed):
		return "its installed system has not reported yet"
	case len(rec.HostKeys) == 0 || as.Address == "":
		return "its installed system has not told its address and SSH host keys"
	}
	return ""
}

// look checks whether a machine answers by SSH and, if not, asks its BMC whether it is on. It stores the result for Machine.
func (p *Provider) look(ctx context.Context, m *registry.Machine) provider.Machine {
	out := p.convert(m)
	if out.State != provider.Running {
		p.remember(out)
		return out
	}
	out.State, out.Detail = hosts.Judge(p.reach.Ask(ctx, host(out)))
	if out.State == provider.Unreachable && m.Record.BMC != nil {
		switch on, err := p.o.Registry.SwitchPower(ctx, m.UUID, "status", bmc.AsUsual, ""); {
		case err != nil:
			out.Detail += "; " + err.Error()
		case on:
			out.State = provider.Running
		default:
			out.State, out.Detail = provider.Stopped, ""
		}
	}
	p.remember(out)
	return out
}

func (p *Provider) remember(m provider.Machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found[m.Name] = answer{m.State, m.Detail}
}

func host(m provider.Machine) remote.Host {
	return remote.Host{Name: m.Name, Address: m.Address, Port: m.Port, User: m.User, HostKeys: m.HostKeys}
}
