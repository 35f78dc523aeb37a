package release

import "slices"

// Minor holds the properties that all releases of a Kubernetes minor share: the format of their configuration, and what kubeadm leaves on their
// machines. Flags and fields that are rendered without consulting a Minor are valid for all supported minors; the integration tests of internal/kube
// check this with kubeadm of each release that has a bundle.
type Minor struct {
	Name    string // "1.36"
	Configs Configs
	// Packages are the distribution's packages that a node needs: runc is the runtime, kubelet, kube-proxy and kubeadm call the others.
	Packages []string
	// FlexVolumes says that kubeadm mounts the directory of FlexVolume plugins into the controller manager.
	FlexVolumes bool
	// KubeletClientGroup is the group in the API servers' client certificate for kubelets. If it is empty, kubeadm binds the certificate's user to
	// system:kubelet-api-admin.
	KubeletClientGroup string
	// Dropped lists API versions of Kubernetes' own groups in which API servers of the previous minor could store objects and which those of this
	// minor can't read. All are alpha, and so served only if --runtime-config enables them, as on a cluster that was imported.
	Dropped []string
}

// Configs are the API versions of the rendered configuration files.
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

// Of returns the minor of a version; false if the minor is not supported. The version itself need not have a recipe.
func Of(version string) (Minor, bool) {
	all := minors()
	i := slices.IndexFunc(all, func(m Minor) bool { return m.Name == MinorOf(version) })
	if i < 0 {
		return Minor{}, false
	}
	return all[i], true
}

// Dropped returns the API versions of Kubernetes' own groups that a release can't read but that earlier supported minors could store.
func Dropped(version string) (all []string) {
	for _, m := range minors() {
		if Compare("v"+m.Name+".0", version) <= 0 {
			all = append(all, m.Dropped...)
		}
	}
	return all
}
