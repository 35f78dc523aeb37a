package layout

import (
	"context"
	_ "embed" // for the files that API servers read

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
)

var (
	//go:embed manifests/audit-policy.yaml
	auditPolicy string
	//go:embed manifests/authentication.yaml
	authenticationBase string // of every AuthenticationConfiguration
)

// controlPlaneLayer renders what makes a machine a control plane: certificates, kubeconfigs, what API servers read, and last
// the static pods, so that no pod starts before its files are there.
func (p Params) controlPlaneLayer(ctx context.Context, k *pki.PKI, n Node, start EtcdStart) (machine.Config, error) {
	files, err := p.controlPlanePKI(ctx, k, n)
	if err != nil {
		return machine.Config{}, err
	}
	for _, more := range []func(context.Context, *pki.PKI, Node) ([]machine.File, error){p.controlPlaneKubeconfigs, p.apiServerFiles} {
		f, err := more(ctx, k, n)
		if err != nil {
			return machine.Config{}, err
		}
		files.add(f...)
	}
	pods, err := p.staticPods(ctx, k, n, start, files)
	if err != nil {
		return machine.Config{}, err
	}
	c := machine.Config{
		Directories: []machine.Directory{{Path: pkiDir, Mode: 0o755}, {Path: ourDir, Mode: 0o700}, {Path: patchesDir, Mode: 0o700}},
		Files:       append(files, pods...),
		Units: []machine.Unit{{ // the part in Runtime, and
			Name: "kubelet.service", Enabled: true, Active: true, Starts: p.starts(),
			Forgets: binDir + "/kubelet", // it knows static pods by a digest of the Pod type, which each minor extends
		}},
	}
	if p.AuditLog {
		c.Directories = append(c.Directories, machine.Directory{Path: auditLogDir, Mode: 0o700})
	}
	return c, nil
}

// starts lists the programs that kubelet starts from files. An API server without its etcd keeps its clients waiting.
func (p Params) starts() []machine.Start {
	server := machine.Start{File: manifestOf("kube-apiserver")}
	var list []machine.Start
	if p.EtcdMode == EtcdStacked {
		list, server.Needs = append(list, machine.Start{File: manifestOf("etcd"), Port: EtcdClientPort}), manifestOf("etcd")
	}
	return append(list, server, machine.Start{File: manifestOf("kube-controller-manager")}, machine.Start{File: manifestOf("kube-scheduler")})
}

func (p Params) staticPods(ctx context.Context, k *pki.PKI, n Node, start EtcdStart, files fileSet) ([]machine.File, error) {
	pods := []func() (machine.File, error){
		func() (machine.File, error) { return p.apiServerPod(n, files) },
		func() (machine.File, error) { return p.controllerManagerPod(n, files) },
		func() (machine.File, error) { return p.schedulerPod(n, files) },
	}
	if p.EtcdMode == EtcdStacked {
		member, err := etcdPKI(ctx, k, n)
		if err != nil {
			return nil, err
		}
		pods = append([]func() (machine.File, error){func() (machine.File, error) { return p.etcdPod(n, start, member) }}, pods...)
	}
	var out []machine.File
	for _, pod := range pods {
		f, err := pod()
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// client is a user of the API on a control-plane machine.
type client struct {
	file, user, group string
	local             bool // talks to the machine's own API server
}

func (p Params) controlPlaneKubeconfigs(ctx context.Context, k *pki.PKI, n Node) ([]machine.File, error) {
	clients := []client{
		{"admin", "kubernetes-admin", adminsGroup, false},
		{"controller-manager", "system:kube-controller-manager", "", true},
		{"scheduler", "system:kube-scheduler", "", true},
	}
	// Like kubeadm init, only where the cluster is bootstrapped: this certificate bypasses RBAC.
	if n.Name == p.ControlPlanes[0].Name {
		clients = append(clients, client{"super-admin", "kubernetes-super-admin", "system:masters", false})
	}
	var files []machine.File
	for _, c := range clients {
		content, err := p.clientKubeconfig(ctx, k, n, c)
		if err != nil {
			return nil, err
		}
		files = append(files, private(kubernetesDir+"/"+c.file+".conf", content))
	}
	return files, nil
}

func (p Params) clientKubeconfig(ctx context.Context, k *pki.PKI, n Node, c client) ([]byte, error) {
	ca, err := k.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return nil, err
	}
	spec := pki.LeafSpec{Name: n.Name + "/" + c.file, Authority: pki.KubernetesCA, CommonName: c.user, Client: true}
	if c.group != "" {
		spec.Organizations = []string{c.group}
	}
	cert, err := k.Leaf(ctx, spec)
	if err != nil {
		return nil, err
	}
	server := p.Endpoint
	if c.local {
		server = hostPort(n.Address, APIServerPort)
	}
	return p.kubeconfig("https://"+server, c.user, ca, pairCredentials(cert))
}

// apiServerFiles renders the files, besides certificates, that API servers read, and kubeadm's configuration on this machine.
func (p Params) apiServerFiles(ctx context.Context, k *pki.PKI, n Node) ([]machine.File, error) {
	kubeadm, err := p.KubeadmConfig(n)
	if err != nil {
		return nil, err
	}
	files := []machine.File{
		{Path: KubeadmConfigPath, Mode: 0o600, Content: kubeadm},
		{Path: coreDNSPatchPath, Mode: 0o600, Content: []byte(coreDNSPatch(p))},
		{Path: authenticationPath, Mode: 0o600, Content: AuthenticationConfig(p.Issuers)},
	}
	if p.AuditLog || p.Settings.AuditWebhook {
		files = append(files, machine.File{Path: auditPolicyPath, Mode: 0o600, Content: []byte(p.AuditOptions.policy())})
	}
	files = append(files, p.Settings.APIServer.files()...)
	files = append(files, p.Authorization.files()...)
	scheduler, err := p.Settings.schedulerConfig(p.Harden, p.servers(n).Version)
	if err != nil {
		return nil, err
	}
	if scheduler != nil {
		files = append(files, machine.File{Path: schedulerConfigPath, Mode: 0o600, Content: scheduler})
	}
	if !p.encrypts() {
		return files, nil
	}
	wants, err := p.servers(n).wants()
	if err != nil {
		return nil, err
	}
	config, err := p.encryptionConfig(ctx, k, wants.Configs.APIServer)
	if err != nil {
		return nil, err
	}
	return append(files, private(EncryptionPath, []byte(config))), nil
}
