package adopt

import (
	"slices"
	"strings"
)

// A distribution is Kubernetes that something else than kubeadm installs and upgrades.
type distribution struct {
	name    string
	version string // part of its kubelets' versions
	label   string // beginning of a label of its nodes
	image   string // beginning of its nodes' operating system
	files   string // a path of its hosts, as factsScript looks for
}

// distributions: the first that fits counts.
var distributions = []distribution{
	{name: "RKE", label: "rke.cattle.io/external-ip", files: "/opt/rke"},
	{name: "RKE2", version: "+rke2", label: "rke.cattle.io/", files: "/var/lib/rancher/rke2"},
	{name: "K3s", version: "+k3s", label: "k3s.io/", files: "/var/lib/rancher/k3s"},
	{name: "MicroK8s", label: "microk8s.io/", files: "/var/snap/microk8s"},
	{name: "Canonical Kubernetes", label: "k8sd.io/", files: "/var/snap/k8s"},
	{name: "k0s", version: "+k0s", label: "k0sproject.io/", files: "/var/lib/k0s"},
	{name: "Talos Linux", image: "Talos"},
	{name: "OpenShift", label: "node.openshift.io/", files: "/etc/machine-config-daemon"},
	{name: "kOps", label: "kops.k8s.io/", files: "/opt/kops"},
	{name: "Gardener", label: "worker.gardener.cloud/", files: "/var/lib/gardener-node-agent"},
	{name: "Amazon EKS", version: "-eks-", label: "eks.amazonaws.com/"},
	{name: "Google Kubernetes Engine", version: "-gke.", label: "cloud.google.com/gke-"},
	{name: "Azure Kubernetes Service", label: "kubernetes.azure.com/"},
}

const notKubeadm = "only clusters of kubeadm can be taken over: create a cluster with naupegos apply, and move workloads and volumes there"

// distributionOf names the distribution of a host by the paths that factsScript has found; empty for kubeadm's.
func distributionOf(paths string) string {
	for _, d := range distributions {
		if d.files != "" && slices.Contains(strings.Fields(paths), d.files) {
			return d.name
		}
	}
	return ""
}

// distributionPaths are the paths that factsScript looks for.
func distributionPaths() string {
	var paths []string
	for _, d := range distributions {
		if d.files != "" {
			paths = append(paths, d.files)
		}
	}
	return strings.Join(paths, " ")
}

// foreign blocks a cluster with nodes of another distribution, and reports whether there are any. The other findings are then meaningless.
func (d *drafting) foreign() bool {
	nodes := map[string][]string{}
	var names []string
	for _, n := range d.f.Survey.Nodes {
		for _, is := range distributions {
			labelled := is.label != "" && slices.ContainsFunc(keysOf(n.Labels), func(key string) bool { return strings.HasPrefix(key, is.label) })
			if labelled || is.version != "" && strings.Contains(n.Version, is.version) || is.image != "" && strings.HasPrefix(n.Image, is.image) {
				if nodes[is.name] == nil {
					names = append(names, is.name)
				}
				nodes[is.name] = append(nodes[is.name], n.Name)
				break
			}
		}
	}
	for _, name := range names {
		do := notKubeadm
		if len(nodes[name]) < len(d.f.Survey.Nodes) {
			do = "take these nodes out of the cluster"
		}
		d.block(strings.Join(nodes[name], ", "), do, "it runs %s", name)
	}
	return len(names) > 0
}

func keysOf(labels map[string]string) (keys []string) {
	for key := range labels {
		keys = append(keys, key)
	}
	return keys
}
