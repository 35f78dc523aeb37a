package v1alpha1

// Addon is a component that runs in the cluster for its users. Naupegos installs it with the cluster, waits until it works, upgrades it with the
// cluster, and removes it when it leaves the list.
type Addon struct {
	// Which addon: metrics-server provides the resource metrics of nodes and pods (kubectl top, autoscaling of pods); local-path provides volumes in a directory of the node that runs the pod; node-exporter serves the metrics of machines to Prometheus, and kube-state-metrics those of the API's objects.
	Name string `json:"name" yaml:"name" jsonschema:"required,enum=metrics-server,enum=local-path,enum=node-exporter,enum=kube-state-metrics"`
	// Settings of the addon metrics-server.
	MetricsServer *MetricsServer `json:"metricsServer,omitempty" yaml:"metricsServer,omitempty"`
	// Settings of the addon local-path.
	LocalPath *LocalPath `json:"localPath,omitempty" yaml:"localPath,omitempty"`
	// Settings of the addon node-exporter.
	NodeExporter *NodeExporter `json:"nodeExporter,omitempty" yaml:"nodeExporter,omitempty"`
}

// The addons.
const (
	AddonMetricsServer    = "metrics-server"
	AddonLocalPath        = "local-path"
	AddonNodeExporter     = "node-exporter"
	AddonKubeStateMetrics = "kube-state-metrics"
)

// MetricsServer collects the CPU and memory usage of nodes and pods from the kubelets.
type MetricsServer struct {
	// Pods of metrics-server. With 2, metrics stay available while a node is away.
	Replicas int `json:"replicas,omitempty" yaml:"replicas,omitempty" jsonschema:"default=1,minimum=1,maximum=5"`
	// Interval between two collections, from 10s to 5m.
	Resolution Duration `json:"resolution,omitzero" yaml:"resolution,omitempty" jsonschema:"default=15s"`
}

// LocalPath makes a directory on the node for each PersistentVolumeClaim. Such a volume stays on its node: it is lost with the node, and no other node can use it.
type LocalPath struct {
	// Directory of the volumes on each node.
	Path string `json:"path,omitempty" yaml:"path,omitempty" jsonschema:"default=/var/lib/local-path,maxLength=200" host:"none"`
	// Name of the StorageClass.
	StorageClass string `json:"storageClass,omitempty" yaml:"storageClass,omitempty" jsonschema:"default=local-path,maxLength=63,pattern=^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"`
	// Make it the default StorageClass, for claims that name no class. Left out: true, except with provider openstack, where cinder is the default.
	Default *bool `json:"default,omitempty" yaml:"default,omitempty"`
	// What happens to a volume when its claim is deleted: Delete removes the directory with all data, Retain keeps it.
	ReclaimPolicy string `json:"reclaimPolicy,omitempty" yaml:"reclaimPolicy,omitempty" jsonschema:"default=Delete,enum=Delete,enum=Retain"`
}

// NodeExporter serves the metrics of each machine (processors, memory, disks, network) at the machine's own address.
type NodeExporter struct {
	// Port on each machine, below the node ports and apart from the ports of Kubernetes.
	Port int `json:"port,omitempty" yaml:"port,omitempty" jsonschema:"default=9100,minimum=1024,maximum=65535"`
}

// Addon returns the addon of this name with defaults filled in, or nil if the document does not list it.
func (c *Cluster) Addon(name string) *Addon {
	for i := range c.Spec.Addons {
		if c.Spec.Addons[i].Name == name {
			return &c.Spec.Addons[i]
		}
	}
	return nil
}

// defaultAddons fills in default settings for each listed addon.
func (c *Cluster) defaultAddons() {
	for i := range c.Spec.Addons {
		switch a := &c.Spec.Addons[i]; a.Name {
		case AddonMetricsServer:
			if a.MetricsServer == nil {
				a.MetricsServer = &MetricsServer{}
			}
		case AddonNodeExporter:
			if a.NodeExporter == nil {
				a.NodeExporter = &NodeExporter{}
			}
		case AddonLocalPath:
			if a.LocalPath == nil {
				a.LocalPath = &LocalPath{}
			}
			if a.LocalPath.Default == nil {
				own := c.Spec.Provider.OpenStack == nil
				a.LocalPath.Default = &own
			}
		}
	}
}
