// Package render renders each machine of a cluster: its files, units, programs and images, and its user-data.
package render

import (
	"context"
	"strings"
	"sync"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/filter"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/programs"
	"github.com/naupegos/naupegos/internal/cluster/site"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/gateway"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// Renderer renders the machines of one cluster from its document, its facts and the addresses that the provider knows.
type Renderer struct {
	*connect.Conn
	addresses func(context.Context) ([]provider.Machine, error) // of a Snapshot; nil: as they are now
	peers     func(context.Context) (filter.Peers, error)       // likewise
}

// Snapshot returns a Renderer of machines whose addresses do not change meanwhile. It looks them up once, and not for each machine that it renders.
func (c *Renderer) Snapshot() *Renderer {
	var once, sorted sync.Once
	var all []provider.Machine
	var peers filter.Peers
	var err, unsorted error
	r := &Renderer{Conn: c.Conn, addresses: func(ctx context.Context) ([]provider.Machine, error) {
		once.Do(func() { all, err = c.Addresses(ctx) })
		return all, err
	}}
	r.peers = func(ctx context.Context) (filter.Peers, error) {
		sorted.Do(func() { peers, unsorted = peersOf(ctx, r) })
		return peers, unsorted
	}
	return r
}

// peersOf returns the addresses of all machines for packet filters.
func peersOf(ctx context.Context, c *Renderer) (filter.Peers, error) {
	machines, err := c.Addresses(ctx)
	if err != nil {
		return filter.Peers{}, err
	}
	all := make([]string, 0, len(machines))
	for _, m := range machines {
		all = append(all, m.Address)
	}
	return filter.PeersOf(all)
}

// Addresses returns the wanted machines with a known address, by name. The slice must not be changed.
func (c *Renderer) Addresses(ctx context.Context) ([]provider.Machine, error) {
	if c.addresses != nil {
		return c.addresses(ctx)
	}
	return c.Conn.Addresses(ctx)
}

// CanRender reports whether a machine's configuration is known yet: it depends on facts that the first apply creates.
func (c *Renderer) CanRender(s wanted.Slot) bool {
	return c.Current != nil && (c.Facts.Bootstrapped() || c.Facts.Get(memory.EtcdInitial) != "")
}

// Config returns the complete configuration of a machine.
func (c *Renderer) Config(ctx context.Context, s wanted.Slot, f machine.Facts) (machine.Config, error) {
	base, err := c.base(ctx, s)
	if err != nil {
		return machine.Config{}, err
	}
	role, err := c.renderRole(ctx, s, f)
	if err != nil {
		return machine.Config{}, err
	}
	fence, err := c.fence(ctx, s)
	if err != nil {
		return machine.Config{}, err
	}
	outside, err := c.outside(ctx, s, role)
	if err != nil {
		return machine.Config{}, err
	}
	settings := site.Settings(c.Doc.SettingsOf(string(s.Role), s.Pool), f)
	if err := site.Clash(s.Name, settings, site.Layer{Owner: "Naupegos itself", Config: base}, site.Layer{Owner: "what a " + string(s.Role) + " machine runs", Config: role},
		site.Layer{Owner: "the packet filter", Config: fence}, site.Layer{Owner: "spec.proxy, spec.registries or spec.registry", Config: outside}); err != nil {
		return machine.Config{}, err
	}
	if s.Role != provider.Gateway {
		settings.Release = c.ReleaseOf(s).Version
	}
	// Programs read files of the document, too: these are in place before the static pods start or restart.
	files := machine.Config{Files: settings.Files}
	settings.Files = nil
	return machine.Merge(base, files, role, fence, outside, settings)
}

func (c *Renderer) renderRole(ctx context.Context, s wanted.Slot, f machine.Facts) (machine.Config, error) {
	if s.Role == provider.Gateway {
		return c.RenderGateway(ctx, s, f)
	}
	p, err := c.KubeParams(ctx)
	if err != nil {
		return machine.Config{}, err
	}
	n, err := c.kubeNode(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	n.Facts, n.ResolvConf, n.Release = f, f.ResolvConf, c.ReleaseOf(s)
	n.Resolver = resolver(c.Doc.SettingsOf(string(s.Role), s.Pool))
	if len(p.ControlPlanes) > 0 && p.ControlPlanes[0].Facts.CgroupVersion == 0 { // the first apply: they are most likely alike
		p.ControlPlanes[0].Facts.CgroupVersion = f.CgroupVersion
	}
	if s.Role == provider.Worker {
		if n.Kubelet, err = programs.OfPool(c.Doc.Spec, s.Pool); err != nil {
			return machine.Config{}, err
		}
		return p.Worker(ctx, c.PKI, n)
	}
	start, err := c.etcdStart(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	if p.Machines, err = approved(ctx, c); err != nil {
		return machine.Config{}, err
	}
	conf, err := p.ControlPlane(ctx, c.PKI, n, start)
	if err != nil {
		return machine.Config{}, err
	}
	if !c.Prov.Traits().Given { // there it is the user's own file
		conf.Files = append(conf.Files, rootKubeconfig(conf)...)
	}
	backups, err := c.BackupLayer(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	return machine.Merge(conf, backups)
}

// rootKubeconfig makes kubectl, run by root on the machine, ask the cluster's API.
func rootKubeconfig(conf machine.Config) []machine.File {
	for _, f := range conf.Files {
		if f.Path == "/etc/kubernetes/admin.conf" {
			f.Path = "/root/.kube/config"
			return []machine.File{f}
		}
	}
	return nil
}

// base renders the part that all roles share: the SSH keys and the machines' names.
func (c *Renderer) base(ctx context.Context, s wanted.Slot) (machine.Config, error) {
	var hosts strings.Builder
	hosts.WriteString("# Managed by Naupegos.\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")
	machines, err := c.Addresses(ctx)
	if err != nil {
		return machine.Config{}, err
	}
	var gateways []string
	for _, m := range machines {
		hosts.WriteString(m.Address + " " + m.Name + "\n")
		if m.Role == provider.Gateway && s.IsControlPlane() && wanted.Relayed(c.Known()) {
			gateways = append(gateways, m.Address)
		}
	}
	files, err := c.cloudFiles(s)
	return machine.Config{Machine: s.Name, Files: append(c.LoginFiles(hosts.String()), files...), Units: gateway.Relay(c.Agent.RemotePath(), gateways)}, err
}

// fence renders a machine's packet filter, if it has one.
func (c *Renderer) fence(ctx context.Context, s wanted.Slot) (machine.Config, error) {
	if !c.Fenced(s.Role) {
		return machine.Config{Machine: s.Name}, nil
	}
	p := filter.Params{
		Machine: s.Name, ControlPlane: s.IsControlPlane(), VXLAN: c.Doc.Spec.Kubernetes.CNI == layout.CNIFlannel,
		Pods: c.Doc.Spec.Kubernetes.PodCIDR, Admit: c.Doc.Spec.Security.PacketFilter.Admit,
	}
	if c.Doc.Spec.Registry != nil && s.IsControlPlane() {
		p.Registry = v1alpha1.RegistryPort
	}
	p.Metrics = v1alpha1.AddonPorts(c.Doc)
	var err error
	if c.peers != nil {
		p.Machines, err = c.peers(ctx)
	} else {
		p.Machines, err = peersOf(ctx, c)
	}
	if err != nil {
		return machine.Config{}, err
	}
	return filter.Config(p)
}

// AddressUnknown reports whether a machine's address is unknown until its creation.
func (c *Renderer) AddressUnknown(name string) bool {
	m, err := c.Prov.Machine(context.Background(), name)
	return err != nil || m.Address == ""
}

// WantedMachines returns the request to the provider.
func (c *Renderer) WantedMachines(slots []wanted.Slot) (provider.Wanted, error) {
	want := provider.Wanted{VIP: c.Doc.GatewayCount() > 0}
	for _, s := range slots {
		data, err := c.userData(s)
		if err != nil {
			return want, err
		}
		want.Machines = append(want.Machines, provider.MachineSpec{Name: s.Name, Role: s.Role, Pool: s.Pool, Index: s.Index, UserData: data})
	}
	return want, nil
}

// userData renders a machine's user-data in the form that its image reads; it holds no secret. Machines that the document gives have none: they run
// already, and their names need not be hostnames.
func (c *Renderer) userData(s wanted.Slot) ([]byte, error) {
	if c.Prov.Traits().Given {
		return nil, nil
	}
	u := machine.UserData{Hostname: s.Name, SSHKeys: c.AuthorizedKeys()}
	if !c.Prov.Traits().HostKeysConsole {
		return machine.CloudInit(u)
	}
	u.HostKeysToConsole = true // where Naupegos reads them
	return u.Render(c.Doc.Shape(string(s.Role), s.Pool).UserData)
}
