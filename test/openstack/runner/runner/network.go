package runner

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
)

// network is one Neutron network as a local cluster of machines. A machine's Pool is its server's ID.
type network struct {
	sub  subnet
	base local.Options
	log  *slog.Logger
	host netip.Addr // this host's address in it

	plain *local.Provider // finds, starts, stops and removes machines, whatever is in their image
	meta  *metadata
	who   func(netip.Addr) (server, bool)

	mu    sync.Mutex        // one plan at a time
	names map[string]string // of machines, by server ID
	proxy *metadataProxy
}

// clusterID names the local cluster of a Neutron network: both know each other by the first digits of the network's ID.
func clusterID(network string) string { return "os-" + strings.ReplaceAll(network, "-", "")[:8] }

// newNetwork fails where the subnet can't be a local cluster's: such a network's servers stay fake.
func newNetwork(o Options, sub subnet, meta *metadata, who func(netip.Addr) (server, bool)) (*network, error) {
	base := o.Machines
	base.ClusterID, base.ClusterName, base.CIDR = clusterID(sub.Network), "Neutron network "+sub.Name, sub.Prefix.String()
	base.CloudImage, base.InstanceID = true, func(m provider.MachineSpec) string { return m.Pool }
	n := &network{
		sub: sub, base: base, log: o.Log.With("network", sub.Name), host: sub.Prefix.Masked().Addr().Next(),
		names: map[string]string{}, meta: meta, who: who,
	}
	if sub.Gateway.IsValid() && sub.Gateway != n.host {
		n.log.Warn("the subnet's gateway is not its first address, which machines use", "gateway", sub.Gateway)
	}
	plain := base
	plain.AgentBinary = ""
	var err error
	n.plain, err = local.New(plain)
	return n, err
}

// machines returns what exists, by server ID. A half-made machine may have lost whose it is: it is under its name, then.
func (n *network) machines(ctx context.Context) (map[string]provider.Machine, error) {
	inv, err := n.plain.Observe(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]provider.Machine{}
	for _, m := range inv.Machines {
		id := m.Pool
		if id == "" {
			id = "machine " + m.Name
		}
		out[id] = m
	}
	return out, nil
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// nameFor is the machine's name: the server's host name, or its ID where that is not a name or another's already.
// Call it under the lock.
func (n *network) nameFor(s server, hostname string, inv *provider.Inventory) string {
	if name := n.names[s.ID]; name != "" {
		return name
	}
	name, _, _ := strings.Cut(strings.ToLower(hostname), ".")
	free := dnsLabel.MatchString(name)
	for id, other := range n.names {
		free = free && (other != name || id == s.ID)
	}
	for _, m := range inv.Machines {
		if m.Pool == s.ID {
			return m.Name
		}
		free = free && m.Name != name
	}
	if !free {
		name = s.ID
	}
	n.names[s.ID] = name
	return name
}

// boot makes the server's machine exist and run, by a provider of its own, which forgets the address it planned: the next server
// may get the same one.
func (n *network) boot(ctx context.Context, s server, at netip.Addr, in instance, opts local.Options) error {
	p, err := local.New(opts)
	if err != nil {
		return err
	}
	step, err := n.prepare(ctx, p, s, at, in)
	if err != nil || step == nil {
		return err
	}
	return n.run(ctx, step)
}

// prepare makes the network and the image where they are missing, and returns the step that makes the machine; nil where
// it runs.
func (n *network) prepare(ctx context.Context, p *local.Provider, s server, at netip.Addr, in instance) (*plan.Step, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	inv, err := p.Observe(ctx)
	if err != nil {
		return nil, err
	}
	name := n.nameFor(s, in.Hostname, inv)
	data, err := userData(name, in)
	if err != nil {
		return nil, err
	}
	spec := provider.MachineSpec{Name: name, Role: provider.Worker, Pool: s.ID, Index: 1, Address: at.String(), UserData: data}
	steps, err := p.Steps(ctx, provider.Wanted{Machines: []provider.MachineSpec{spec}}, inv)
	if err != nil {
		return nil, err
	}
	var last *plan.Step
	for _, step := range steps {
		if step.ID == provider.MachineStep(name) {
			last = step
		} else if err := n.run(ctx, step); err != nil {
			return nil, err
		}
	}
	return last, n.listen()
}

// answer has the metadata proxy of a network that exists run, as after a former runner's end.
func (n *network) answer() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listen()
}

// listen starts the metadata proxy where it is not. Call it under the lock.
func (n *network) listen() (err error) {
	if n.proxy == nil {
		n.proxy, err = n.meta.startProxy(n.host, n.who)
	}
	return err
}

// userData is what Nova gives out, or what lets the server's key pair log in where it gives out none.
func userData(name string, in instance) ([]byte, error) {
	if len(in.UserData) > 0 {
		return in.UserData, nil
	}
	var keys []string
	for _, k := range in.PublicKeys {
		keys = append(keys, strings.TrimSpace(k))
	}
	if len(keys) == 0 || !dnsLabel.MatchString(name) {
		return []byte("#cloud-config\n{}\n"), nil
	}
	return machine.CloudInit(machine.UserData{Hostname: name, SSHKeys: keys, HostKeysToConsole: true})
}

// run carries one step out, within its own time.
func (n *network) run(ctx context.Context, s *plan.Step) error {
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Timeout)
		defer cancel()
	}
	began := time.Now()
	if err := s.Run(ctx, told{n.log.With("step", s.ID)}); err != nil {
		return err
	}
	n.log.Info("done: "+s.Title, "seconds", fmt.Sprintf("%.1f", time.Since(began).Seconds()))
	return nil
}

// told logs what a step has to say.
type told struct{ log *slog.Logger }

func (t told) Status(format string, args ...any) { t.log.Debug(fmt.Sprintf(format, args...)) }

// destroy removes one machine and all that is its own.
func (n *network) destroy(ctx context.Context, m provider.Machine) error {
	if err := n.run(ctx, n.plain.DestroyMachine(m)); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.names, m.Pool)
	return nil
}

// remove takes the network and every machine in it off this host, and proves it.
func (n *network) remove(ctx context.Context) error {
	n.mu.Lock()
	proxy := n.proxy
	n.proxy = nil
	n.mu.Unlock()
	if proxy != nil {
		if err := proxy.close(); err != nil {
			return err
		}
	}
	p := n.plain
	inv, err := p.Observe(ctx)
	if err != nil {
		return err
	}
	for _, s := range p.Destroy(ctx, inv) { // in the order of their needs
		if err := n.run(ctx, s); err != nil {
			return fail.Wrap(fail.KindOf(err), err, "%s", s.Title).At(n.sub.Name)
		}
	}
	return nil
}

// served reports what the packet filter needs of the network; false while it is not made.
func (n *network) served() (served, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proxy == nil {
		return served{}, false
	}
	return served{Bridge: n.plain.Bridge(), Prefix: n.sub.Prefix, Proxy: n.proxy.address()}, true
}
