package layout

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeproxyv1 "k8s.io/kube-proxy/config/v1alpha1"

	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/release/flags"
)

const (
	patchesDir       = kubernetesDir + "/naupegos-patches"
	coreDNSPatchPath = patchesDir + "/corednsdeployment+strategic.yaml"
)

// coreDNSPatch makes kubelet probe CoreDNS's readiness every second: names resolve up to nine seconds sooner after a start. It also makes CoreDNS
// notice a dead API server soon: until then it answers with addresses of pods that may no longer exist.
func coreDNSPatch(p Params) string {
	patch := "spec:\n  template:\n"
	if d := digestOf(p.Resolvers); d != "" { // its pods copy resolv.conf when they start
		patch += "    metadata:\n      annotations: {naupegos.dev/name-servers: \"" + d + "\"}\n"
	}
	patch += `    spec:
      containers:
        - name: coredns
          readinessProbe:
            periodSeconds: 1
          env:
`
	for _, e := range ConnectionEnv() {
		patch += fmt.Sprintf("            - {name: %s, value: %q}\n", e.Name, e.Value)
	}
	return patch
}

// digestOf returns a digest of name servers, or "" if there are none.
func digestOf(all []Resolver) string {
	var text strings.Builder
	for _, r := range all {
		fmt.Fprintf(&text, "%s---\n", r)
	}
	if strings.Trim(text.String(), "-\n") == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:8])
}

// Recorded is what Phases record in the cluster, without the parts that differ between machines. If it changes, they must run again.
func (p Params) Recorded() ([]byte, error) {
	conf, err := p.KubeadmConfig(Node{Name: "any", Address: "192.0.2.1"})
	return fmt.Appendf(conf, "---\n%s---\nkube-proxy: %v\n", coreDNSPatch(p), ConnectionEnv()), err
}

// KubeadmConfig renders the --config file of n's kubeadm: Init-, Cluster-, Kubelet- and KubeProxyConfiguration, of the release that n runs, because a
// kubeadm knows no newer one. It contains no secret.
func (p Params) KubeadmConfig(n Node) ([]byte, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	wants, err := p.of(n).wants()
	if err != nil {
		return nil, err
	}
	cluster, err := p.clusterConfiguration(p.of(n), wants)
	if err != nil {
		return nil, err
	}
	// The cluster-wide kubelet configuration is always that of the first machine.
	kubelet, err := p.kubeletConfig(Node{Facts: p.ControlPlanes[0].Facts, Release: n.Release}, "")
	if err != nil {
		return nil, err
	}
	var docs [][]byte
	for _, v := range []any{p.initConfiguration(n, wants.Configs), cluster} {
		doc, err := marshal(v)
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	proxy, err := p.Settings.KubeProxy.configured(p.kubeProxyConfig(wants.Configs), flags.KubeProxy, p.of(n).Version)
	if err != nil {
		return nil, err
	}
	return bytes.Join(append(docs, kubelet, proxy), []byte("---\n")), nil
}

func (p Params) initConfiguration(n Node, configs release.Configs) initConfiguration {
	var ignore []string
	if n.Facts.CgroupVersion != 2 {
		ignore = []string{"SystemVerification"} // it refuses cgroup v1
	}
	return initConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: configs.Kubeadm, Kind: "InitConfiguration"},
		// kubeadm always creates a token, by default one with which machines can join for a day. This one expires at once, and its group has no
		// permissions.
		BootstrapTokens: []bootstrapToken{{
			Token: "naupeg.0000000000000000", Description: "Expired at once; use `kubeadm token create` for one that lets machines join.",
			TTL: metav1.Duration{Duration: time.Second}, Usages: []string{"authentication"}, Groups: []string{"system:bootstrappers:naupegos:none"},
		}},
		NodeRegistration: nodeRegistration{
			Name: n.Name, CRISocket: criSocket, Taints: controlPlaneTaints(n), IgnorePreflightErrors: ignore,
			ImagePullPolicy:  "IfNotPresent",
			KubeletExtraArgs: kubeletExtraArgs(p, n),
		},
		LocalAPIEndpoint: apiEndpoint{AdvertiseAddress: n.Address, BindPort: APIServerPort},
		Patches:          patches{Directory: patchesDir},
	}
}

func (p Params) clusterConfiguration(r Release, wants release.Minor) (clusterConfiguration, error) {
	dns, err := r.tag("coredns")
	if err != nil {
		return clusterConfiguration{}, err
	}
	etcd, err := p.etcdConfiguration(r)
	if err != nil {
		return clusterConfiguration{}, err
	}
	known := tables(r.Version)
	return clusterConfiguration{
		TypeMeta:             metav1.TypeMeta{APIVersion: wants.Configs.Kubeadm, Kind: "ClusterConfiguration"},
		ClusterName:          p.ClusterName,
		KubernetesVersion:    r.Version,
		ControlPlaneEndpoint: p.Endpoint,
		CertificatesDir:      pkiDir,
		ImageRepository:      r.Bundle.Repository,
		EncryptionAlgorithm:  "ECDSA-P256",
		Networking:           networking{ServiceSubnet: p.ServiceCIDR, PodSubnet: p.PodCIDR, DNSDomain: p.DNSDomain},
		DNS:                  imageMeta{ImageTag: dns},
		Etcd:                 etcd,
		APIServer: apiServerArgs{
			component: component{ExtraArgs: p.apiServerExtraArgs(known), ExtraVolumes: p.apiServerVolumes()},
			CertSANs:  p.APIServerSANs,
		},
		ControllerManager: component{ExtraArgs: p.controllerManagerExtraArgs(known), ExtraVolumes: controllerManagerVolumes(p, wants)},
		Scheduler:         component{ExtraArgs: p.schedulerExtraArgs(known), ExtraVolumes: p.Settings.schedulerMounts()},
	}, nil
}

func (p Params) kubeProxyConfig(configs release.Configs) kubeproxyv1.KubeProxyConfiguration {
	c := kubeproxyv1.KubeProxyConfiguration{
		TypeMeta:    metav1.TypeMeta{APIVersion: configs.KubeProxy, Kind: "KubeProxyConfiguration"},
		Mode:        "nftables",
		ClusterCIDR: p.PodCIDR,
	}
	if p.SharedKernel {
		// Zero leaves the kernel's connection tracking unchanged.
		zero := metav1.Duration{}
		c.Conntrack = kubeproxyv1.KubeProxyConntrackConfiguration{
			MaxPerCore: ptr(int32(0)), Min: ptr(int32(0)), TCPEstablishedTimeout: &zero, TCPCloseWaitTimeout: &zero,
		}
	}
	return c
}
