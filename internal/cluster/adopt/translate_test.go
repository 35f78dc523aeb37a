package adopt

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/testkit"
)

// spec parses the parts of a document that a test expects.
func spec(t *testing.T, text string) (out struct {
	Identity   v1alpha1.Identity
	Kubernetes v1alpha1.Kubernetes
	Etcd       v1alpha1.Etcd
	Workers    []v1alpha1.Pool
}) {
	t.Helper()
	testkit.Must(t, yaml.UnmarshalStrict([]byte(text), &out))
	return out
}

// configure adds settings to the kubelet's configuration of hosts.
func configure(t *testing.T, text string, hosts ...int) func(*Found) {
	return func(f *Found) {
		for _, i := range hosts {
			f.Hosts[i].Files[kubeletConfig] = append(written(t, "kubelet.yaml"), text...)
		}
	}
}

// TestTranslated: the document holds the owner's settings, and lost is only what it can't hold.
func TestTranslated(t *testing.T) {
	apiServer := func(pairs ...string) func(*Found) {
		return func(f *Found) {
			for _, pair := range pairs {
				name, value, _ := strings.Cut(pair, "=")
				with(f, "kube-apiserver", name, value)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*Found)
		want  string // of the document
		lost  []string
	}{
		"gates and plugins": {apiServer("feature-gates=InPlacePodVerticalScaling=true", "enable-admission-plugins=NodeRestriction,NamespaceLifecycle,AlwaysPullImages",
			"disable-admission-plugins=DefaultStorageClass", "runtime-config=resource.k8s.io/v1beta1=true,batch/v1"),
			"kubernetes: {apiServer: {featureGates: {InPlacePodVerticalScaling: true}, enableAdmissionPlugins: [AlwaysPullImages], disableAdmissionPlugins: [DefaultStorageClass], runtimeConfig: {resource.k8s.io/v1beta1: true, batch/v1: true}}}", nil},
		"limits": {apiServer("max-requests-inflight=800", "max-mutating-requests-inflight=300", "watch-cache-sizes=pods#5000,deployments.apps#0", "request-timeout=2m0s", "goaway-chance=0.001"),
			`kubernetes: {apiServer: {maxRequestsInflight: 800, maxMutatingRequestsInflight: 300, watchCacheSizes: {pods: 5000, deployments.apps: 0}, extraArgs: [{name: goaway-chance, value: "0.001"}, {name: request-timeout, value: 2m0s}]}}`, nil},
		"a gate that is gone":  {apiServer("feature-gates=EphemeralContainers=true,InPlacePodVerticalScaling=true"), "{}", []string{"feature-gates="}},
		"a flag that is gone":  {apiServer("kubelet-https=true", "event-ttl=2h"), `kubernetes: {apiServer: {extraArgs: [{name: event-ttl, value: 2h}]}}`, []string{"kubelet-https=true goes"}},
		"a file of the host's": {apiServer("token-auth-file=/etc/kubernetes/tokens.csv"), "{}", []string{"token-auth-file="}},
		"sign-ins": {apiServer("oidc-issuer-url=https://login.example.org", "oidc-client-id=kubernetes", "oidc-groups-claim=groups", "oidc-username-claim=email", "oidc-required-claim=hd=example.org"),
			`identity: {issuers: [{name: oidc, url: "https://login.example.org", audiences: [kubernetes], claims: {username: {claim: email, prefix: ""}, groups: {claim: groups, prefix: ""}}, claimValidationRules: [{claim: hd, requiredValue: example.org}]}]}`, nil},
		"sign-ins by default": {apiServer("oidc-issuer-url=https://login.example.org", "oidc-client-id=kubernetes"),
			`identity: {issuers: [{name: oidc, url: "https://login.example.org", audiences: [kubernetes], claims: {username: {claim: sub, prefix: "https://login.example.org#"}}}]}`, nil},
		"sign-ins without a client":       {apiServer("oidc-issuer-url=https://login.example.org"), "{}", []string{"oidc-issuer-url="}},
		"sign-ins by an unread authority": {apiServer("oidc-issuer-url=https://login.example.org", "oidc-client-id=x", "oidc-ca-file=/etc/kubernetes/oidc.crt"), "{}", []string{"oidc-ca-file=", "oidc-client-id=", "oidc-issuer-url="}},
		"admission": {all(apiServer("admission-control-config-file=/etc/kubernetes/admission.yaml"), puts(0, "/etc/kubernetes/admission.yaml",
			"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: EventRateLimit\n  configuration:\n    apiVersion: eventratelimit.admission.k8s.io/v1alpha1\n    kind: Configuration\n    limits: [{type: Server, qps: 50, burst: 100}]\n")),
			`kubernetes: {apiServer: {admissionConfig: "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: EventRateLimit\n  configuration:\n    apiVersion: eventratelimit.admission.k8s.io/v1alpha1\n    kind: Configuration\n    limits: [{type: Server, qps: 50, burst: 100}]\n"}}`, nil},
		"controllers": {func(f *Found) {
			with(f, "kube-controller-manager", "node-monitor-grace-period", "1m")
			with(f, "kube-controller-manager", "terminated-pod-gc-threshold", "100")
			with(f, "kube-controller-manager", "horizontal-pod-autoscaler-sync-period", "5s")
		}, "kubernetes: {controllerManager: {nodeMonitorGracePeriod: 1m, terminatedPodGCThreshold: 100, extraArgs: [{name: horizontal-pod-autoscaler-sync-period, value: 5s}]}}", nil},
		"scheduler": {func(f *Found) {
			with(f, "kube-scheduler", "config", "/etc/kubernetes/sched.yaml")
			f.Hosts[0].Files["/etc/kubernetes/sched.yaml"] = []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf}\nprofiles:\n- schedulerName: default-scheduler\n  plugins: {score: {disabled: [{name: ImageLocality}]}}\n")
		}, `kubernetes: {scheduler: {config: "profiles:\n- plugins:\n    score:\n      disabled:\n      - name: ImageLocality\n  schedulerName: default-scheduler\n"}}`, nil},
		"etcd": {func(f *Found) {
			with(f, "etcd", "quota-backend-bytes", "4294967296")
			with(f, "etcd", "heartbeat-interval", "500")
			with(f, "etcd", "election-timeout", "5000")
			with(f, "etcd", "snapshot-count", "5000")
		}, `etcd: {quotaBackendGiB: 4, heartbeatMilliseconds: 500, electionMilliseconds: 5000, extraArgs: [{name: snapshot-count, value: "5000"}]}`, nil},
		"etcd's odd quota": {func(f *Found) { with(f, "etcd", "quota-backend-bytes", "5000000000") }, "{}", []string{"quota-backend-bytes=5000000000 becomes"}},
		"all kubelets": {configure(t, "maxPods: 250\nevictionHard: {memory.available: 200Mi}\nmemorySwap: {swapBehavior: LimitedSwap}\nmaxParallelImagePulls: 5\nserializeImagePulls: false\nfeatureGates: {InPlacePodVerticalScaling: true}\n", 0, 1, 2),
			`kubernetes: {kubelet: {maxPods: 250, evictionHard: {memory.available: 200Mi}, swapBehavior: LimitedSwap, config: "maxParallelImagePulls: 5\n", featureGates: {InPlacePodVerticalScaling: true}}}`, nil},
		"the workers' kubelets": {configure(t, "systemReserved: {cpu: 200m, memory: 1Gi}\n", 1, 2),
			"workers: [{name: general, kubelet: {systemReserved: {cpu: 200m, memory: 1Gi}}}, {name: general-2, kubelet: {systemReserved: {cpu: 200m, memory: 1Gi}}}]", nil},
		"one pool differs": {all(configure(t, "maxPods: 200\n", 0, 1), configure(t, "maxPods: 60\n", 2)), "{kubernetes: {kubelet: {maxPods: 200}}, workers: [{name: general}, {name: general-2, kubelet: {maxPods: 60}}]}", nil},
		"one host differs": {all(func(f *Found) { f.Survey.Nodes[2].Taints = []kube.Taint{} }, configure(t, "maxPods: 60\n", 2)), "{}", []string{"kube-c: kubelet's configuration: maxPods=60 goes"}},
		"soft eviction": {configure(t, "evictionSoft: {memory.available: 500Mi}\nevictionSoftGracePeriod: {memory.available: 1m30s}\n", 0, 1, 2),
			"kubernetes: {kubelet: {evictionSoft: {memory.available: 500Mi}, evictionSoftGracePeriod: {memory.available: 1m30s}}}", nil},
		"ipvs":      {func(f *Found) { proxy(f, "mode: iptables", "mode: ipvs") }, "{}", nil},
		"conntrack": {func(f *Found) { proxy(f, "maxPerCore: null", "maxPerCore: 65536") }, `kubernetes: {kubeProxy: {mode: iptables, config: "conntrack:\n  maxPerCore: 65536\n"}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := bare(t)
			c.spoil(f)
			d := testkit.Value(New(options(), f))(t)
			doc := testkit.Value(d.Cluster())(t)
			want := spec(t, c.want)
			if k := &want.Kubernetes.KubeProxy; k.Mode == "" && name != "ipvs" {
				k.Mode = "iptables"
			}
			got := v1alpha1.Kubernetes{APIServer: doc.Spec.Kubernetes.APIServer, ControllerManager: doc.Spec.Kubernetes.ControllerManager, Scheduler: doc.Spec.Kubernetes.Scheduler,
				Kubelet: doc.Spec.Kubernetes.Kubelet, KubeProxy: doc.Spec.Kubernetes.KubeProxy}
			if diff := cmp.Diff(want.Kubernetes, got); diff != "" {
				t.Errorf("the programs (-want +got):\n%s", diff)
			}
			etcd := doc.Spec.Etcd
			etcd.Mode = ""
			if diff := cmp.Diff(want.Etcd, etcd); diff != "" {
				t.Errorf("etcd (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(want.Identity, doc.Spec.Identity); diff != "" {
				t.Errorf("the users (-want +got):\n%s", diff)
			}
			for i, p := range want.Workers {
				if diff := cmp.Diff(p.Kubelet, doc.Spec.Workers[i].Kubelet); diff != "" {
					t.Errorf("pool %s (-want +got):\n%s", p.Name, diff)
				}
			}
			lost := d.Lost()
			if len(lost) != len(c.lost) || slices.ContainsFunc(c.lost, func(w string) bool { return !strings.Contains(strings.Join(lost, "\n"), w) }) {
				t.Errorf("lost are %q, want %q", lost, c.lost)
			}
		})
	}
}
