package flags

// Sets is Instead's answer for a flag that Naupegos sets itself.
const Sets = "Naupegos sets it"

// Prefixes of the document fields that replace flags; "spec.kubernetes.kubelet" also stands for a pool's kubelet.
const (
	api     = "spec.kubernetes.apiServer."
	manager = "spec.kubernetes.controllerManager."
	kubelet = "spec.kubernetes.kubelet."
)

// Instead returns what to use in place of a flag: a field of the document, or Sets. It is empty for a flag that extraArgs may contain.
func Instead(program, flag string) string {
	return instead[program][flag]
}

// InsteadOfField is Instead for a field of a configuration file.
func InsteadOfField(program, field string) string { return insteadOfFields[program][field] }

// instead contains every flag that extraArgs refuse. Flags that Naupegos sets but a cluster can change (profiling, request timeouts, TLS versions,
// etcd's compaction) are missing: extraArgs override them.
var instead = map[string]map[string]string{
	APIServer: merged(all(Sets,
		"advertise-address", "allow-privileged", "client-ca-file", "enable-bootstrap-token-auth", "etcd-cafile", "etcd-certfile", "etcd-keyfile",
		"etcd-servers", "kubelet-client-certificate", "kubelet-client-key", "kubelet-certificate-authority", "kubelet-preferred-address-types",
		"proxy-client-cert-file", "proxy-client-key-file", "requestheader-allowed-names", "requestheader-client-ca-file",
		"requestheader-extra-headers-prefix", "requestheader-group-headers", "requestheader-username-headers", "requestheader-uid-headers", "secure-port",
		"service-account-issuer", "service-account-key-file", "service-account-signing-key-file", "service-account-signing-endpoint", "tls-cert-file",
		"tls-private-key-file", "emulated-version", "emulation-forward-compatible", "min-compatibility-version", "bind-address", "cert-dir",
		"anonymous-auth", "authentication-config", "authorization-mode", "authorization-config", "etcd-prefix", "storage-backend",
		"encryption-provider-config-automatic-reload", "permit-port-sharing"), map[string]string{
		"service-cluster-ip-range":                 "spec.kubernetes.serviceCIDR",
		"encryption-provider-config":               "spec.security.encryptionAtRest",
		"audit-policy-file":                        "spec.security.auditLog.policy",
		"audit-log-path":                           "spec.security.auditLog.enabled",
		"audit-log-maxage":                         "spec.security.auditLog.maxAgeDays",
		"audit-log-maxbackup":                      "spec.security.auditLog.maxBackups",
		"audit-log-maxsize":                        "spec.security.auditLog.maxSizeMiB",
		"audit-webhook-config-file":                api + "auditWebhook",
		"feature-gates":                            api + "featureGates",
		"enable-admission-plugins":                 api + "enableAdmissionPlugins",
		"disable-admission-plugins":                api + "disableAdmissionPlugins",
		"admission-control":                        api + "enableAdmissionPlugins",
		"admission-control-config-file":            api + "admissionConfig",
		"runtime-config":                           api + "runtimeConfig",
		"max-requests-inflight":                    api + "maxRequestsInflight",
		"max-mutating-requests-inflight":           api + "maxMutatingRequestsInflight",
		"watch-cache-sizes":                        api + "watchCacheSizes",
		"oidc-issuer-url":                          Sets,
		"oidc-client-id":                           Sets,
		"oidc-ca-file":                             Sets,
		"oidc-groups-claim":                        Sets,
		"oidc-groups-prefix":                       Sets,
		"oidc-required-claim":                      Sets,
		"oidc-signing-algs":                        Sets,
		"oidc-username-claim":                      Sets,
		"oidc-username-prefix":                     Sets,
		"authentication-token-webhook-config-file": Sets,
	}),
	ControllerManager: merged(all(Sets,
		"allocate-node-cidrs", "authentication-kubeconfig", "authorization-kubeconfig", "bind-address", "client-ca-file", "cluster-name",
		"cluster-signing-cert-file", "cluster-signing-key-file", "kubeconfig", "leader-elect", "requestheader-client-ca-file", "root-ca-file",
		"service-account-private-key-file", "use-service-account-credentials", "emulated-version",
		"min-compatibility-version", "secure-port", "cert-dir", "master", "controllers", "node-cidr-mask-size", "node-cidr-mask-size-ipv4",
		"node-cidr-mask-size-ipv6", "tls-cert-file", "tls-private-key-file"), map[string]string{
		"cluster-cidr":                "spec.kubernetes.podCIDR",
		"service-cluster-ip-range":    "spec.kubernetes.serviceCIDR",
		"feature-gates":               manager + "featureGates",
		"node-monitor-grace-period":   manager + "nodeMonitorGracePeriod",
		"terminated-pod-gc-threshold": manager + "terminatedPodGCThreshold",
	}),
	Scheduler: merged(all(Sets,
		"authentication-kubeconfig", "authorization-kubeconfig", "bind-address", "kubeconfig", "leader-elect", "emulated-version",
		"min-compatibility-version", "secure-port", "cert-dir", "master", "write-config-to", "tls-cert-file",
		"tls-private-key-file"), map[string]string{
		"config":        "spec.kubernetes.scheduler.config",
		"feature-gates": "spec.kubernetes.scheduler.featureGates",
	}),
	Kubelet: merged(all(Sets,
		"bootstrap-kubeconfig", "kubeconfig", "config", "config-dir", "hostname-override", "cloud-provider", "node-ip", "provider-id", "root-dir",
		"cert-dir", "container-runtime-endpoint", "pod-manifest-path", "cgroup-driver", "client-ca-file", "cluster-dns", "cluster-domain",
		"rotate-certificates", "rotate-server-certificates", "tls-cert-file", "tls-private-key-file", "anonymous-auth", "authorization-mode",
		"authentication-token-webhook", "resolv-conf", "register-node", "exit-on-lock-contention", "lock-file"), map[string]string{
		"node-labels":                   "spec.workers[].labels",
		"feature-gates":                 kubelet + "featureGates",
		"max-pods":                      kubelet + "maxPods",
		"pod-max-pids":                  kubelet + "podPidsLimit",
		"system-reserved":               kubelet + "systemReserved",
		"kube-reserved":                 kubelet + "kubeReserved",
		"eviction-hard":                 kubelet + "evictionHard",
		"eviction-soft":                 kubelet + "evictionSoft",
		"eviction-soft-grace-period":    kubelet + "evictionSoftGracePeriod",
		"eviction-max-pod-grace-period": kubelet + "evictionMaxPodGracePeriod",
		"container-log-max-size":        kubelet + "containerLogMaxSize",
		"container-log-max-files":       kubelet + "containerLogMaxFiles",
		"cpu-manager-policy":            kubelet + "cpuManagerPolicy",
		"memory-manager-policy":         kubelet + "memoryManagerPolicy",
		"topology-manager-policy":       kubelet + "topologyManagerPolicy",
		"reserved-cpus":                 kubelet + "reservedSystemCPUs",
		"seccomp-default":               kubelet + "seccompDefault",
		"fail-swap-on":                  kubelet + "swapBehavior",
	}),
	Etcd: merged(all(Sets,
		"advertise-client-urls", "cert-file", "client-cert-auth", "data-dir", "initial-advertise-peer-urls", "initial-cluster", "key-file",
		"listen-client-urls", "listen-client-http-urls", "listen-metrics-urls", "listen-peer-urls", "name", "peer-cert-file", "peer-client-cert-auth",
		"peer-key-file", "peer-trusted-ca-file", "trusted-ca-file", "initial-cluster-state", "initial-cluster-token", "wal-dir",
		"force-new-cluster", "auto-tls", "peer-auto-tls", "discovery", "discovery-srv"), map[string]string{
		"quota-backend-bytes": "spec.etcd.quotaBackendGiB",
		"heartbeat-interval":  "spec.etcd.heartbeatMilliseconds",
		"election-timeout":    "spec.etcd.electionMilliseconds",
		"feature-gates":       "spec.etcd.featureGates",
	}),
}

