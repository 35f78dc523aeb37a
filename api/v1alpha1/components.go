package v1alpha1

import "reflect"

// APIServer is how the API servers run. Each flag, gate and plugin must be one that the release has.
type APIServer struct {
	// Further DNS names and IP addresses in the API servers' certificates.
	CertSANs []string `json:"certSANs,omitempty" yaml:"certSANs,omitempty" jsonschema:"maxItems=100"`
	// Feature gates to set, by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty" yaml:"featureGates,omitempty"`
	// Admission plugins to enable besides those that are on by default.
	EnableAdmissionPlugins []string `json:"enableAdmissionPlugins,omitempty" yaml:"enableAdmissionPlugins,omitempty" jsonschema:"maxItems=50"`
	// Admission plugins to disable.
	DisableAdmissionPlugins []string `json:"disableAdmissionPlugins,omitempty" yaml:"disableAdmissionPlugins,omitempty" jsonschema:"maxItems=50"`
	// Configuration of admission plugins: an apiserver.config.k8s.io/v1 AdmissionConfiguration as YAML text.
	AdmissionConfig string `json:"admissionConfig,omitempty" yaml:"admissionConfig,omitempty"`
	// API versions to serve or not to serve, as "resource.k8s.io/v1beta1": true.
	RuntimeConfig map[string]bool `json:"runtimeConfig,omitempty" yaml:"runtimeConfig,omitempty"`
	// Reading requests that a server works on at a time. Left out: 400, the release's default.
	MaxRequestsInflight int `json:"maxRequestsInflight,omitempty" yaml:"maxRequestsInflight,omitempty" jsonschema:"minimum=1,maximum=100000"`
	// Changing requests that a server works on at a time. Left out: 200, the release's default.
	MaxMutatingRequestsInflight int `json:"maxMutatingRequestsInflight,omitempty" yaml:"maxMutatingRequestsInflight,omitempty" jsonschema:"minimum=1,maximum=100000"`
	// Sizes of the watch caches of resources, as "pods": 1000 or "deployments.apps": 0. A size of 0 turns a resource's cache off; the servers adapt the others themselves.
	WatchCacheSizes map[string]int `json:"watchCacheSizes,omitempty" yaml:"watchCacheSizes,omitempty"`
	// Where the servers send audit events, besides the audit log.
	AuditWebhook *AuditWebhook `json:"auditWebhook,omitempty" yaml:"auditWebhook,omitempty"`
	// Further flags. They override what Naupegos would set, except for flags that the cluster depends on.
	ExtraArgs []Arg `json:"extraArgs,omitempty" yaml:"extraArgs,omitempty" jsonschema:"maxItems=200"`
}

// AuditWebhook is a server that takes audit events. The rules of the audit policy choose the events.
type AuditWebhook struct {
	// URL of the server, https.
	URL string `json:"url" yaml:"url" jsonschema:"required" host:"none"`
	// Certificates in PEM form that the server's certificate is checked with. Left out: those of the machine.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" host:"none"`
}

// ControllerManager is how the controller managers run.
type ControllerManager struct {
	// Feature gates to set, by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty" yaml:"featureGates,omitempty"`
	// How long a node's kubelet may be silent before the node counts as not Ready: "50s". Left out: the release's default.
	NodeMonitorGracePeriod Duration `json:"nodeMonitorGracePeriod,omitzero" yaml:"nodeMonitorGracePeriod,omitempty"`
	// Ended pods above which the oldest ones are removed.
	TerminatedPodGCThreshold int `json:"terminatedPodGCThreshold,omitempty" yaml:"terminatedPodGCThreshold,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// Further flags. They override what Naupegos would set, except for flags that the cluster depends on.
	ExtraArgs []Arg `json:"extraArgs,omitempty" yaml:"extraArgs,omitempty" jsonschema:"maxItems=200"`
}

// Scheduler is how the schedulers run.
type Scheduler struct {
	// Feature gates to set, by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty" yaml:"featureGates,omitempty"`
	// Fields of the KubeSchedulerConfiguration as YAML text: profiles, extenders and the like.
	Config string `json:"config,omitempty" yaml:"config,omitempty"`
	// Further flags. They override what Naupegos would set, except for flags that the cluster depends on.
	ExtraArgs []Arg `json:"extraArgs,omitempty" yaml:"extraArgs,omitempty" jsonschema:"maxItems=200"`
}

