package adopt

import (
	"maps"
	"slices"
	"strings"
)

// owned is a key of labels or taints that a program puts on nodes and removes again: no wish of the cluster's owner.
type owned struct {
	prefix string // the key's beginning; with "*/" in front, what follows the key's domain
	owner  string
}

// ownedKeys lists keys by their owners.
var ownedKeys = []owned{
	{"node.kubernetes.io/", "Kubernetes"}, {"node.cloudprovider.kubernetes.io/", "the cloud's controller"},
	{"ToBeDeletedByClusterAutoscaler", "cluster-autoscaler"}, {"DeletionCandidateOfClusterAutoscaler", "cluster-autoscaler"},
	{"node.cilium.io/", "Cilium"}, {"cilium.io/", "Cilium"}, {"projectcalico.org/", "Calico"}, {"flannel.alpha.coreos.com/", "flannel"},
	{"karpenter.sh/", "Karpenter"}, {"karpenter.k8s.aws/", "Karpenter"}, {"cluster.x-k8s.io/", "Cluster API"}, {"machine-controller/", "machine-controller"},
	{"nvidia.com/", "NVIDIA's GPU operator"}, {"amd.com/gpu", "AMD's GPU operator"}, {"gpu.intel.com/", "Intel's device plugins"},
	{"*/agent-not-ready", "a node agent (CSI, CNI or GPU)"}, {"*/not-ready", "a node agent (CSI, CNI or GPU)"}, {"*/startup-taint", "a node agent"},
	{"*/out-of-service", "Kubernetes"}, {"ebs.csi.aws.com/", "a CSI driver"}, {"efs.csi.aws.com/", "a CSI driver"}, {"disk.csi.azure.com/", "a CSI driver"},
	{"topology.ebs.csi.aws.com/", "a CSI driver"}, {"topology.cinder.csi.openstack.org/", "a CSI driver"}, {"topology.gke.io/", "a CSI driver"}, {"csi.hetzner.cloud/", "a CSI driver"},
	{"drain.kured.dev/", "kured"}, {"kured", "kured"}, {"upgrade.cattle.io/", "system-upgrade-controller"}, {"sidecar.istio.io/", "Istio"},
}

// ownerOf returns who puts a key on nodes; empty where that is the cluster's owner, for all that is known.
func ownerOf(key string) string {
	for _, o := range ownedKeys {
		if name, any := strings.CutPrefix(o.prefix, "*"); any && strings.Contains(key, "/") && strings.HasSuffix(key, name) || !any && strings.HasPrefix(key, o.prefix) {
			return o.owner
		}
	}
	return ""
}

// leftOut tells which taints and labels of a node are left out of the document, and who puts them there. Those of Kubernetes itself are on every node.
func (d *drafting) leftOut(node string, keys []string) {
	by := map[string][]string{}
	for _, key := range keys {
		if o := ownerOf(key); o != "" && o != "Kubernetes" {
			by[o] = append(by[o], key)
		}
	}
	for _, o := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[o])
		d.add(Stays, node, "labels and taints that "+o+" puts on the node and removes again: "+strings.Join(slices.Compact(by[o]), ", "), "the document leaves them out")
	}
}
