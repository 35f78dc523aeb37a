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

// network is a Neutron network with its local cluster of machines. A machine's Pool is its server's ID.
type network struct {
	sub  subnet
	base local.Options
	log  *slog.Logger
	host netip.Addr // this host's address in it

	plain *local.Provider // finds, starts, stops and removes machines of any image
	meta  *metadata
	who   func(netip.Addr) (server, bool)

	mu    sync.Mutex        // one plan at a time
	names map[string]string // of machines, by server ID
	proxy *metadataProxy
}

// clusterID returns the name of a Neutron network's local cluster. It contains the first digits of the network's ID.
func clusterID(network string) string { return "os-" + strings.ReplaceAll(network, "-", "")[:8] }

// newNetwork fails if the subnet does not suit a local cluster. Servers on such a network stay fake.
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

// machines returns the existing machines by server ID. A partly created machine may lack its server's ID and is listed by its name.
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

// nameFor returns the machine's name: the server's host name, or its ID if the host name is invalid or taken. The caller holds the lock.
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

// boot creates and starts the server's machine. It uses a provider of its own that does not keep the planned address, because the next server may
// get the same address.
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

// prepare creates the network and the image if they are missing, and returns the step that creates the machine, or nil if the machine runs.
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

// answer starts the metadata proxy of an existing network, for example after an earlier runner has ended.
func (n *network) answer() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listen()
}

// listen starts the metadata proxy if it does not run. The caller holds the lock.
func (n *network) listen() (err error) {
	if n.proxy == nil {
		n.proxy, err = n.meta.startProxy(n.host, n.who)
	}
	return err
}

// userData returns Nova's user-data or, if there is none, user-data that authorises the server's key pair.
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

// run executes one step within the step's time limit.
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

// told logs the output of a step.
type told struct{ log *slog.Logger }

func (t told) Status(format string, args ...any) { t.log.Debug(fmt.Sprintf(format, args...)) }

// destroy removes one machine and everything that belongs to it.
func (n *network) destroy(ctx context.Context, m provider.Machine) error {
	if err := n.run(ctx, n.plain.DestroyMachine(m)); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.names, m.Pool)
	return nil
}

// remove removes the network and all its machines from this host, and checks the result.
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
	for _, s := range p.Destroy(ctx, inv) { // in the order of their dependencies
		if err := n.run(ctx, s); err != nil {
			return fail.Wrap(fail.KindOf(err), err, "%s", s.Title).At(n.sub.Name)
		}
	}
	return nil
}

// served returns the network's data for the packet filter, or false if the network does not exist yet.
func (n *network) served() (served, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proxy == nil {
		return served{}, false
	}
	return served{Bridge: n.plain.Bridge(), Prefix: n.sub.Prefix, Proxy: n.proxy.address()}, true
}