// Kubelet is how the kubelets run. A pool's field replaces the cluster's.
type Kubelet struct {
	// Feature gates to set, by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty" yaml:"featureGates,omitempty"`
	// Most pods of a node. Left out: 110.
	MaxPods int `json:"maxPods,omitempty" yaml:"maxPods,omitempty" jsonschema:"minimum=1,maximum=250"`
	// Most processes of a pod. Left out: 4096 with security.cisDefaults, else no limit.
	PodPidsLimit int `json:"podPidsLimit,omitempty" yaml:"podPidsLimit,omitempty" jsonschema:"minimum=1,maximum=4194304"`
	// What the system keeps of a node for itself: cpu, memory, ephemeral-storage, pid.
	SystemReserved map[string]string `json:"systemReserved,omitempty" yaml:"systemReserved,omitempty"`
	// What kubelet and the container runtime keep of a node for themselves: cpu, memory, ephemeral-storage, pid.
	KubeReserved map[string]string `json:"kubeReserved,omitempty" yaml:"kubeReserved,omitempty"`
	// CPUs that the system keeps for itself, as "0-1,4".
	ReservedSystemCPUs string `json:"reservedSystemCPUs,omitempty" yaml:"reservedSystemCPUs,omitempty"`
	// Signals with the values below which kubelet evicts pods at once, as memory.available: "200Mi". They replace the defaults as a whole.
	EvictionHard map[string]string `json:"evictionHard,omitempty" yaml:"evictionHard,omitempty"`
	// Signals with the values below which kubelet evicts pods after a time.
	EvictionSoft map[string]string `json:"evictionSoft,omitempty" yaml:"evictionSoft,omitempty"`
	// That time, for each signal of evictionSoft, as memory.available: "1m30s".
	EvictionSoftGracePeriod map[string]string `json:"evictionSoftGracePeriod,omitempty" yaml:"evictionSoftGracePeriod,omitempty"`
	// Seconds that an evicted pod gets at most to end, with evictionSoft.
	EvictionMaxPodGracePeriod int `json:"evictionMaxPodGracePeriod,omitempty" yaml:"evictionMaxPodGracePeriod,omitempty" jsonschema:"minimum=1,maximum=86400"`
	// Whether pods may use the machine's swap: NoSwap, or LimitedSwap for Burstable pods. Left out: NoSwap.
	SwapBehavior string `json:"swapBehavior,omitempty" yaml:"swapBehavior,omitempty" jsonschema:"enum=NoSwap,enum=LimitedSwap"`
	// Size at which a container's log is rotated, as "10Mi".
	ContainerLogMaxSize string `json:"containerLogMaxSize,omitempty" yaml:"containerLogMaxSize,omitempty"`
	// Files that are kept of a container's log.
	ContainerLogMaxFiles int `json:"containerLogMaxFiles,omitempty" yaml:"containerLogMaxFiles,omitempty" jsonschema:"minimum=2,maximum=1000"`
	// Whether Guaranteed pods with whole CPUs get CPUs of their own: none or static. static needs a reservation of CPU.
	CPUManagerPolicy string `json:"cpuManagerPolicy,omitempty" yaml:"cpuManagerPolicy,omitempty" jsonschema:"enum=none,enum=static"`
	// Whether Guaranteed pods get memory of their own: None or Static. Static needs reservedMemory in config.
	MemoryManagerPolicy string `json:"memoryManagerPolicy,omitempty" yaml:"memoryManagerPolicy,omitempty" jsonschema:"enum=None,enum=Static"`
	// How CPUs, memory and devices of a pod go together.
	TopologyManagerPolicy string `json:"topologyManagerPolicy,omitempty" yaml:"topologyManagerPolicy,omitempty" jsonschema:"enum=none,enum=best-effort,enum=restricted,enum=single-numa-node"`
	// Give containers that ask for no seccomp profile the runtime's. Left out: true with security.cisDefaults.
	SeccompDefault *bool `json:"seccompDefault,omitempty" yaml:"seccompDefault,omitempty"`
	// Other fields of the KubeletConfiguration as YAML text.
	Config string `json:"config,omitempty" yaml:"config,omitempty"`
	// Further flags. Most flags of kubelet are deprecated: config has their fields.
	ExtraArgs []Arg `json:"extraArgs,omitempty" yaml:"extraArgs,omitempty" jsonschema:"maxItems=200"`
}

// KubeProxy is how kube-proxy runs. It takes no flags beside its configuration.
type KubeProxy struct {
	// Feature gates to set, by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty" yaml:"featureGates,omitempty"`
	// How Services are implemented: nftables or iptables. Left out: nftables.
	Mode string `json:"mode,omitempty" yaml:"mode,omitempty" jsonschema:"enum=nftables,enum=iptables"`
	// Other fields of the KubeProxyConfiguration as YAML text.
	Config string `json:"config,omitempty" yaml:"config,omitempty"`
}

// Arg is a flag of a program. A flag that takes a list may appear several times.
type Arg struct {
	// Name of the flag, without dashes.
	Name string `json:"name" yaml:"name" jsonschema:"required" host:"none"`
	// Its value as text: "true", "10", "30s".
	Value string `json:"value" yaml:"value"`
}

// For returns the settings of a pool's kubelets: those of the cluster with the pool's in their place.
func (k Kubelet) For(p Pool) Kubelet { return overlay(k, p.Kubelet) }

// overlay returns base with every field that over gives.
func overlay[T any](base, over T) T {
	out := reflect.ValueOf(&base).Elem()
	v := reflect.ValueOf(over)
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() {
			out.Field(i).Set(f)
		}
	}
	return base
}
