package layout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1 "k8s.io/kubelet/config/v1beta1"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/release/flags"
)

const (
	kubeletDir           = "/var/lib/kubelet"
	kubeletConfigPath    = kubeletDir + "/config.yaml"
	kubeletFlagsPath     = kubeletDir + "/kubeadm-flags.env"
	kubeletFirstCertPath = kubeletDir + "/pki/kubelet-client-first.pem"
	kubeletCertPath      = kubeletDir + "/pki/kubelet-client-current.pem"
	kubeletFirstServing  = kubeletDir + "/pki/kubelet-server-first.pem"
	kubeletServingPath   = kubeletDir + "/pki/kubelet-server-current.pem"
	kubeletOwnCert       = kubeletDir + "/pki/kubelet-client.pem"
	kubeletOwnServing    = kubeletDir + "/pki/kubelet-server.pem"
)

// kubeletDropIn is kubeadm's drop-in: kubeadm init, join and upgrade depend on these paths.
const kubeletDropIn = `[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/local/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
`

const kubeletUnitContent = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target containerd.service
After=network-online.target containerd.service
RequiresMountsFor=/var/lib/kubelet /var/lib/containerd /var/lib/etcd
# Nothing to do before the machine belongs to a cluster.
ConditionPathExists=/var/lib/kubelet/config.yaml
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/local/bin/kubelet
Restart=always
RestartSec=2

