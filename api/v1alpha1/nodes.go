package v1alpha1

// ControlPlane is the machines that run etcd and the Kubernetes control plane.
type ControlPlane struct {
	// How many: 1, 3 or 5. With provider hosts, the default is the number of machines with that role.
	Replicas int `json:"replicas,omitempty" yaml:"replicas,omitempty" jsonschema:"default=3,minimum=1,maximum=5,enum=1,enum=3,enum=5"`
	// Let ordinary workloads run on control-plane machines too (leaves their taint out).
	Schedulable bool `json:"schedulable,omitempty" yaml:"schedulable,omitempty" jsonschema:"default=false"`
	// Labels of the nodes.
	Labels map[string]string `json:"labels,omitempty" yaml:"labels,omitempty"`
	// Size, image and placement of the machines. Only with provider openstack.
	Machine MachineShape `json:"machine,omitzero" yaml:"machine,omitempty"`
	// Settings of these machines, in addition to spec.machines.
	Machines MachineSettings `json:"machines,omitzero" yaml:"machines,omitempty"`
}

// Etcd says how etcd runs.
type Etcd struct {
	// stacked: a static pod on each control-plane machine, as kubeadm does. service: a systemd unit on each control-plane machine.
	Mode string `json:"mode,omitempty" yaml:"mode,omitempty" jsonschema:"default=stacked,enum=stacked,enum=service"`
	// Feature gates of etcd to set, by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty" yaml:"featureGates,omitempty"`
	// Maximum size of the database in GiB. Left out: 8.
	QuotaBackendGiB int `json:"quotaBackendGiB,omitempty" yaml:"quotaBackendGiB,omitempty" jsonschema:"minimum=1,maximum=100"`
	// Milliseconds between two heartbeats of the leader. Left out: 100.
	HeartbeatMilliseconds int `json:"heartbeatMilliseconds,omitempty" yaml:"heartbeatMilliseconds,omitempty" jsonschema:"minimum=10,maximum=10000"`
	// Milliseconds without a heartbeat after which a member calls an election: at least five times the heartbeat. Left out: 1000.
	ElectionMilliseconds int `json:"electionMilliseconds,omitempty" yaml:"electionMilliseconds,omitempty" jsonschema:"minimum=50,maximum=50000"`
	// Further flags. They override what Naupegos would set, except for flags that the cluster depends on.
	ExtraArgs []Arg `json:"extraArgs,omitempty" yaml:"extraArgs,omitempty" jsonschema:"maxItems=200"`
}

// The modes of etcd.
const (
	EtcdStacked = "stacked"
	EtcdService = "service"
)

// Pool is worker machines of one shape.
type Pool struct {
	// Name of the pool: lower-case letters, digits and dashes, unique in the cluster. "cp" and "gw" are taken.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=40,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
	// How many machines; 0 keeps the pool without machines. With provider hosts, the default is the number of machines in the pool.
	Replicas *int `json:"replicas,omitempty" yaml:"replicas,omitempty" jsonschema:"default=1,minimum=0,maximum=1000"`
	// Fewest machines to which a cluster-autoscaler may shrink the pool, see naupegos autoscale. Left out: 0.
	MinReplicas *int `json:"minReplicas,omitempty" yaml:"minReplicas,omitempty" jsonschema:"minimum=0,maximum=1000"`
	// Most machines to which a cluster-autoscaler may grow the pool. With it the pool scales, and replicas (by default minReplicas, but at least 1) is only the initial number.
	MaxReplicas int `json:"maxReplicas,omitempty" yaml:"maxReplicas,omitempty" jsonschema:"minimum=1,maximum=1000"`
	// Kubernetes release that the pool's machines stay with while the rest of the cluster moves on: at most three minors behind the cluster's release, and never ahead of it. Default: the cluster's release.
	Version string `json:"version,omitempty" yaml:"version,omitempty" jsonschema:"pattern=^v1\\.[0-9]+\\.[0-9]+$" host:"release"`
	// Labels of the nodes.
	Labels map[string]string `json:"labels,omitempty" yaml:"labels,omitempty"`
	// Taints of the nodes: only pods that tolerate them run there.
	Taints []Taint `json:"taints,omitempty" yaml:"taints,omitempty" jsonschema:"maxItems=50"`
	// Kubelet settings of the pool's machines that differ from spec.kubernetes.kubelet.
	Kubelet Kubelet `json:"kubelet,omitzero" yaml:"kubelet,omitempty"`
	// Size, image and placement of the machines. Only with provider openstack.
	Machine MachineShape `json:"machine,omitzero" yaml:"machine,omitempty"`
	// Settings of these machines, in addition to spec.machines.
	Machines MachineSettings `json:"machines,omitzero" yaml:"machines,omitempty"`
}

// Taint keeps pods off a node that do not tolerate it.
type Taint struct {
	// Key, in the form of a label key.
	Key string `json:"key" yaml:"key" jsonschema:"required" host:"none"`
	// Value, in the form of a label value.
	Value string `json:"value,omitempty" yaml:"value,omitempty"`
	// What happens to pods that do not tolerate the taint.
	Effect string `json:"effect" yaml:"effect" jsonschema:"required,enum=NoSchedule,enum=PreferNoSchedule,enum=NoExecute"`
}
