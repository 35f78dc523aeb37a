package v1alpha1

import "reflect"

// APIServer configures the API servers. Each flag, feature gate and plugin must exist in the release.
type APIServer struct {
	// Further DNS names and IP addresses in the API servers' certificates.
	CertSANs []string `json:"certSANs,omitempty" yaml:"certSANs,omitempty" jsonschema:"maxItems=100"`
	// Feature gates to set, by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty" yaml:"featureGates,omitempty"`
	// Admission plugins to enable in addition to the default ones.
	EnableAdmissionPlugins []string `json:"enableAdmissionPlugins,omitempty" yaml:"enableAdmissionPlugins,omitempty" jsonschema:"maxItems=50"`
	// Admission plugins to disable.
	DisableAdmissionPlugins []string `json:"disableAdmissionPlugins,omitempty" yaml:"disableAdmissionPlugins,omitempty" jsonschema:"maxItems=50"`
	// Configuration of admission plugins: an apiserver.config.k8s.io/v1 AdmissionConfiguration as YAML text.
	AdmissionConfig string `json:"admissionConfig,omitempty" yaml:"admissionConfig,omitempty"`
	// API versions to enable or disable, such as "resource.k8s.io/v1beta1": true.
	RuntimeConfig map[string]bool `json:"runtimeConfig,omitempty" yaml:"runtimeConfig,omitempty"`
	// Maximum number of concurrent read requests per server. Left out: 400, the release's default.
	MaxRequestsInflight int `json:"maxRequestsInflight,omitempty" yaml:"maxRequestsInflight,omitempty" jsonschema:"minimum=1,maximum=100000"`
	// Maximum number of concurrent changing requests per server. Left out: 200, the release's default.
	MaxMutatingRequestsInflight int `json:"maxMutatingRequestsInflight,omitempty" yaml:"maxMutatingRequestsInflight,omitempty" jsonschema:"minimum=1,maximum=100000"`
	// Sizes of the watch caches of resources, such as "pods": 1000 or "deployments.apps": 0. A size of 0 turns a resource's cache off; the servers adapt other sizes themselves.
	WatchCacheSizes map[string]int `json:"watchCacheSizes,omitempty" yaml:"watchCacheSizes,omitempty"`
	// Server that receives audit events, in addition to the audit log.
	AuditWebhook *AuditWebhook `json:"auditWebhook,omitempty" yaml:"auditWebhook,omitempty"`
	// Further flags. They override what Naupegos would set, except for flags that the cluster depends on.
	ExtraArgs []Arg `json:"extraArgs,omitempty" yaml:"extraArgs,omitempty" jsonschema:"maxItems=200"`
}

// AuditWebhook is a server that receives audit events. The rules of the audit policy select the events.
type AuditWebhook struct {
	// URL of the server, https.
	URL string `json:"url" yaml:"url" jsonschema:"required" host:"none"`
	// CA certificates (PEM) that verify the server's certificate. Left out: those of the machine.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" host:"none"`
	// How API servers sign in to the server. Left out: they do not.
	Auth *WebhookAuth `json:"auth,omitempty" yaml:"auth,omitempty"`
}

// ControllerManager configures the controller managers.
type ControllerManager struct {
	// Feature gates to set, by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty" yaml:"featureGates,omitempty"`
	// How long a node's kubelet may be silent before the node counts as NotReady: "50s". Left out: the release's default.
	NodeMonitorGracePeriod Duration `json:"nodeMonitorGracePeriod,omitzero" yaml:"nodeMonitorGracePeriod,omitempty"`
	// Number of finished pods above which the oldest ones are deleted.
	TerminatedPodGCThreshold int `json:"terminatedPodGCThreshold,omitempty" yaml:"terminatedPodGCThreshold,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// Further flags. They override what Naupegos would set, except for flags that the cluster depends on.
	ExtraArgs []Arg `json:"extraArgs,omitempty" yaml:"extraArgs,omitempty" jsonschema:"maxItems=200"`
}

// Scheduler configures the schedulers.
type Scheduler struct {
	// Feature gates to set, by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty" yaml:"featureGates,omitempty"`
	// Fields of the KubeSchedulerConfiguration as YAML text: profiles, extenders and the like.
	Config string `json:"config,omitempty" yaml:"config,omitempty"`
	// Further flags. They override what Naupegos would set, except for flags that the cluster depends on.
	ExtraArgs []Arg `json:"extraArgs,omitempty" yaml:"extraArgs,omitempty" jsonschema:"maxItems=200"`
}

