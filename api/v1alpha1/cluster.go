package v1alpha1

// Cluster is the whole document: one cluster as it should be.
type Cluster struct {
	// Version of the document format.
	APIVersion string `json:"apiVersion" yaml:"apiVersion" jsonschema:"required,enum=naupegos.dev/v1alpha1"`
	// What this document describes.
	Kind string `json:"kind" yaml:"kind" jsonschema:"required,enum=Cluster"`
	// What the cluster is called.
	Metadata Metadata `json:"metadata" yaml:"metadata" jsonschema:"required"`
	// What the cluster should be.
	Spec Spec `json:"spec" yaml:"spec" jsonschema:"required"`
	// Contents of the files that spec.manifests and spec.charts name, by path: a compressed archive in base64. Naupegos fills it in when it reads the files; leave it out.
	Sources map[string]string `json:"sources,omitempty" yaml:"sources,omitempty"`
}

// Metadata names the cluster.
type Metadata struct {
	// Name of the cluster: lower-case letters, digits and dashes. Machines are called NAME-cp-1, NAME-gw-1, NAME-POOL-1, which must not be longer than 63 characters.
	Name string `json:"name" yaml:"name" jsonschema:"required,maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"`
}

// Spec is what the cluster should be.
type Spec struct {
	// Release and networks of Kubernetes.
	Kubernetes Kubernetes `json:"kubernetes,omitzero" yaml:"kubernetes,omitempty"`
	// Where machines come from: exactly one of the providers.
	Provider Provider `json:"provider" yaml:"provider" jsonschema:"required"`
	// Where clients and nodes reach the Kubernetes API.
	Endpoint Endpoint `json:"endpoint,omitzero" yaml:"endpoint,omitempty"`
	// The machines that run the control plane.
	ControlPlane ControlPlane `json:"controlPlane,omitzero" yaml:"controlPlane,omitempty"`
	// How etcd runs.
	Etcd Etcd `json:"etcd,omitzero" yaml:"etcd,omitempty"`
	// Pools of machines that run workloads. With provider hosts, pools that are not listed here are derived from the machines.
	Workers []Pool `json:"workers,omitempty" yaml:"workers,omitempty" jsonschema:"maxItems=100"`
	// Settings of all machines, such as files, units, packages and kernel settings, in addition to what Naupegos itself configures.
	Machines MachineSettings `json:"machines,omitzero" yaml:"machines,omitempty"`
	// HTTP proxy through which machines reach destinations outside the cluster.
	Proxy *Proxy `json:"proxy,omitempty" yaml:"proxy,omitempty"`
	// Mirrors, credentials and certificate authorities of image registries.
	Registries []Registry `json:"registries,omitempty" yaml:"registries,omitempty" jsonschema:"maxItems=100"`
	// A registry inside the cluster, on control-plane machines: it serves the images of the bundle and of naupegos bundle add. Machines ask it after the mirrors in registries and before the registries themselves.
	Registry *ImageRegistry `json:"registry,omitempty" yaml:"registry,omitempty"`
	// Audit, encryption and hardening. On by default.
	Security Security `json:"security,omitzero" yaml:"security,omitempty"`
	// Who may use the Kubernetes API: issuers of tokens, and roles.
	Identity Identity `json:"identity,omitzero" yaml:"identity,omitempty"`
	// Components that run in the cluster for its users. Each addon is installed, upgraded and removed with the cluster.
	Addons []Addon `json:"addons,omitempty" yaml:"addons,omitempty" jsonschema:"maxItems=50"`
	// Manifests and kustomizations of your own: applied, kept and removed with the cluster.
	Manifests []Manifests `json:"manifests,omitempty" yaml:"manifests,omitempty" jsonschema:"maxItems=50"`
	// Helm charts of your own: rendered without the cluster, applied, kept and removed with it.
	Charts []Chart `json:"charts,omitempty" yaml:"charts,omitempty" jsonschema:"maxItems=50"`
	// The cluster's certificate authorities.
	PKI PKI `json:"pki,omitzero" yaml:"pki,omitempty"`
	// Who may log in to the machines.
	Access Access `json:"access,omitzero" yaml:"access,omitempty"`
	// Where backups go, who can open them, and which ones are kept.
	Backup *Backup `json:"backup,omitempty" yaml:"backup,omitempty"`
	// How changes are rolled out.
	Updates Updates `json:"updates,omitzero" yaml:"updates,omitempty"`
	// How machines that stay NotReady are repaired.
	Repair Repair `json:"repair,omitzero" yaml:"repair,omitempty"`
	// What naupegos server does for the cluster on its own, and how often. Tasks that are left out are not done.
	Unattended Unattended `json:"unattended,omitzero" yaml:"unattended,omitempty"`
	// How long things may take.
	Timeouts Timeouts `json:"timeouts,omitzero" yaml:"timeouts,omitempty"`
	// Refuse destroy, reset and the removal of control-plane machines. To allow one of them, remove this setting and apply first.
	Protect bool `json:"protect,omitempty" yaml:"protect,omitempty"`
	// After each change, run a test workload behind a Service and call it from another node and by its DNS name.
	SmokeTest *bool `json:"smokeTest,omitempty" yaml:"smokeTest,omitempty" jsonschema:"default=true"`
}

