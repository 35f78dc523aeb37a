package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/agent/turns"
	"github.com/naupegos/naupegos/internal/backup/s3"
	"github.com/naupegos/naupegos/internal/backup/swift"
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
	apiPort     = layout.APIServerPort
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
	n.Facts, n.ResolvConf, n.Release = f, f.ResolvConf, c.releaseOf(s)
	if len(p.ControlPlanes) > 0 && p.ControlPlanes[0].Facts.CgroupVersion == 0 { // the first apply: they are most likely alike
		p.ControlPlanes[0].Facts.CgroupVersion = f.CgroupVersion
	}
	if s.Role == provider.Worker {
		return p.Worker(ctx, c.pki, n)
	}
	start, err := c.etcdStart(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	conf, err := p.ControlPlane(ctx, c.pki, n, start)
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
	var hosts strings.Builder
	hosts.WriteString("# Managed by Naupegos.\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")
	machines, err := c.addresses(ctx)
	if err != nil {
		return machine.Config{}, err
	}
	for _, m := range machines {
		fmt.Fprintf(&hosts, "%s %s\n", m.Address, m.Name)
	}
	files, err := c.cloudFiles(s)
	return machine.Config{Machine: s.Name, Files: append(c.loginFiles(hosts.String()), files...)}, err
}

// addresses lists the wanted machines whose address is known, by name.
func (c *Cluster) addresses(ctx context.Context) ([]provider.Machine, error) {
	var ms []provider.Machine
	for _, s := range c.known() {
		m, err := c.prov.Machine(ctx, s.Name)
		if fail.KindOf(err) == fail.NotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		if m.Address != "" {
			ms = append(ms, m)
		}
	}
	sort.Slice(ms, func(i, j int) bool { return ms[i].Name < ms[j].Name })
	return ms, nil
}

// renderGateway says what a gateway should be.
func (c *Cluster) renderGateway(ctx context.Context, s wanted.Slot, f machine.Facts) (machine.Config, error) {
	ca, err := c.pki.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return machine.Config{}, err
	}
	vip, err := c.vip(ctx)
	if err != nil {
		return machine.Config{}, err
	}
	p := gateway.Params{
		ClusterName: c.Name(), ClusterID: c.rec.ID, VIP: vip, Port: c.doc.Spec.Endpoint.Port, Interface: f.Interface,
		AgentPath: c.agent.remotePath(), CACert: ca,
	}
	if p.Fronts, err = c.ingressFronts(ctx); err != nil {
		return machine.Config{}, err
	}
	for _, m := range c.known() {
		if m.Role == provider.Worker {
			continue
		}
		addr, err := c.address(ctx, m.Name)
		if err != nil {
			return machine.Config{}, err
		}
		if m.Role == provider.Gateway {
			p.Nodes = append(p.Nodes, gateway.Node{Name: m.Name, Address: addr})
		} else {
			p.Backends = append(p.Backends, gateway.Backend{Name: m.Name, Address: addr, Port: apiPort})
		}
	}
	self, err := c.address(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	conf, err := gateway.Config(p, gateway.Node{Name: s.Name, Address: self})
	if err != nil || c.doc.Spec.Access.WireGuard == nil {
		return conf, err
	}
	peers, err := c.wireGuardLayer(ctx, s.Name)
	if err != nil {
		return machine.Config{}, err
	}
	return machine.Merge(conf, peers)
}