// Kubelet configures the kubelets. A field that a pool sets overrides the cluster's.
type Kubelet struct {
	// Feature gates to set, by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty" yaml:"featureGates,omitempty"`
	// Maximum number of pods per node, at most the addresses that nodeCIDRMaskSize gives it. Left out: 110.
	MaxPods int `json:"maxPods,omitempty" yaml:"maxPods,omitempty" jsonschema:"minimum=1,maximum=2500"`
	// Maximum number of processes per pod. Left out: 4096 with security.cisDefaults, else no limit.
	PodPidsLimit int `json:"podPidsLimit,omitempty" yaml:"podPidsLimit,omitempty" jsonschema:"minimum=1,maximum=4194304"`
	// Resources of a node reserved for the system: cpu, memory, ephemeral-storage, pid.
	SystemReserved map[string]string `json:"systemReserved,omitempty" yaml:"systemReserved,omitempty"`
	// Resources of a node reserved for kubelet and the container runtime: cpu, memory, ephemeral-storage, pid.
	KubeReserved map[string]string `json:"kubeReserved,omitempty" yaml:"kubeReserved,omitempty"`
	// CPUs reserved for the system, such as "0-1,4".
	ReservedSystemCPUs string `json:"reservedSystemCPUs,omitempty" yaml:"reservedSystemCPUs,omitempty"`
	// Eviction signals and the thresholds below which kubelet evicts pods at once, such as memory.available: "200Mi". They replace all defaults.
	EvictionHard map[string]string `json:"evictionHard,omitempty" yaml:"evictionHard,omitempty"`
	// Eviction signals and the thresholds below which kubelet evicts pods after a grace period.
	EvictionSoft map[string]string `json:"evictionSoft,omitempty" yaml:"evictionSoft,omitempty"`
	// Grace period for each signal of evictionSoft, such as memory.available: "1m30s".
	EvictionSoftGracePeriod map[string]string `json:"evictionSoftGracePeriod,omitempty" yaml:"evictionSoftGracePeriod,omitempty"`
	// Maximum number of seconds that a pod gets to terminate when it is evicted by evictionSoft.
	EvictionMaxPodGracePeriod int `json:"evictionMaxPodGracePeriod,omitempty" yaml:"evictionMaxPodGracePeriod,omitempty" jsonschema:"minimum=1,maximum=86400"`
	// Whether pods may use the machine's swap: NoSwap, or LimitedSwap for Burstable pods, with which kubelets start only on machines with cgroup v2. Left out: NoSwap.
	SwapBehavior string `json:"swapBehavior,omitempty" yaml:"swapBehavior,omitempty" jsonschema:"enum=NoSwap,enum=LimitedSwap"`
	// Size at which a container's log is rotated, such as "10Mi".
	ContainerLogMaxSize string `json:"containerLogMaxSize,omitempty" yaml:"containerLogMaxSize,omitempty"`
	// Number of log files kept per container.
	ContainerLogMaxFiles int `json:"containerLogMaxFiles,omitempty" yaml:"containerLogMaxFiles,omitempty" jsonschema:"minimum=2,maximum=1000"`
	// Whether Guaranteed pods with whole CPUs get exclusive CPUs: none or static. static needs a CPU reservation.
	CPUManagerPolicy string `json:"cpuManagerPolicy,omitempty" yaml:"cpuManagerPolicy,omitempty" jsonschema:"enum=none,enum=static"`
	// Whether Guaranteed pods get dedicated memory: None or Static. Static needs reservedMemory in config.
	MemoryManagerPolicy string `json:"memoryManagerPolicy,omitempty" yaml:"memoryManagerPolicy,omitempty" jsonschema:"enum=None,enum=Static"`
	// How strictly the CPUs, memory and devices of a pod must be close to each other (NUMA alignment).
	TopologyManagerPolicy string `json:"topologyManagerPolicy,omitempty" yaml:"topologyManagerPolicy,omitempty" jsonschema:"enum=none,enum=best-effort,enum=restricted,enum=single-numa-node"`
	// Use the runtime's seccomp profile for containers that request none. Left out: true with security.cisDefaults.
	SeccompDefault *bool `json:"seccompDefault,omitempty" yaml:"seccompDefault,omitempty"`
	// Other fields of the KubeletConfiguration as YAML text.
	Config string `json:"config,omitempty" yaml:"config,omitempty"`
	// Further flags. Most kubelet flags are deprecated; config has fields for them.
	ExtraArgs []Arg `json:"extraArgs,omitempty" yaml:"extraArgs,omitempty" jsonschema:"maxItems=200"`
}

// KubeProxy configures kube-proxy, which takes no flags besides its configuration.
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
	// Value as text: "true", "10", "30s".
	Value string `json:"value" yaml:"value"`
}

// For returns the kubelet settings of a pool: the cluster's, overridden by the pool's.
func (k Kubelet) For(p Pool) Kubelet { return overlay(k, p.Kubelet) }

// overlay returns base with every field that is set in over.
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
