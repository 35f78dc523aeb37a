package adopt

import (
	"maps"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/kube"
)

// owned describes keys of labels or taints that a program puts on nodes: the cluster's owner has not asked for them.
type owned struct {
	key   string // a key's beginning; with "*" in front, its end
	owner string
	only  string // "labels" if its taints are the owner's own; empty: both
}

const kubernetes, autoscaler, agents = "Kubernetes", "cluster-autoscaler", "a node agent (CSI, CNI or GPU)"

// ownedKeys lists keys by their owners.
var ownedKeys = []owned{
	{key: "node.kubernetes.io/", owner: kubernetes}, {key: "node.cloudprovider.kubernetes.io/", owner: kubernetes}, {key: "*/out-of-service", owner: kubernetes},
	{key: "ToBeDeletedByClusterAutoscaler", owner: autoscaler}, {key: "DeletionCandidateOfClusterAutoscaler", owner: autoscaler}, {key: "ignore-taint.cluster-autoscaler.", owner: autoscaler},
	{key: "startup-taint.cluster-autoscaler.", owner: autoscaler}, {key: "status-taint.cluster-autoscaler.", owner: autoscaler},
	{key: "node.cilium.io/", owner: "Cilium"}, {key: "cilium.io/", owner: "Cilium"}, {key: "projectcalico.org/", owner: "Calico"}, {key: "node.projectcalico.org/", owner: "Calico"},
	{key: "flannel.alpha.coreos.com/", owner: "flannel"}, {key: "kubevirt.io/", owner: "KubeVirt", only: "labels"},
	{key: "karpenter.sh/", owner: "Karpenter"}, {key: "karpenter.k8s.aws/", owner: "Karpenter"},
	{key: "cluster.x-k8s.io/", owner: "Cluster API"}, {key: "node.cluster.x-k8s.io/", owner: "Cluster API"},
	{key: "machine-controller/", owner: "machine-controller"}, {key: "machine.k8s.io/", owner: "machine-controller"}, {key: "v1.machine-controller.", owner: "machine-controller"},
	{key: "v1.operating-system-manager.", owner: "operating-system-manager", only: "labels"},
	{key: "nvidia.com/gpu-driver-upgrade", owner: "NVIDIA's GPU operator"}, {key: "nvidia.com/", owner: "NVIDIA's GPU operator", only: "labels"},
	{key: "amd.com/", owner: "AMD's GPU operator", only: "labels"}, {key: "gpu.intel.com/", owner: "Intel's device plugins", only: "labels"},
	{key: "*/agent-not-ready", owner: agents}, {key: "*/not-ready", owner: agents}, {key: "*/startup-taint", owner: agents}, {key: "*/uninitialized", owner: agents},
	{key: "*.csi.aws.com/", owner: "a CSI driver"}, {key: "ebs.csi.aws.com/", owner: "a CSI driver"}, {key: "efs.csi.aws.com/", owner: "a CSI driver"}, {key: "disk.csi.azure.com/", owner: "a CSI driver"},
	{key: "topology.ebs.csi.aws.com/", owner: "a CSI driver", only: "labels"}, {key: "topology.cinder.csi.openstack.org/", owner: "a CSI driver", only: "labels"},
	{key: "topology.gke.io/", owner: "a CSI driver", only: "labels"}, {key: "csi.hetzner.cloud/", owner: "a CSI driver", only: "labels"}, {key: "topology.rook.io/", owner: "a CSI driver", only: "labels"},
	{key: "drain.kured.dev/", owner: "kured"}, {key: "kured", owner: "kured"}, {key: "upgrade.cattle.io/", owner: "system-upgrade-controller"}, {key: "sidecar.istio.io/", owner: "Istio", only: "labels"},
}

// machineOwners are programs that make machines and delete them again.
var machineOwners = []string{"machine-controller", "Cluster API", "Karpenter"}

// ownerOf returns the program that puts a key of labels or of taints on nodes; empty if none is known.
func ownerOf(key, of string) string {
	for _, o := range ownedKeys {
		if o.only != "" && o.only != of {
			continue
		}
		if end, ok := strings.CutPrefix(o.key, "*"); ok && strings.HasSuffix(key, end) || !ok && strings.HasPrefix(key, o.key) {
			return o.owner
		}
	}
	return ""
}

// leftOut reports the labels and taints of a node that are not in the document, by owner. It skips those of Kubernetes, which every node has.
func (d *drafting) leftOut(n kube.SurveyedNode) {
	by, machines := map[string][]string{}, map[string]bool{}
	add := func(key, of string) {
		if o := ownerOf(key, of); o != "" && o != kubernetes {
			by[o] = append(by[o], key)
			machines[o] = machines[o] || of == "labels" && slices.Contains(machineOwners, o)
		}
	}
	for key := range n.Labels {
		add(key, "labels")
	}
	for _, t := range n.Taints {
		add(t.Key, "taints")
	}
	d.machineOwned(n, machines)
	for _, o := range slices.Sorted(maps.Keys(by)) {
		do := "the document leaves them out"
		if machines[o] {
			do += "; " + takeOut(o)
		}
		slices.Sort(by[o])
		d.add(Stays, n.Name, "labels and taints that "+o+" puts on the node: "+strings.Join(slices.Compact(by[o]), ", "), do)
	}
}

func takeOut(owner string) string {
	return "before the first apply, take the machine out of " + owner + ", which could delete or replace it"
}

// machineOwned reports the program that makes a node's machine, if only the node's annotations show it, as Cluster API's do. known are the programs that its
// labels show.
func (d *drafting) machineOwned(n kube.SurveyedNode, known map[string]bool) {
	by := map[string][]string{}
	for key := range n.Annotations {
		if o := ownerOf(key, "annotations"); slices.Contains(machineOwners, o) && !known[o] {
			by[o] = append(by[o], key)
		}
	}
	for _, o := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[o])
		d.add(Stays, n.Name, o+" makes and deletes the machine, by the node's annotations "+strings.Join(by[o], ", "), takeOut(o))
	}
}
