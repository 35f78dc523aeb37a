package flags

import (
	"crypto/tls"
	"slices"
	"strings"
)

var (
	tlsVersions   = []string{"VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"}
	logFormats    = []string{"text", "json"}
	auditModes    = []string{"batch", "blocking", "blocking-strict"}
	auditVersions = []string{"audit.k8s.io/v1"}
)

// enumerated lists the values of flags that look like flags of any text.
var enumerated = map[string]map[string][]string{
	APIServer: {
		"audit-log-mode": auditModes, "audit-webhook-mode": auditModes, "audit-log-version": auditVersions, "audit-webhook-version": auditVersions,
		"audit-log-format": {"legacy", "json"}, "tls-min-version": tlsVersions, "logging-format": logFormats,
	},
	ControllerManager: {"cidr-allocator-type": {"RangeAllocator", "CloudAllocator", "IPAMFromCluster", "IPAMFromCloud"}, "tls-min-version": tlsVersions, "logging-format": logFormats},
	Scheduler:         {"tls-min-version": tlsVersions, "logging-format": logFormats},
	Kubelet: {
		"cgroup-driver": {"cgroupfs", "systemd"}, "cpu-manager-policy": {"none", "static"}, "memory-manager-policy": {"None", "Static"}, "tls-min-version": tlsVersions,
		"topology-manager-policy": {"none", "best-effort", "restricted", "single-numa-node"}, "topology-manager-scope": {"container", "pod"}, "logging-format": logFormats,
		"hairpin-mode": {"promiscuous-bridge", "hairpin-veth", "none"},
	},
	KubeProxy: {"proxy-mode": {"iptables", "ipvs", "nftables"}, "detect-local-mode": {"ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"}, "logging-format": logFormats},
	Etcd: {
		"auto-compaction-mode": {"periodic", "revision"}, "log-format": {"json", "console"}, "log-level": {"debug", "info", "warn", "error", "panic", "fatal"},
		"tls-min-version": {"TLS1.2", "TLS1.3"},
	},
}

// Among reports why a program would refuse a value of a flag that takes only certain ones, as "expected …"; empty if it would accept it.
func Among(program, flag, value string) string {
	if all := enumerated[program][flag]; all != nil && !slices.Contains(all, value) {
		return "expected " + strings.Join(all, " or ")
	}
	if flag != "tls-cipher-suites" || program == Etcd || value == "" {
		return ""
	}
	for name := range strings.SplitSeq(value, ",") {
		if !slices.Contains(cipherSuites(), strings.TrimSpace(name)) {
			return "expected names of cipher suites with commas between them, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256; there is no " + strings.TrimSpace(name)
		}
	}
	return ""
}

// cipherSuites returns the names that Kubernetes takes: Go's, and two of its own.
func cipherSuites() []string {
	out := []string{"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"}
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		out = append(out, s.Name)
	}
	return out
}
