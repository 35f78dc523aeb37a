package adopt

import (
	"slices"
	"strings"
)

// usual are flags of servers with their own defaults: tools such as Kubespray and KubeOne write them out, and nothing is lost without them. No values:
// no cluster like ours depends on the value.
var usual = map[string]map[string][]string{
	"etcd": {"log-level": {"info"}, "metrics": {"basic"}, "max-request-bytes": {"1572864"}, "heartbeat-interval": {"100"}, "election-timeout": {"1000"}, "logger": {"zap"},
		"auto-compaction-mode": {"periodic"}, "strict-reconfig-check": {"true"}, "experimental-compact-hash-check-enabled": nil},
	"kube-apiserver": {"endpoint-reconciler-type": {"lease"}, "service-node-port-range": {"30000-32767"}, "request-timeout": {"1m", "1m0s"}, "storage-backend": {"etcd3"}, "apiserver-count": nil,
		"bind-address": {"0.0.0.0", "::"}, "anonymous-auth": nil, "service-account-lookup": {"true"}, "event-ttl": {"1h", "1h0m0s"}, "enable-aggregator-routing": {"false"},
		"profiling": {"true"}, "default-not-ready-toleration-seconds": {"300"}, "default-unreachable-toleration-seconds": {"300"}, "etcd-compaction-interval": {"5m", "5m0s"},
		"authorization-mode": {"Node,RBAC", "RBAC,Node"}, "runtime-config": {""}, "feature-gates": {""}, "disable-admission-plugins": {""}, "max-requests-inflight": {"400"},
		"max-mutating-requests-inflight": {"200"}, "tls-cipher-suites": {""}},
	"kube-controller-manager": {"profiling": {"true"}, "node-monitor-grace-period": {"50s", "40s"}, "node-monitor-period": {"5s"}, "terminated-pod-gc-threshold": {"12500"},
		"leader-elect-lease-duration": {"15s"}, "leader-elect-renew-deadline": {"10s"}, "configure-cloud-routes": nil, "node-cidr-mask-size": {"24"}, "node-cidr-mask-size-ipv4": {"24"},
		"feature-gates": {""}},
	"kube-scheduler": {"profiling": {"true"}, "leader-elect-lease-duration": {"15s"}, "leader-elect-renew-deadline": {"10s"}, "feature-gates": {""}},
}

// usualPlugins are admission plugins that every API server has on.
var usualPlugins = []string{"CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "ClusterTrustBundleAttest", "DefaultIngressClass", "DefaultStorageClass",
	"DefaultTolerationSeconds", "LimitRanger", "MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "NamespaceLifecycle", "PersistentVolumeClaimResize", "PodSecurity",
	"PodTopologyLabels", "Priority", "ResourceQuota", "RuntimeClass", "ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition", "ValidatingAdmissionPolicy",
	"ValidatingAdmissionWebhook"}

// withoutUsual removes flags that only repeat defaults. It keeps those that our configuration sets, too, for the comparison.
func withoutUsual(component string, theirs, ours map[string]string) {
	for name, values := range usual[component] {
		if value, set := theirs[name]; set && ours[name] == "" && (values == nil || slices.Contains(values, value)) {
			delete(theirs, name)
		}
	}
	const plugins = "enable-admission-plugins"
	if list := theirs[plugins]; list != "" {
		more := slices.DeleteFunc(strings.Split(list, ","), func(p string) bool { return slices.Contains(usualPlugins, p) })
		if slices.Sort(more); strings.Join(more, ",") == ours[plugins] {
			theirs[plugins] = ours[plugins]
		}
	}
	for _, name := range []string{"authorization-mode", "auto-compaction-retention"} { // two ways to write the same
		if theirs[name] == "RBAC,Node" || theirs[name]+"h" == ours[name] {
			theirs[name] = ours[name]
		}
	}
}

// usualSettings are settings of configurations with their own defaults, as flat returns them.
var usualSettings = map[string]map[string][]string{
	"kubelet": {"maxPods": {"110"}, "podPidsLimit": {"-1"}, "enforceNodeAllocatable": {`["pods"]`}, "containerLogMaxFiles": {"5"}, "containerLogMaxSize": {"10Mi"},
		"imageGCHighThresholdPercent": {"85"}, "imageGCLowThresholdPercent": {"80"}, "eventRecordQPS": {"50"}, "eventBurst": {"100"}, "kubeAPIQPS": {"50"}, "kubeAPIBurst": {"100"},
		"serializeImagePulls": {"true"}, "hairpinMode": {"promiscuous-bridge"}, "cgroupsPerQOS": {"true"}, "port": {"10250"}, "topologyManagerPolicy": {"none"}, "cpuManagerPolicy": {"none"},
		"memoryManagerPolicy": {"None"}, "registryPullQPS": {"5"}, "registryBurst": {"10"}, "failSwapOn": {"true"}, "enableServer": {"true"}, "enableControllerAttachDetach": {"true"},
		"address": {"0.0.0.0", "::"}, "nodeStatusUpdateFrequency": {"10s"}, "nodeStatusReportFrequency": {"5m0s", "5m"}, "nodeLeaseDurationSeconds": {"40"}, "fileCheckFrequency": {"20s"},
		"httpCheckFrequency": {"20s"}, "syncFrequency": {"1m0s", "1m"}, "imageMinimumGCAge": {"2m0s", "2m"}, "volumeStatsAggPeriod": {"1m0s", "1m"}, "runtimeRequestTimeout": {"2m0s", "2m"},
		"streamingConnectionIdleTimeout": {"4h0m0s", "4h"}, "cpuManagerReconcilePeriod": {"10s"}, "evictionPressureTransitionPeriod": {"5m0s", "5m"}, "oomScoreAdj": {"-999"},
		"contentType": {"application/vnd.kubernetes.protobuf"}, "maxOpenFiles": {"1000000"}, "localStorageCapacityIsolation": {"true"}, "registerNode": {"true"}, "cpuCFSQuota": {"true"},
		"cpuCFSQuotaPeriod": {"100ms"}, "configMapAndSecretChangeDetectionStrategy": {"Watch"}, "kubeletCgroups": nil, "logging": nil},
	"kube-proxy": {"healthzBindAddress": {"0.0.0.0:10256"}, "metricsBindAddress": {"127.0.0.1:10249"}, "configSyncPeriod": {"15m0s", "15m"}, "oomScoreAdj": {"-999"}, "logging": nil,
		"conntrack": {`{"maxPerCore":32768,"min":131072,"tcpCloseWaitTimeout":"1h0m0s","tcpEstablishedTimeout":"24h0m0s"}`},
		"iptables":  {`{"masqueradeBit":14,"syncPeriod":"30s"}`, `{"masqueradeBit":14,"minSyncPeriod":"1s","syncPeriod":"30s"}`}},
}

// withoutUsualSettings takes settings away that only spell defaults out, except where ours spell the same.
func withoutUsualSettings(of string, theirs, ours map[string]string) {
	for name, values := range usualSettings[of] {
		if value, set := theirs[name]; set && ours[name] != value && (values == nil || slices.Contains(values, value)) {
			delete(theirs, name)
		}
	}
}
