package flags

import "maps"

// Sets is Instead's answer for a flag that Naupegos sets itself.
const Sets = "Naupegos sets it"

// Instead's answers for flags that Naupegos does not set and documents may not set either.
const (
	usual     = "the cluster depends on its default"
	emulation = "an upgrade decides which version the servers emulate"
	fourOnly  = "the pods' network is IPv4"
	abac      = "API servers authorize by Node and RBAC, and read no policy file"
)

// Prefixes of the document fields that replace flags; "spec.kubernetes.kubelet" also stands for a pool's kubelet.
const (
	api     = "spec.kubernetes.apiServer."
	manager = "spec.kubernetes.controllerManager."
	kubelet = "spec.kubernetes.kubelet."
)

// Instead returns what to use in place of a flag: a field of the document, which begins with "spec.", or else why documents may not set it. It is empty
// for a flag that extraArgs may contain.
func Instead(program, flag string) string {
	return instead[program][flag]
}

// Set lists the flags of a program that Naupegos sets itself.
func Set(program string) (names []string) {
	for name, answer := range instead[program] {
		if answer == Sets {
			names = append(names, name)
		}
	}
	return names
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
		"requestheader-extra-headers-prefix", "requestheader-group-headers", "requestheader-username-headers", "secure-port",
		"service-account-issuer", "service-account-key-file", "service-account-signing-key-file", "tls-cert-file", "tls-private-key-file",
		"authentication-config", "authorization-mode", "encryption-provider-config-automatic-reload"),
		all(usual, "requestheader-uid-headers", "bind-address", "cert-dir", "etcd-prefix", "storage-backend", "permit-port-sharing"),
		all(emulation, "emulated-version", "emulation-forward-compatible", "min-compatibility-version"),
		all("spec.identity.authorizationWebhooks", "authorization-config", "authorization-webhook-config-file", "authorization-webhook-version",
			"authorization-webhook-cache-authorized-ttl", "authorization-webhook-cache-unauthorized-ttl"),
		map[string]string{
			"authorization-policy-file":        abac,
			"anonymous-auth":                   "the file of authentication-config, which Naupegos writes, decides it",
			"service-account-signing-endpoint": "the cluster's own key signs tokens of service accounts",
			"oidc-signing-algs":                "with spec.identity.issuers API servers accept every asymmetric algorithm",
		}, map[string]string{
			"service-cluster-ip-range":       "spec.kubernetes.serviceCIDR",
			"encryption-provider-config":     "spec.security.encryptionAtRest",
			"audit-policy-file":              "spec.security.auditLog.policy",
			"audit-log-path":                 "spec.security.auditLog.enabled",
			"audit-log-maxage":               "spec.security.auditLog.maxAgeDays",
			"audit-log-maxbackup":            "spec.security.auditLog.maxBackups",
			"audit-log-maxsize":              "spec.security.auditLog.maxSizeMiB",
			"audit-webhook-config-file":      api + "auditWebhook",
			"feature-gates":                  api + "featureGates",
			"enable-admission-plugins":       api + "enableAdmissionPlugins",
			"disable-admission-plugins":      api + "disableAdmissionPlugins",
			"admission-control":              api + "enableAdmissionPlugins",
			"admission-control-config-file":  api + "admissionConfig",
			"runtime-config":                 api + "runtimeConfig",
			"max-requests-inflight":          api + "maxRequestsInflight",
			"max-mutating-requests-inflight": api + "maxMutatingRequestsInflight",
			"watch-cache-sizes":              api + "watchCacheSizes",
			"oidc-issuer-url":                "spec.identity.issuers",
			"oidc-client-id":                 "spec.identity.issuers",
			"oidc-ca-file":                   "spec.identity.issuers",
			"oidc-groups-claim":              "spec.identity.issuers",
			"oidc-groups-prefix":             "spec.identity.issuers",
			"oidc-required-claim":            "spec.identity.issuers",
			"oidc-username-claim":            "spec.identity.issuers",
			"oidc-username-prefix":           "spec.identity.issuers",
		}),
	ControllerManager: merged(all(Sets,
		"allocate-node-cidrs", "authentication-kubeconfig", "authorization-kubeconfig", "bind-address", "client-ca-file", "cluster-name",
		"cluster-signing-cert-file", "cluster-signing-key-file", "controllers", "kubeconfig", "leader-elect", "requestheader-client-ca-file", "root-ca-file",
		"service-account-private-key-file", "use-service-account-credentials"),
		all(usual, "secure-port", "cert-dir", "master", "tls-cert-file", "tls-private-key-file"),
		all(emulation, "emulated-version", "min-compatibility-version"),
		all(fourOnly, "node-cidr-mask-size-ipv6"), map[string]string{
			"node-cidr-mask-size":         "spec.kubernetes.nodeCIDRMaskSize",
			"node-cidr-mask-size-ipv4":    "spec.kubernetes.nodeCIDRMaskSize",
			"cluster-cidr":                "spec.kubernetes.podCIDR",
			"service-cluster-ip-range":    "spec.kubernetes.serviceCIDR",
			"feature-gates":               manager + "featureGates",
			"node-monitor-grace-period":   manager + "nodeMonitorGracePeriod",
			"terminated-pod-gc-threshold": manager + "terminatedPodGCThreshold",
		}),
	Scheduler: merged(all(Sets, "authentication-kubeconfig", "authorization-kubeconfig", "bind-address", "kubeconfig", "leader-elect"),
		all(usual, "secure-port", "cert-dir", "master", "tls-cert-file", "tls-private-key-file"),
		all(emulation, "emulated-version", "min-compatibility-version"), map[string]string{
			"write-config-to": "the scheduler would end once it has written the file",
			"config":          "spec.kubernetes.scheduler.config",
			"feature-gates":   "spec.kubernetes.scheduler.featureGates",
		}),
	Kubelet: merged(all(Sets,
		"bootstrap-kubeconfig", "kubeconfig", "config", "hostname-override", "cloud-provider", "node-ip", "provider-id", "container-runtime-endpoint",
		"pod-manifest-path", "cgroup-driver", "client-ca-file", "cluster-dns", "cluster-domain", "rotate-certificates", "rotate-server-certificates",
		"tls-cert-file", "tls-private-key-file", "anonymous-auth", "authorization-mode", "authentication-token-webhook", "resolv-conf", "healthz-port",
		"healthz-bind-address", "fail-cgroupv1", "make-iptables-util-chains"),
		all(usual, "config-dir", "root-dir", "cert-dir", "register-node", "exit-on-lock-contention", "lock-file", "address", "port", "read-only-port", "manifest-url",
			"manifest-url-header", "pod-cidr"), map[string]string{
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
		"advertise-client-urls", "cert-file", "client-cert-auth", "data-dir", "initial-advertise-peer-urls", "initial-cluster", "initial-cluster-state", "key-file",
		"listen-client-urls", "listen-metrics-urls", "listen-peer-urls", "name", "peer-cert-file", "peer-client-cert-auth",
		"peer-key-file", "peer-trusted-ca-file", "trusted-ca-file"),
		all(usual, "listen-client-http-urls", "initial-cluster-token", "wal-dir"),
		all("members know each other by the list that Naupegos gives them", "discovery", "discovery-srv"),
		all("members have certificates of the cluster's authority", "auto-tls", "peer-auto-tls"), map[string]string{
			"force-new-cluster":   "it would throw away all other members: naupegos etcd recover does that",
			"quota-backend-bytes": "spec.etcd.quotaBackendGiB",
			"heartbeat-interval":  "spec.etcd.heartbeatMilliseconds",
			"election-timeout":    "spec.etcd.electionMilliseconds",
			"feature-gates":       "spec.etcd.featureGates",
		}),
}