[Install]
WantedBy=multi-user.target
`

// kubeletOwnDropIn is Naupegos's drop-in. It makes the kubelet notice a dead API server soon.
func kubeletOwnDropIn(settings Program) string {
	dropIn := "[Service]\n"
	for _, e := range ConnectionEnv() {
		dropIn += fmt.Sprintf("Environment=%s=%s\n", e.Name, e.Value)
	}
	return dropIn + forgetManagers(settings)
}

func kubeletUnit() machine.Unit {
	return machine.Unit{
		Name: "kubelet.service", Content: kubeletUnitContent, Enabled: true, Active: true,
		DropIns: []machine.DropIn{{Name: "10-kubeadm.conf", Content: kubeletDropIn}},
		Watches: []string{binDir + "/kubelet"}, Private: true,
	}
}

// kubeletLayer renders the kubelet of a machine that belongs to the cluster and talks to the API at server.
func (p Params) kubeletLayer(ctx context.Context, k *pki.PKI, n Node, server string) (machine.Config, error) {
	ca, err := k.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return machine.Config{}, err
	}
	firsts, shown, err := p.kubeletCertificates(ctx, k, n)
	if err != nil {
		return machine.Config{}, err
	}
	kubeconfig, err := p.kubeconfig(server, nodeUser(n), ca, fileCredentials(shown))
	if err != nil {
		return machine.Config{}, err
	}
	config, err := p.kubeletConfig(n, criSocket)
	if err != nil {
		return machine.Config{}, err
	}
	unit := kubeletUnit()
	unit.DropIns = append(unit.DropIns, machine.DropIn{Name: "20-naupegos.conf", Content: kubeletOwnDropIn(p.Settings.kubelet(n))})
	unit.Watches = append(unit.Watches, kubeletConfigPath, kubeletFlagsPath)
	for _, a := range p.Settings.kubelet(n).Args {
		unit.Watches = append(unit.Watches, flags.Reads(flags.Kubelet, a.Name, a.Value)...)
	}
	for _, f := range firsts {
		unit.Watches = append(unit.Watches, f.Path)
	}
	unit.Watches = append(unit.Watches, pkiDir+"/ca.crt", kubernetesDir+"/kubelet.conf")
	c := machine.Config{
		Directories: []machine.Directory{{Path: kubeletDir + "/pki", Mode: 0o755}},
		Files: slices.Concat([]machine.File{text(pkiDir+"/ca.crt", string(ca))}, firsts, []machine.File{
			{Path: kubernetesDir + "/kubelet.conf", Mode: 0o600, Content: kubeconfig},
			{Path: kubeletFlagsPath, Mode: 0o600, Content: []byte(p.kubeletFlags(n))},
			{Path: kubeletDir + "/instance-config.yaml", Mode: 0o600, Content: []byte(fmt.Sprintf("containerRuntimeEndpoint: %q\n", criSocket))},
			{Path: kubeletConfigPath, Mode: 0o600, Content: config},
		}),
		Units: []machine.Unit{unit},
	}
	if own := n.ownResolver(); own != "" {
		c.Files = append(c.Files, text(ownResolver, own))
	}
	return c, addInstance(p, &c, n)
}

// Resolver holds the name servers that pods use instead of the machine's. It is empty if the document names none.
type Resolver struct{ Servers, SearchDomains []string }

// String returns the resolver as resolv.conf.
func (r Resolver) String() string {
	var b strings.Builder
	for _, server := range r.Servers {
		b.WriteString("nameserver " + server + "\n")
	}
	if len(r.SearchDomains) > 0 {
		b.WriteString("search " + strings.Join(r.SearchDomains, " ") + "\n")
	}
	return b.String()
}

// ownResolver is the resolv.conf that Naupegos writes for pods.
const ownResolver = kubernetesDir + "/resolv.conf"

// ownResolver returns the content of the resolv.conf for pods, or "" if pods inherit the machine's. It has only the document's name servers or, on a
// machine without name servers, the machine's own address, because CoreDNS does not start without a server to forward to. Most likely no server
// listens there, so that queries fail at once.
func (n Node) ownResolver() string {
	switch {
	case len(n.Resolver.Servers) > 0:
		return "# The name servers of the document.\n" + n.Resolver.String()
	case n.Facts.NoResolver:
		return "# This machine knew no name server that pods could ask. Cluster DNS needs one to start.\n" + Resolver{Servers: []string{n.Address}}.String()
	}
	return ""
}

// resolvConf returns the resolv.conf that pods inherit from; empty for /etc/resolv.conf.
func (n Node) resolvConf() string {
	if n.ownResolver() != "" {
		return ownResolver
	}
	return n.ResolvConf
}

func nodeUser(n Node) string { return "system:node:" + n.Name }

// kubeletFlags renders kubeadm-flags.env as kubeadm does, with the flags that differ between machines.
func (p Params) kubeletFlags(n Node) string {
	args := []string{"--hostname-override=" + n.Name} // the host's own name may change at boot
	if p.ExternalCloud {
		args = append(args, "--cloud-provider=external")
	}
	args = append(args, "--node-ip="+n.Address)
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		if kubeletMayLabel(key) {
			labels = append(labels, key+"="+n.Labels[key])
		}
	}
	if len(labels) > 0 {
		args = append(args, "--node-labels="+strings.Join(labels, ","))
	}
	if knowsInstance(p, n) {
		args = append(args, "--provider-id="+n.Cloud.ProviderID)
	}
	var taints []string
	for _, t := range n.Taints {
		taints = append(taints, t.ToString())
	}
	if len(taints) > 0 {
		args = append(args, "--register-with-taints="+strings.Join(taints, ","))
	}
	for _, a := range p.Settings.kubelet(n).extend(nil, flags.Kubelet, tables(p.of(n).Version)) {
		args = append(args, "--"+a.Name+"="+a.Value)
	}
	return fmt.Sprintf("KUBELET_KUBEADM_ARGS=%q\n", strings.Join(args, " "))
}

// kubeletMayLabel reports whether a kubelet may give itself a label of this key (NodeRestriction); others come from the
// operator through the API.
func kubeletMayLabel(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	for _, own := range []string{"kubelet.kubernetes.io", "node.kubernetes.io"} {
		if domain == own || strings.HasSuffix(domain, "."+own) {
			return true
		}
	}
	for _, reserved := range []string{"kubernetes.io", "k8s.io"} {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			return false
		}
	}
	return true
}

// kubeletConfig renders a KubeletConfiguration: with an endpoint that of one machine, without one the content of the cluster's kubelet-config
// ConfigMap.
func (p Params) kubeletConfig(n Node, endpoint string) ([]byte, error) {
	wants, err := p.of(n).wants()
	if err != nil {
		return nil, err
	}
	c := kubeletv1.KubeletConfiguration{
		TypeMeta:                 metav1.TypeMeta{APIVersion: wants.Configs.Kubelet, Kind: "KubeletConfiguration"},
		StaticPodPath:            kubernetesDir + "/manifests",
		ContainerRuntimeEndpoint: endpoint,
		CgroupDriver:             "cgroupfs",
		ClusterDNS:               []string{p.serviceAddress(10)},
		ClusterDomain:            p.DNSDomain,
		RotateCertificates:       !p.ExternalCA,
		ServerTLSBootstrap:       !p.ExternalCA,
		HealthzBindAddress:       "127.0.0.1",
		HealthzPort:              ptr(int32(10248)),
		FailSwapOn:               ptr(false),
		MakeIPTablesUtilChains:   ptr(true),
		// Nodes become ready sooner; nodeStatusReportFrequency still bounds the reports to the API.
		NodeStatusUpdateFrequency: metav1.Duration{Duration: 5 * time.Second},
	}
	if p.ExternalCA {
		c.TLSCertFile, c.TLSPrivateKeyFile = kubeletOwnServing, kubeletOwnServing
	}
	if p.sharesKernel(n) {
		// The disk is the host's: its percentages say nothing about the machine, and images of the bundle can't be pulled again.
		c.EvictionHard = map[string]string{
			"memory.available": "100Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi", "nodefs.inodesFree": "1%", "imagefs.inodesFree": "1%",
		}
		c.ImageGCHighThresholdPercent = ptr(int32(100))
	}
	c.Authentication.Anonymous.Enabled = ptr(false)
	c.Authentication.Webhook.Enabled = ptr(true)
	c.Authentication.X509.ClientCAFile = pkiDir + "/ca.crt"
	c.Authorization.Mode = kubeletv1.KubeletAuthorizationModeWebhook
	if n.Facts.CgroupVersion == 2 {
		c.CgroupDriver = "systemd"
	} else {
		c.FailCgroupV1 = ptr(false)
	}
	if file := n.resolvConf(); file != "" {
		c.ResolverConfig = ptr(file)
	}
	if p.Harden {
		c.EventRecordQPS = ptr(int32(50))
		c.PodPidsLimit = ptr(int64(4096))
		c.ProtectKernelDefaults = p.protectsKernel(n)
		c.SeccompDefault = ptr(true)
		c.StreamingConnectionIdleTimeout = metav1.Duration{Duration: 4 * time.Hour}
		c.TLSCipherSuites = tlsCipherSuites()
		c.TLSMinVersion = "VersionTLS12"
	}
	return p.Settings.kubelet(n).configured(c, flags.Kubelet, p.of(n).Version)
}

// protectsKernel reports whether a machine's kubelet requires its kernel settings.
func (p Params) protectsKernel(n Node) bool { return p.Harden && !p.sharesKernel(n) }

// sharesKernel reports whether a machine shares its host's kernel; without a machine, whether any machine of the cluster does.
func (p Params) sharesKernel(n Node) bool {
	if n.Name == "" {
		return p.SharedKernel
	}
	return n.Facts.Container
}

// kubeletSysctls returns the kernel settings that a kubelet with protectKernelDefaults requires.
func kubeletSysctls() map[string]string {
	return map[string]string{
		"kernel.keys.root_maxbytes": "25000000",
		"kernel.keys.root_maxkeys":  "1000000",
		"kernel.panic":              "10",
		"kernel.panic_on_oops":      "1",
		"vm.overcommit_memory":      "1",
		"vm.panic_on_oom":           "0",
	}
}

// tlsCipherSuites returns the TLS 1.2 suites with forward secrecy and authenticated encryption.
func tlsCipherSuites() []string {
	return []string{
		"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
		"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
		"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
		"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
		"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
		"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
	}
}

func ptr[T any](v T) *T { return &v }

// controlPlaneTaints returns the taints of a control-plane machine: by default the one that keeps ordinary pods away. For kubeadm, nil means the
// default taint and an empty list means none.
func controlPlaneTaints(n Node) []corev1.Taint {
	if n.Schedulable && n.Taints == nil {
		return []corev1.Taint{}
	}
	if n.Taints != nil {
		return n.Taints
	}
	return []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
}