// ingressFronts are the ports of web traffic that gateways pass to the workers; none where the document wants none. A worker without an
// address is left out until it has one: the API is reached through the gateways, and one worker that never comes must not keep it. Gateways would restart
// twice for one that is there only while its pool is changed.
func (c *Cluster) ingressFronts(ctx context.Context) ([]gateway.Front, error) {
	in := c.doc.Spec.Endpoint.IngressWanted()
	if in == nil {
		return nil, nil
	}
	web := gateway.Front{Name: "ingress-http", Port: v1alpha1.HTTPPort}
	tls := gateway.Front{Name: "ingress-https", Port: v1alpha1.HTTPSPort}
	for _, s := range wanted.Own(c.known()) {
		if s.Role != provider.Worker {
			continue
		}
		name := s.Name
		addr, err := c.address(ctx, name)
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

// address returns a machine's address; fail.NotReady while it has none, as one that is just being replaced.
func (c *Cluster) address(ctx context.Context, name string) (string, error) {
	m, err := c.prov.Machine(ctx, name)
	if err != nil && fail.KindOf(err) != fail.NotFound {
		return "", err
	}
	if m.Address == "" {
		return "", fail.New(fail.NotReady, "the address of machine %s is not known yet", name)
	}
	return m.Address, nil
}

// kubeParams is what all machines of the cluster have in common.
func (c *Cluster) kubeParams(ctx context.Context) (layout.Params, error) {
	endpoint, err := c.endpoint(ctx)
	if err != nil {
		return layout.Params{}, err
	}
	encryption, err := c.encryption()
	if err != nil {
		return layout.Params{}, err
	}
	s := c.doc.Spec
	p := layout.Params{
		ClusterName: c.Name(), Endpoint: endpoint, Release: c.release(), PodCIDR: s.Kubernetes.PodCIDR,
		ServiceCIDR: s.Kubernetes.ServiceCIDR, DNSDomain: s.Kubernetes.DNSDomain,
		EtcdMode: s.Etcd.Mode, CNI: s.Kubernetes.CNI, AuditLog: *s.Security.AuditLog.Enabled, AuditOptions: auditOptions(s.Security.AuditLog),
		ExternalCloud: c.prov.Traits().ExternalCloud,
		Encryption:    encryption, Harden: *s.Security.CISDefaults,
		Servers: c.servers(), Ahead: c.releaseAt(c.told().Ahead),
		SharedKernel: c.prov.Traits().SharedKernel || c.facts.Is(memory.SharedKernel), AgentPath: c.agent.remotePath(), Machines: map[string][]string{}, Unattended: c.releasing,
		ExternalCA: c.vault != nil,
	}
	if p.APIServerSANs, err = c.outerNames(ctx); err != nil {
		return p, err
	}
	machines, err := c.addresses(ctx)
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
	for _, name := range c.namesOf(provider.ControlPlane) {
		n, err := c.kubeNode(ctx, name)
		if err != nil {
			return p, err
		}
		p.ControlPlanes = append(p.ControlPlanes, n)
	}
	if v, err := strconv.Atoi(c.facts.Get(memory.CgroupVersion)); err == nil && len(p.ControlPlanes) > 0 {
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
	addr, err := c.address(ctx, name)
	if err != nil {
		return layout.Node{}, err
	}
	m, err := c.prov.Machine(ctx, name)
	n := layout.Node{Name: name, Address: addr, Cloud: cloudInstance(m), Release: c.release()}
	n.Schedulable = c.doc.Spec.ControlPlane.Schedulable
	return n, err
}

// etcdStart says how the member on a control-plane machine starts for the first time: all initial members at once, later
// ones as they were when they joined. It never changes afterwards, for a changed manifest would restart the member.
func (c *Cluster) etcdStart(ctx context.Context, name string) (layout.EtcdStart, error) {
	if joined := c.facts.Of(memory.EtcdJoin, name); joined != "" {
		return layout.EtcdStart{InitialCluster: parseInitialCluster(joined), State: "existing"}, nil
	}
	start := layout.EtcdStart{InitialCluster: map[string]string{}, State: "new"}
	initial := c.facts.Get(memory.EtcdInitial)
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
	return parseInitialCluster(c.facts.Get(memory.EtcdInitial))
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

const (
	backupSettings   = "/etc/naupegos/backup.json"
	credentialsPlace = "/etc/naupegos/backup-credentials" //nolint:gosec // a path
	backupMetrics    = "/var/lib/naupegos/metrics/backup.prom"
	secretBucket     = "bucket-credentials"   //nolint:gosec // a name: among the cluster's secrets, what admits machines to the bucket
	secretContainer  = "container-credential" //nolint:gosec // a name: what admits them to the container
)

// backupLayer renders what has a control-plane machine make backups on schedule, in turn with the others; nothing where the document wants none.
func (c *Cluster) backupLayer(ctx context.Context, name string) (machine.Config, error) {
	conf := machine.Config{Machine: name}
	schedule, text, ok := c.scheduled()
	if !ok || c.releasing {
		return conf, nil
	}
	set := turns.Settings{
		Machine: name, Cluster: c.Name(), Schedule: text, Keep: c.backupKeep(), To: turns.Target{Directory: c.doc.Spec.Backup.To.Directory},
		Etcd:    turns.Etcd(layout.LocalEtcd()),
		Metrics: backupMetrics,
	}
	credentials, err := c.backupCredentials(ctx)
	if err != nil {
		return conf, err
	}
	if len(credentials) > 0 {
		conf.Files = append(conf.Files, machine.File{Path: credentialsPlace, Mode: 0o600, Content: credentials, Secret: true})
	}
	if spec := c.doc.Spec.Backup.To.S3; spec != nil {
		bucket := s3.Spec(*spec)
		bucket.CredentialsFile, bucket.Credential = credentialsPlace, ""
		set.To.S3 = &bucket
	}
	if spec := c.doc.Spec.Backup.To.Swift; spec != nil {
		container := swift.Spec(*spec)
		container.CredentialsFile, container.Credential = credentialsPlace, ""
		set.To.Swift = &container
	}
	raw, err := json.MarshalIndent(set, "", "  ")
	if err != nil {
		return conf, fail.Wrap(fail.Internal, err, "render %s", backupSettings)
	}
	conf.Files = append(conf.Files, machine.File{Path: backupSettings, Mode: 0o644, Content: append(raw, '\n')})
	conf.Units = []machine.Unit{
		{Name: "naupegos-backup.service", OnDemand: true, Content: fmt.Sprintf(backupService, c.agent.remotePath(), backupSettings)},
		{Name: "naupegos-backup.timer", Enabled: true, Active: true, Content: fmt.Sprintf(backupTimer, "OnCalendar="+strings.Join(schedule.OnCalendar(), "\nOnCalendar="))},
	}
	return conf, nil
}

// backupCredentials returns what admits machines to where backups go: what admits Naupegos here, else what was last found. A directory needs none.
func (c *Cluster) backupCredentials(ctx context.Context) (found []byte, missing error) {
	secret := secretBucket
	switch to := c.doc.Spec.Backup.To; {
	case to.S3 != nil:
		found, missing = s3.Credentials(s3.Spec(*to.S3), c.named.s3(to.S3))
	case to.Swift != nil:
		secret = secretContainer
		found, missing = swift.Credentials(ctx, swift.Spec(*to.Swift), c.named.swift(to.Swift))
	default:
		return nil, nil
	}
	kept, err := c.secrets.Get(ctx, secret)
	switch {
	case err != nil && fail.KindOf(err) != fail.NotFound:
		return nil, err
	case missing != nil && len(kept) > 0 && !c.named.closed: // a server uses no copy of a credential that was removed
		return kept, nil
	case missing != nil, bytes.Equal(found, kept):
		return found, missing
	}
	return found, c.secrets.Put(ctx, secret, found)
}

// backupService hides neither homes nor temporary files: the directory for backups may lie there.
const backupService = `[Unit]
Description=Sees to it that there is a backup of the cluster
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart=%s backup --settings %s
TimeoutStartSec=3h
Nice=10
IOSchedulingClass=idle
NoNewPrivileges=yes
ProtectSystem=full
`

const backupTimer = `[Unit]
Description=Has backups of the cluster made on schedule

[Timer]
%s
AccuracySec=1s
Persistent=true

[Install]
WantedBy=timers.target
`