// Kubernetes is the release and its networks.
type Kubernetes struct {
	// Release to run, with its patch number. If it is left out, a running cluster keeps its current release.
	Version string `json:"version,omitempty" yaml:"version,omitempty" jsonschema:"default=v1.37.2,pattern=^v1\\.[0-9]+\\.[0-9]+$" host:"release"`
	// VersionLeftOut reports that the document named no release before defaults were filled in. A running cluster then keeps its own release, even if the default has changed since.
	VersionLeftOut bool `json:"-" yaml:"-"`
	// Network of the pods (IPv4, from /8). Each node takes a part of it.
	PodCIDR string `json:"podCIDR,omitempty" yaml:"podCIDR,omitempty" jsonschema:"default=10.244.0.0/16,pattern=^[0-9.]+/[0-9]+$"`
	// Prefix length of the part of podCIDR that each node takes: 24 gives a node 253 addresses for pods, 23 gives it 509.
	NodeCIDRMaskSize int `json:"nodeCIDRMaskSize,omitempty" yaml:"nodeCIDRMaskSize,omitempty" jsonschema:"default=24,minimum=20,maximum=28"`
	// Network of the Services (IPv4, /12 to /28).
	ServiceCIDR string `json:"serviceCIDR,omitempty" yaml:"serviceCIDR,omitempty" jsonschema:"default=10.96.0.0/16,pattern=^[0-9.]+/[0-9]+$"`
	// Domain of Services inside the cluster.
	DNSDomain string `json:"dnsDomain,omitempty" yaml:"dnsDomain,omitempty" jsonschema:"default=cluster.local,maxLength=200,pattern=^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"`
	// Pod network: flannel, or none to bring your own (nodes are not Ready until you do; set smokeTest to false).
	CNI string `json:"cni,omitempty" yaml:"cni,omitempty" jsonschema:"default=flannel,enum=flannel,enum=none"`
	// How the API servers run.
	APIServer APIServer `json:"apiServer,omitzero" yaml:"apiServer,omitempty"`
	// How the controller managers run.
	ControllerManager ControllerManager `json:"controllerManager,omitzero" yaml:"controllerManager,omitempty"`
	// How the schedulers run.
	Scheduler Scheduler `json:"scheduler,omitzero" yaml:"scheduler,omitempty"`
	// How the kubelets of all machines run.
	Kubelet Kubelet `json:"kubelet,omitzero" yaml:"kubelet,omitempty"`
	// How kube-proxy runs.
	KubeProxy KubeProxy `json:"kubeProxy,omitzero" yaml:"kubeProxy,omitempty"`
}

// The pod networks.
const (
	CNIFlannel = "flannel"
	CNINone    = "none"
)