// insteadOfFields contains every field that a configuration text refuses.
var insteadOfFields = map[string]map[string]string{
	Kubelet: merged(all(Sets,
		"staticPodPath", "containerRuntimeEndpoint", "cgroupDriver", "clusterDNS", "clusterDomain", "rotateCertificates",
		"serverTLSBootstrap", "tlsCertFile", "tlsPrivateKeyFile", "authentication", "authorization", "healthzPort", "healthzBindAddress", "resolvConf",
		"failSwapOn", "failCgroupV1", "makeIPTablesUtilChains", "providerID"),
		all(usual, "staticPodURL", "port", "readOnlyPort", "address", "registerNode", "podCIDR"), map[string]string{
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
	KubeProxy: merged(all(Sets, "clientConnection", "clusterCIDR", "hostnameOverride"), all(usual, "bindAddress", "healthzBindAddress"), map[string]string{
		"mode":         "spec.kubernetes.kubeProxy.mode",
		"featureGates": "spec.kubernetes.kubeProxy.featureGates",
	}),
	Scheduler: merged(all(Sets, "clientConnection", "leaderElection"), all(usual, "delayCacheUntilActive")),
}

func all(what string, names ...string) map[string]string {
	out := map[string]string{}
	for _, n := range names {
		out[n] = what
	}
	return out
}

func merged(parts ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, part := range parts {
		maps.Copy(out, part)
	}
	return out
}
