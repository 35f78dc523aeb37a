package render

import (
	"context"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/programs"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/identity"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/provider"
)

// KubeParams returns the parameters that all machines of the cluster share. What only control-plane machines get of all machines is left out.
func (c *Renderer) KubeParams(ctx context.Context) (layout.Params, error) {
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
		ClusterName: c.Name(), Endpoint: endpoint, Release: c.Release(), PodCIDR: s.Kubernetes.PodCIDR, NodeCIDRMaskSize: s.Kubernetes.NodeCIDRMaskSize,
		ServiceCIDR: s.Kubernetes.ServiceCIDR, DNSDomain: s.Kubernetes.DNSDomain,
		EtcdMode: s.Etcd.Mode, CNI: s.Kubernetes.CNI, AuditLog: *s.Security.AuditLog.Enabled, AuditOptions: auditOptions(s.Security.AuditLog),
		ExternalCloud: c.Prov.Traits().ExternalCloud,
		Encryption:    encryption, Harden: *s.Security.CISDefaults,
		Servers: c.Servers(), Ahead: c.ReleaseAt(c.Told().Ahead),
		SharedKernel: c.Prov.Traits().SharedKernel || c.Facts.Is(memory.SharedKernel), AgentPath: c.Agent.RemotePath(), Unattended: c.Bare,
		ExternalCA: c.Vault != nil,
	}
	if p.APIServerSANs, err = c.OuterNames(ctx); err != nil {
		return p, err
	}
	p.APIServerSANs = append(p.APIServerSANs, s.Kubernetes.APIServer.CertSANs...)
	var auditor map[string]any
	if w := s.Kubernetes.APIServer.AuditWebhook; w != nil {
		if auditor, err = c.userFor(ctx, w.Auth, w.URL); err != nil {
			return p, err
		}
	}
	if p.Settings, err = programs.Of(c.Doc, auditor); err != nil {
		return p, err
	}
	if p.Issuers, err = identity.Render(s.Identity.Authenticators()); err != nil {
		return p, err
	}
	if p.Authorization, err = c.Authorization(ctx); err != nil {
		return p, err
	}
	p.Resolvers = append(p.Resolvers, resolver(c.Doc.SettingsOf(v1alpha1.RoleControlPlane, "")))
	for _, pool := range s.Workers {
		p.Resolvers = append(p.Resolvers, resolver(c.Doc.SettingsOf(v1alpha1.RoleWorker, pool.Name)))
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

// approved returns the addresses of nodes by name, for which control-plane machines approve certificates of kubelets.
func approved(ctx context.Context, c *Renderer) (map[string][]string, error) {
	machines, err := c.Addresses(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, m := range machines {
		if m.Role != provider.Gateway {
			all[m.Name] = []string{m.Address}
			if m.Public != "" { // the cloud's controller reports it to kubelet, whose certificate request then includes it
				all[m.Name] = append(all[m.Name], m.Public)
			}
		}
	}
	return all, nil
}

// resolver returns the name servers of a machine's settings.
func resolver(s v1alpha1.MachineSettings) layout.Resolver {
	return layout.Resolver{Servers: s.DNS.Servers, SearchDomains: s.DNS.SearchDomains}
}

// auditOptions returns how API servers keep the audit log.
func auditOptions(a v1alpha1.AuditLog) layout.AuditLog {
	return layout.AuditLog{MaxAgeDays: a.MaxAgeDays, MaxBackups: a.MaxBackups, MaxSizeMiB: a.MaxSizeMiB, Policy: a.Policy}
}

// kubeNode is one machine as Kubernetes will know it, without its facts.
func (c *Renderer) kubeNode(ctx context.Context, name string) (layout.Node, error) {
	addr, err := c.Address(ctx, name)
	if err != nil {
		return layout.Node{}, err
	}
	m, err := c.Prov.Machine(ctx, name)
	n := layout.Node{Name: name, Address: addr, Cloud: cloudInstance(m), Release: c.Release()}
	n.Schedulable = c.Doc.Spec.ControlPlane.Schedulable
	return n, err
}

// etcdStart returns how the member on a control-plane machine starts for the first time: the initial members together, later ones with the list
// of members at their join. It never changes afterwards, because a changed manifest would restart the member.
func (c *Renderer) etcdStart(ctx context.Context, name string) (layout.EtcdStart, error) {
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

// InitialMembers lists the machines that form the static initial etcd cluster.
func (c *Renderer) InitialMembers() map[string]string {
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

// poolLabel names a worker's pool on its node.
const poolLabel = "naupegos.dev/pool"

// Marks returns the wanted labels and taints of a machine's node.
func (c *Renderer) Marks(s wanted.Slot) kube.Marks {
	if s.IsControlPlane() {
		m := kube.Marks{Labels: map[string]string{
			"node-role.kubernetes.io/control-plane":                   "",
			"node.kubernetes.io/exclude-from-external-load-balancers": "",
		}}
		for k, v := range c.Doc.Spec.ControlPlane.Labels {
			m.Labels[k] = v
		}
		if !c.Doc.Spec.ControlPlane.Schedulable {
			m.Taints = []kube.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: "NoSchedule"}}
		}
		return m
	}
	m := kube.Marks{Labels: map[string]string{poolLabel: s.Pool}}
	for _, w := range c.Doc.Spec.Workers {
		if w.Name != s.Pool {
			continue
		}
		if w.Scales() && !c.Prov.Traits().ExternalCloud { // kubelet sets it itself
			m.ProviderID = c.ProviderID(provider.Machine{Name: s.Name})
		}
		for k, v := range w.Labels {
			m.Labels[k] = v
		}
		for _, t := range w.Taints {
			m.Taints = append(m.Taints, kube.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
	}
	return m
}

// ProviderID returns the provider ID of a machine's node.
func (c *Renderer) ProviderID(m provider.Machine) string {
	if c.Prov.Traits().ExternalCloud && m.ID != "" {
		return cloudInstance(m).ProviderID
	}
	return "naupegos://" + c.Record.ID + "/" + m.Name
}