// insteadOfFields contains every field that a configuration text refuses.
var insteadOfFields = map[string]map[string]string{
	Kubelet: merged(all(Sets,
		"staticPodPath", "staticPodURL", "containerRuntimeEndpoint", "cgroupDriver", "clusterDNS", "clusterDomain", "rotateCertificates",
		"serverTLSBootstrap", "tlsCertFile", "tlsPrivateKeyFile", "authentication", "authorization", "healthzPort", "healthzBindAddress", "resolvConf",
		"failSwapOn", "failCgroupV1", "makeIPTablesUtilChains", "port", "readOnlyPort", "address", "registerNode", "providerID", "podCIDR"), map[string]string{
		"registerWithTaints":        "spec.workers[].taints",
		"featureGates":              kubelet + "featureGates",
		"maxPods":                   kubelet + "maxPods",
		"podPidsLimit":              kubelet + "podPidsLimit",
		"systemReserved":            kubelet + "systemReserved",
		"kubeReserved":              kubelet + "kubeReserved",
		"evictionHard":              kubelet + "evictionHard",
		"evictionSoft":              kubelet + "evictionSoft",
		"evictionSoftGracePeriod":   kubelet + "evictionSoftGracePeriod",
		"evictionMaxPodGracePeriod": kubelet + "evictionMaxPodGracePeriod",
		"containerLogMaxSize":       kubelet + "containerLogMaxSize",
		"containerLogMaxFiles":      kubelet + "containerLogMaxFiles",
		"cpuManagerPolicy":          kubelet + "cpuManagerPolicy",
		"memoryManagerPolicy":       kubelet + "memoryManagerPolicy",
		"topologyManagerPolicy":     kubelet + "topologyManagerPolicy",
		"reservedSystemCPUs":        kubelet + "reservedSystemCPUs",
		"seccompDefault":            kubelet + "seccompDefault",
		"memorySwap":                kubelet + "swapBehavior",
	}),
	KubeProxy: merged(all(Sets, "clientConnection", "clusterCIDR", "hostnameOverride", "bindAddress", "healthzBindAddress"), map[string]string{
		"mode":         "spec.kubernetes.kubeProxy.mode",
		"featureGates": "spec.kubernetes.kubeProxy.featureGates",
	}),
	Scheduler: all(Sets, "clientConnection", "leaderElection", "delayCacheUntilActive"),
}

func all(what string, names ...string) map[string]string {
	out := map[string]string{}
	for _, n := range names {
		out[n] = what
	}
	return out
}

func merged(a, b map[string]string) map[string]string {
	for k, v := range b {
		a[k] = v
	}
	return a
}
