package cluster

import (
	"context"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/gateway"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/provider"
)

const (
	gatewayRole = "gateway"
)

// render says everything that a machine should be.
func (c *Cluster) render(ctx context.Context, s wanted.Slot, f machine.Facts) (machine.Config, error) {
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
	return machine.Merge(base, role, fence)
}

func (c *Cluster) renderRole(ctx context.Context, s wanted.Slot, f machine.Facts) (machine.Config, error) {
	if s.Role == provider.Gateway {
		return c.renderGateway(ctx, s, f)
	}
	p, err := c.kubeParams(ctx)
	if err != nil {
		return machine.Config{}, err
	}
	n, err := c.kubeNode(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	n.Facts, n.ResolvConf, n.Release = f, f.ResolvConf, c.ReleaseOf(s)
	if len(p.ControlPlanes) > 0 && p.ControlPlanes[0].Facts.CgroupVersion == 0 { // the first apply: they are most likely alike
		p.ControlPlanes[0].Facts.CgroupVersion = f.CgroupVersion
	}
	if s.Role == provider.Worker {
		return p.Worker(ctx, c.PKI, n)
	}
	start, err := c.etcdStart(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	conf, err := p.ControlPlane(ctx, c.PKI, n, start)
	if err != nil {
		return machine.Config{}, err
	}
	backups, err := c.backupLayer(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	return machine.Merge(conf, backups)
}

// base is what machines of every role have: who may log in, and each other's names.
func (c *Cluster) base(ctx context.Context, s wanted.Slot) (machine.Config, error) {
	hosts := "# Managed by Naupegos.\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
	machines, err := c.Addresses(ctx)
	if err != nil {
		return machine.Config{}, err
	}
	var gateways []string
	for _, m := range machines {
		hosts += m.Address + " " + m.Name + "\n"
		if m.Role == provider.Gateway && s.IsControlPlane() && wanted.Relayed(c.Doc, c.Known()) {
			gateways = append(gateways, m.Address)
		}
	}
	files, err := c.cloudFiles(s)
	return machine.Config{Machine: s.Name, Files: append(c.LoginFiles(hosts), files...), Units: gateway.Relay(c.Agent.RemotePath(), gateways)}, err
}

// renderGateway says what a gateway should be.
func (c *Cluster) renderGateway(ctx context.Context, s wanted.Slot, f machine.Facts) (machine.Config, error) {
	ca, err := c.PKI.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return machine.Config{}, err
	}
	vip, err := c.VIP(ctx)
	if err != nil {
		return machine.Config{}, err
	}
	p := gateway.Params{
		ClusterName: c.Name(), ClusterID: c.Record.ID, VIP: vip, Port: c.Doc.Spec.Endpoint.Port, Interface: f.Interface,
		AgentPath: c.Agent.RemotePath(), CACert: ca,
		Relayed: wanted.Relayed(c.Doc, c.Known()),
	}
	if p.Fronts, err = c.ingressFronts(ctx); err != nil {
		return machine.Config{}, err
	}
	for _, m := range c.Known() {
		if m.Role == provider.Worker {
			continue
		}
		addr, err := c.Address(ctx, m.Name)
		if err != nil {
			return machine.Config{}, err
		}
		if m.Role == provider.Gateway {
			p.Nodes = append(p.Nodes, gateway.Node{Name: m.Name, Address: addr})
		} else {
			p.Backends = append(p.Backends, gateway.Backend{Name: m.Name, Address: addr, Port: connect.APIPort})
		}
	}
	self, err := c.Address(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	conf, err := gateway.Config(p, gateway.Node{Name: s.Name, Address: self})
	if err != nil || c.Doc.Spec.Access.WireGuard == nil {
		return conf, err
	}
	peers, err := c.wireGuardLayer(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	return machine.Merge(conf, peers)
}

// ingressFronts returns the ports of web traffic that gateways pass to the workers. It leaves out a worker without an address, which may never come:
// the API is behind the same gateways. Gateways would also restart twice for a worker that exists only while its pool changes.
func (c *Cluster) ingressFronts(ctx context.Context) ([]gateway.Front, error) {
	in := c.Doc.Spec.Endpoint.IngressWanted()
	if in == nil {
		return nil, nil
	}
	web := gateway.Front{Name: "ingress-http", Port: v1alpha1.HTTPPort}
	tls := gateway.Front{Name: "ingress-https", Port: v1alpha1.HTTPSPort}
	for _, s := range wanted.Own(c.Known()) {
		if s.Role != provider.Worker {
			continue
		}
		name := s.Name
		addr, err := c.Address(ctx, name)
		if fail.KindOf(err) == fail.NotReady {
			continue
		}
		if err != nil {
			return nil, err
		}
		web.Backends = append(web.Backends, gateway.Backend{Name: name, Address: addr, Port: in.HTTPNodePort})
		tls.Backends = append(tls.Backends, gateway.Backend{Name: name, Address: addr, Port: in.HTTPSNodePort})
	}
	return []gateway.Front{web, tls}, nil
}

// kubeParams is what all machines of the cluster have in common.
func (c *Cluster) kubeParams(ctx context.Context) (layout.Params, error) {
	endpoint, err := c.Endpoint(ctx)
	if err != nil {
		return layout.Params{}, err
	}
	encryption, err := c.Encryption()
	if err != nil {
		return layout.Params{}, err
	}
	s := c.Doc.Spec
	p := layout.Params{
		ClusterName: c.Name(), Endpoint: endpoint, Release: c.Release(), PodCIDR: s.Kubernetes.PodCIDR,
		ServiceCIDR: s.Kubernetes.ServiceCIDR, DNSDomain: s.Kubernetes.DNSDomain,
		EtcdMode: s.Etcd.Mode, CNI: s.Kubernetes.CNI, AuditLog: *s.Security.AuditLog.Enabled, AuditOptions: auditOptions(s.Security.AuditLog),
		ExternalCloud: c.Prov.Traits().ExternalCloud,
		Encryption:    encryption, Harden: *s.Security.CISDefaults,
		Servers: c.Servers(), Ahead: c.ReleaseAt(c.Told().Ahead),
		SharedKernel: c.Prov.Traits().SharedKernel || c.Facts.Is(memory.SharedKernel), AgentPath: c.Agent.RemotePath(), Machines: map[string][]string{}, Unattended: c.Bare,
		ExternalCA: c.Vault != nil,
	}
	if p.APIServerSANs, err = c.OuterNames(ctx); err != nil {
		return p, err
	}
	machines, err := c.Addresses(ctx)
	if err != nil {
		return p, err
	}
	for _, m := range machines {
		if m.Role != provider.Gateway {
			p.Machines[m.Name] = []string{m.Address}
			if m.Public != "" { // the cloud's controller tells it to kubelet, which asks for a certificate that names it
				p.Machines[m.Name] = append(p.Machines[m.Name], m.Public)
			}
		}
	}
	for _, name := range c.NamesOf(provider.ControlPlane) {
		n, err := c.kubeNode(ctx, name)
		if err != nil {
			return p, err
		}
		p.ControlPlanes = append(p.ControlPlanes, n)
	}
	if v, err := strconv.Atoi(c.Facts.Get(memory.CgroupVersion)); err == nil && len(p.ControlPlanes) > 0 {
		p.ControlPlanes[0].Facts.CgroupVersion = v
	}
	return p, nil
}

// auditOptions says how the audit log is to be kept.
func auditOptions(a v1alpha1.AuditLog) layout.AuditLog {
	return layout.AuditLog{MaxAgeDays: a.MaxAgeDays, MaxBackups: a.MaxBackups, MaxSizeMiB: a.MaxSizeMiB, Policy: a.Policy}
}

// kubeNode is one machine as Kubernetes will know it, without its facts.
func (c *Cluster) kubeNode(ctx context.Context, name string) (layout.Node, error) {
	addr, err := c.Address(ctx, name)
	if err != nil {
		return layout.Node{}, err
	}
	m, err := c.Prov.Machine(ctx, name)
	n := layout.Node{Name: name, Address: addr, Cloud: cloudInstance(m), Release: c.Release()}
	n.Schedulable = c.Doc.Spec.ControlPlane.Schedulable
	return n, err
}

// etcdStart says how the member on a control-plane machine starts for the first time: all initial members at once, later
// ones as they were when they joined. It never changes afterwards, for a changed manifest would restart the member.
func (c *Cluster) etcdStart(ctx context.Context, name string) (layout.EtcdStart, error) {
	if joined := c.Facts.Of(memory.EtcdJoin, name); joined != "" {
		return layout.EtcdStart{InitialCluster: parseInitialCluster(joined), State: "existing"}, nil
	}
	start := layout.EtcdStart{InitialCluster: map[string]string{}, State: "new"}
	initial := c.Facts.Get(memory.EtcdInitial)
	for n, url := range parseInitialCluster(initial) {
		start.InitialCluster[n] = url
	}
	if _, ok := start.InitialCluster[name]; !ok {
		return start, fail.New(fail.NotReady, "the etcd member of %s was not added yet", name)
	}
	return start, nil
}

// initialMembers lists the machines that form the static initial etcd cluster.
func (c *Cluster) initialMembers() map[string]string {
	return parseInitialCluster(c.Facts.Get(memory.EtcdInitial))
}

// parseInitialCluster reads etcd's own form, "name=url,name=url".
func parseInitialCluster(s string) map[string]string {
	m := map[string]string{}
	for _, part := range strings.Split(s, ",") {
		if name, url, ok := strings.Cut(part, "="); ok {
			m[name] = url
		}
	}
	return m
}
