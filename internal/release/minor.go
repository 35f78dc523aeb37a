package release

import "slices"

// Minor is what all releases of one Kubernetes minor have in common: how their configuration is written, and what kubeadm leaves on
// machines of it. Flags and fields that are rendered without asking a Minor are understood by all that are supported; kubeadm of each
// release that has a bundle is asked in the integration tests of internal/kube.
type Minor struct {
	Name    string // "1.36"
	Configs Configs
	// Packages are the machines' own that a node of it needs: runc is the runtime, the others are what kubelet, kube-proxy and kubeadm call.
	Packages []string
	// FlexVolumes says that kubeadm mounts the directory of FlexVolume plugins into the controller manager.
	FlexVolumes bool
	// KubeletClientGroup is the group of the API servers' client certificate for kubelets; without one kubeadm binds its user to
	// system:kubelet-api-admin.
	KubeletClientGroup string
	// Dropped are versions of Kubernetes' own groups that API servers of the minor before could store objects in, and those of this one can't read.
	// These are alpha: they are served only where somebody has said so by --runtime-config, as on a cluster that was imported.
	Dropped []string
}

// Configs are the API versions of what is rendered.
type Configs struct {
	Kubeadm   string
	Kubelet   string
	KubeProxy string
	APIServer string // AuthenticationConfiguration, EncryptionConfiguration
	Audit     string
}

// minors returns the supported minors, the oldest first.
func minors() []Minor {
	configs := Configs{
		Kubeadm: "kubeadm.k8s.io/v1beta4", Kubelet: "kubelet.config.k8s.io/v1beta1", KubeProxy: "kubeproxy.config.k8s.io/v1alpha1",
		APIServer: "apiserver.config.k8s.io/v1", Audit: "audit.k8s.io/v1",
	}
	packages := []string{"conntrack", "ethtool", "iptables", "nftables", "runc", "socat"}
	return []Minor{
		{Name: "1.35", Configs: configs, Packages: packages, FlexVolumes: true, KubeletClientGroup: "kubeadm:cluster-admins"},
		{Name: "1.36", Configs: configs, Packages: packages, Dropped: []string{"scheduling.k8s.io/v1alpha1"}},
		{Name: "1.37", Configs: configs, Packages: packages, Dropped: []string{"scheduling.k8s.io/v1alpha2"}},
	}
}

// Minors returns the names of the supported minors, the oldest first.
func Minors() []string {
	var out []string
	for _, m := range minors() {
		out = append(out, m.Name)
	}
	return out
}

// Of returns what the minor of a version wants; false where it is not supported. There need not be a recipe for the version itself.
func Of(version string) (Minor, bool) {
	all := minors()
	i := slices.IndexFunc(all, func(m Minor) bool { return m.Name == MinorOf(version) })
	if i < 0 {
		return Minor{}, false
	}
	return all[i], true
}

// Dropped returns the versions of Kubernetes' own groups that a release can't read, and releases from some supported minor on could store.
func Dropped(version string) (all []string) {
	for _, m := range minors() {
		if Compare("v"+m.Name+".0", version) <= 0 {
			all = append(all, m.Dropped...)
		}
	}
	return all
}
