//go:build e2e

package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/testkit"
)

// runsUntilEnd starts a program, which the test's end stops.
func runsUntilEnd(t *testing.T, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	var said testkit.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("%s: %s", argv[0], &said)
		}
	})
}

// machineSettings are spec.machines. Kernel arguments are not for containers, which share this host's kernel, and validate refuses them.
func machineSettings(o *outside) setting {
	files, key := packages(o.t, "settings-e2e")
	port, _ := o.serve(files) // apt must trust the authority of trustedCAs
	return setting{
		name: "machines",
		extra: fmt.Sprintf(`  machines:
    sysctls: {net.ipv4.tcp_keepalive_time: "613", net.core.somaxconn: "8191"}
    modules: [dummy]
    files:
      - {path: /etc/beat.conf, content: "every 5s\n", mode: "0640", owner: "root:adm"}
      - {path: /etc/kube-apiserver/egress.yaml, content: "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\n"}
    units:
      - name: beat.service
        content: |
          [Service]
          ExecStart=/bin/sh -c "exec sleep infinity" /etc/beat.conf
          [Install]
          WantedBy=multi-user.target
    packages: [settings-e2e]
    repositories:
      - name: site
        url: https://%s
        suite: ./
        key: |
          %s
    ntp: {servers: [ntp.example.org]}
    dns: {servers: [%s], searchDomains: [site.test]}
    timeZone: Asia/Kathmandu
    trustedCAs:
      - %s`, o.at(port), strings.ReplaceAll(strings.TrimSpace(key), "\n", "\n          "), o.host4(), o.indented(8)),
		fields:  []string{"spec.machines.sysctls", "spec.machines.modules", "spec.machines.files", "spec.machines.units", "spec.machines.packages", "spec.machines.repositories", "spec.machines.ntp", "spec.machines.dns", "spec.machines.timeZone", "spec.machines.trustedCAs"},
		changes: []string{"net.ipv4.tcp_keepalive_time", "/etc/beat.conf", "beat.service", "settings-e2e", "naupegos-site.sources", "/etc/localtime", "resolv.conf"},
		effects: func(t *testing.T, r *rig) {
			t.Helper()
			for _, m := range r.status().Machines {
				for command, want := range map[string]string{
					"cat /proc/sys/net/ipv4/tcp_keepalive_time /proc/sys/net/core/somaxconn":      "613\n8191\n",
					"stat -c '%a %U:%G' /etc/beat.conf; cat /etc/beat.conf":                       "640 root:adm\nevery 5s\n",
					"systemctl is-active beat.service; systemctl is-enabled beat.service":         "active\nenabled\n",
					"cat /usr/share/settings-e2e/greeting":                                        "hello\n",
					"getent hosts web | cut -d' ' -f1":                                            "192.0.2.77\n",
					"date +%z":                                                                    "+0545\n",
					"curl -sS -o /dev/null -w '%{http_code}' https://" + o.at(port) + "/Packages": "200",
					"cat /etc/chrony/sources.d/naupegos.sources":                                  "server ntp.example.org iburst\n",
				} {
					if got := r.look(m.Name, command); got != want {
						t.Errorf("%s: %s: %q, want %q", m.Name, command, got, want)
					}
				}
			}
		},
	}
}

// componentSettings are those of API servers, controller managers, schedulers, kube-proxy and etcd.
func componentSettings(o *outside, auditPort int, audited func() int) setting {
	return setting{
		name: "components",
		kubernetes: fmt.Sprintf(`    apiServer:
      certSANs: [api.settings.test]
      featureGates: {APIResponseCompression: false}
      enableAdmissionPlugins: [EventRateLimit]
      disableAdmissionPlugins: [DefaultIngressClass]
      admissionConfig: |
        apiVersion: apiserver.config.k8s.io/v1
        kind: AdmissionConfiguration
        plugins:
          - name: EventRateLimit
            configuration:
              apiVersion: eventratelimit.admission.k8s.io/v1alpha1
              kind: Configuration
              limits: [{type: Namespace, qps: 500, burst: 1000, cacheSize: 100}]
      runtimeConfig: {resource.k8s.io/v1beta2: true}
      maxRequestsInflight: 801
      maxMutatingRequestsInflight: 333
      watchCacheSizes: {deployments.apps: 0}
      auditWebhook:
        url: https://%s/audit
        ca: %s      extraArgs:
        - {name: event-ttl, value: 2h}
        - {name: cors-allowed-origins, value: "https://one[.]example[.]org$"}
        - {name: cors-allowed-origins, value: "https://two[.]example[.]org$"}
        - {name: egress-selector-config-file, value: /etc/kube-apiserver/egress.yaml}
    controllerManager:
      featureGates: {PodDeletionCost: false}
      nodeMonitorGracePeriod: 51s
      terminatedPodGCThreshold: 501
      extraArgs: [{name: large-cluster-size-threshold, value: "61"}]
    scheduler:
      featureGates: {OpportunisticBatching: false}
      config: |
        profiles:
          - schedulerName: default-scheduler
          - schedulerName: packed
      extraArgs: [{name: log-flush-frequency, value: 7s}]
    kubeProxy:
      mode: iptables
      featureGates: {NFTablesNetlink: false}
      config: |
        iptables: {minSyncPeriod: 2s}
`, o.at(auditPort), o.indented(10)),
		extra:   "  etcd:\n    quotaBackendGiB: 4\n    heartbeatMilliseconds: 150\n    electionMilliseconds: 1500\n    extraArgs: [{name: max-request-bytes, value: \"2097152\"}]\n",
		fields:  []string{"spec.kubernetes.apiServer", "spec.kubernetes.controllerManager", "spec.kubernetes.scheduler", "spec.kubernetes.kubeProxy", "spec.etcd"},
		changes: []string{"kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml", "etcd.yaml", "event-ttl", "kube-proxy"},
		effects: func(t *testing.T, r *rig) {
			t.Helper()
			for _, m := range machinesOf(r.status(), provider.ControlPlane) {
				r.runsWith(t, m.Name, "kube-apiserver", "APIResponseCompression=false", "--enable-admission-plugins=", "EventRateLimit", "--disable-admission-plugins=DefaultIngressClass",
					"--runtime-config=", "resource.k8s.io/v1beta2=true", "--max-requests-inflight=801", "--max-mutating-requests-inflight=333", "--watch-cache-sizes=deployments.apps#0",
					"--event-ttl=2h", "one[.]example", "two[.]example", "--egress-selector-config-file=/etc/kube-apiserver/egress.yaml", "--audit-webhook-config-file=")
				r.runsWith(t, m.Name, "kube-controller-manager", "PodDeletionCost=false", "--node-monitor-grace-period=51s", "--terminated-pod-gc-threshold=501", "--large-cluster-size-threshold=61")
				r.runsWith(t, m.Name, "kube-scheduler", "OpportunisticBatching=false", "--log-flush-frequency=7s")
				r.runsWith(t, m.Name, "etcd", "--quota-backend-bytes=4294967296", "--heartbeat-interval=150", "--election-timeout=1500", "--max-request-bytes=2097152")
				r.presents(t, m.Address, "api.settings.test")
			}
			for _, m := range append(machinesOf(r.status(), provider.ControlPlane), machinesOf(r.status(), provider.Worker)...) {
				until(t, 3*time.Minute*slower, time.Second, func() error { // the DaemonSet replaces its pods
					if got := r.look(m.Name, "curl -sS --max-time 5 http://127.0.0.1:10249/proxyMode || true"); got != "iptables" {
						return fmt.Errorf("kube-proxy of %s uses %q", m.Name, got)
					}
					return nil
				})
			}
			api := r.api()
			if _, err := api.RESTClient().Get().AbsPath("/apis/resource.k8s.io/v1beta2").DoRaw(t.Context()); err != nil {
				t.Errorf("the API version of runtimeConfig: %v", err)
			}
			if metrics := string(testkit.Value(api.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context()))(t)); !strings.Contains(metrics, `kubernetes_feature_enabled{name="APIResponseCompression",stage="BETA"} 0`) {
				t.Error("the API server does not say that the feature gate is off")
			}
			was := audited()
			until(t, 2*time.Minute*slower, time.Second, func() error {
				if audited() == was {
					return fmt.Errorf("the audit webhook got nothing")
				}
				return nil
			})
			r.schedules(t, "packed")
			r.answersOrigin(t, "https://two.example.org")
		},
	}
}

// runsWith asserts that a program of a machine runs with these arguments.
func (r *rig) runsWith(t *testing.T, machine, program string, arguments ...string) {
	t.Helper()
	line := r.look(machine, "for i in $(pidof "+program+"); do [ \"$(cat /proc/$(cut -d' ' -f4 /proc/$i/stat)/comm)\" = "+program+" ] || tr '\\0' ' ' < /proc/$i/cmdline; done")
	for _, want := range arguments {
		if !strings.Contains(line, want) {
			t.Errorf("%s of %s runs without %s: %s", program, machine, want, line)
		}
	}
}

// poolOf returns a pool of these authorities.
func poolOf(t *testing.T, pem []byte) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatal("the kubeconfig has no authority")
	}
	return pool
}

// presents asserts that the API server at an address has a certificate for a name.
func (r *rig) presents(t *testing.T, address, name string) {
	t.Helper()
	cfg := r.restConfig()
	pool := poolOf(t, cfg.CAData)
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", net.JoinHostPort(address, "6443"), &tls.Config{ServerName: name, RootCAs: pool, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Errorf("the API server at %s as %s: %v", address, name, err)
		return
	}
	testkit.Must(t, conn.Close())
}

// schedules runs a pod with another scheduler of the profiles until it has a node.
func (r *rig) schedules(t *testing.T, scheduler string) {
	t.Helper()
	pods := r.api().CoreV1().Pods("default")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "scheduled-"}, Spec: corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{{Name: "x", Image: "registry.k8s.io/none:v1", ImagePullPolicy: corev1.PullNever}}}}
	p = testkit.Value(pods.Create(t.Context(), p, metav1.CreateOptions{}))(t)
	until(t, time.Minute*slower, time.Second, func() error {
		got, err := pods.Get(t.Context(), p.Name, metav1.GetOptions{})
		if err == nil && got.Spec.NodeName == "" {
			err = fmt.Errorf("the scheduler %s has not scheduled its pod", scheduler)
		}
		return err
	})
	none := int64(0)
	testkit.Must(t, pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &none}))
}

// answersOrigin asserts that the API admits a web page's origin.
func (r *rig) answersOrigin(t *testing.T, origin string) {
	t.Helper()
	cfg := r.restConfig()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: poolOf(t, cfg.CAData), MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	req := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, cfg.Host+"/version", nil))(t)
	req.Header.Set("Origin", origin)
	res := testkit.Value(client.Do(req))(t)
	defer res.Body.Close()
	if got := res.Header.Get("Access-Control-Allow-Origin"); got != origin {
		t.Errorf("the API admits the origin %q, want %q", got, origin)
	}
}

// kubeletSettings are those of all kubelets, and of the pool's.
func kubeletSettings() setting {
	return setting{
		name: "kubelets",
		kubernetes: `    kubelet:
      featureGates: {ContainerCheckpoint: false}
      maxPods: 121
      podPidsLimit: 2049
      systemReserved: {cpu: 100m, memory: 128Mi}
      kubeReserved: {memory: 64Mi}
      evictionHard: {memory.available: 100Mi, nodefs.available: 2%}
      evictionSoft: {memory.available: 150Mi}
      evictionSoftGracePeriod: {memory.available: 1m10s}
      evictionMaxPodGracePeriod: 61
      swapBehavior: NoSwap
      containerLogMaxSize: 5Mi
      containerLogMaxFiles: 3
      topologyManagerPolicy: best-effort
      seccompDefault: true
      config: |
        serializeImagePulls: false
        maxParallelImagePulls: 4
`,
		pool: `      kubelet:
        maxPods: 62
        cpuManagerPolicy: static
        memoryManagerPolicy: Static
        config: |
          maxParallelImagePulls: 3
          serializeImagePulls: false
          reservedMemory: [{numaNode: 0, limits: {memory: 292Mi}}]
`,
		fields:  []string{"spec.kubernetes.kubelet", "spec.workers"},
		changes: []string{"/var/lib/kubelet/config.yaml", "kubelet.service"},
		effects: func(t *testing.T, r *rig) {
			t.Helper()
			for role, want := range map[provider.Role]map[string]any{
				provider.ControlPlane: {"maxPods": 121.0, "cpuManagerPolicy": "none", "memoryManagerPolicy": "None", "maxParallelImagePulls": 4.0},
				provider.Worker:       {"maxPods": 62.0, "cpuManagerPolicy": "static", "memoryManagerPolicy": "Static", "maxParallelImagePulls": 3.0},
			} {
				for key, value := range map[string]any{
					"podPidsLimit": 2049.0, "systemReserved": map[string]any{"cpu": "100m", "memory": "128Mi"}, "kubeReserved": map[string]any{"memory": "64Mi"},
					"evictionHard": map[string]any{"memory.available": "100Mi", "nodefs.available": "2%"}, "evictionSoft": map[string]any{"memory.available": "150Mi"},
					"evictionSoftGracePeriod": map[string]any{"memory.available": "1m10s"}, "evictionMaxPodGracePeriod": 61.0, "memorySwap": map[string]any{"swapBehavior": "NoSwap"},
					"containerLogMaxSize": "5Mi", "containerLogMaxFiles": 3.0, "topologyManagerPolicy": "best-effort", "seccompDefault": true, "serializeImagePulls": false,
				} {
					want[key] = value
				}
				for _, m := range machinesOf(r.status(), role) {
					r.configured(t, m.Name, want)
				}
			}
		},
	}
}

// configured asserts fields of the configuration that a kubelet says it runs with.
func (r *rig) configured(t *testing.T, node string, want map[string]any) {
	t.Helper()
	text := testkit.Value(r.api().RESTClient().Get().AbsPath("/api/v1/nodes/" + node + "/proxy/configz").DoRaw(t.Context()))(t)
	var got struct{ KubeletConfig map[string]any }
	testkit.Must(t, json.Unmarshal(text, &got))
	gates, _ := got.KubeletConfig["featureGates"].(map[string]any)
	if gates["ContainerCheckpoint"] != false {
		t.Errorf("%s has the feature gates %v", node, gates)
	}
	for key, value := range want {
		if fmt.Sprint(got.KubeletConfig[key]) != fmt.Sprint(value) {
			t.Errorf("kubelet of %s: %s is %v, want %v", node, key, got.KubeletConfig[key], value)
		}
	}
}

// outsideSettings are a proxy, and a registry with a mirror that has a password and an authority of its own.
func outsideSettings(o *outside, dir string) setting {
	proxy, _ := o.squid()
	port, _, _ := o.images("robot", "secret", "team/set")
	credential := filepath.Join(dir, "credential")
	testkit.Must(o.t, os.WriteFile(credential, []byte("robot:secret\n"), 0o600))
	return setting{
		name: "proxy and registries",
		extra: fmt.Sprintf("  proxy: {http: \"http://%[1]s\", https: \"http://%[1]s\", noProxy: [.site.test]}\n  registries:\n    - host: registry.example.org\n      mirrors:\n        - url: https://%[2]s\n          auth: {credentialsFile: %[3]s}\n          ca: %[4]s",
			o.at(proxy), o.at(port), credential, o.indented(12)),
		fields:  []string{"spec.proxy", "spec.registries"},
		changes: []string{"/etc/naupegos/proxy.env", "/etc/containerd/certs.d/registry.example.org/hosts.toml", "restart unit containerd.service"},
		effects: func(t *testing.T, r *rig) {
			t.Helper()
			for _, m := range append(machinesOf(r.status(), provider.ControlPlane), machinesOf(r.status(), provider.Worker)...) {
				env := r.look(m.Name, "tr '\\0' '\\n' < /proc/$(pidof containerd | tr ' ' '\\n' | sort -n | head -1)/environ")
				if !strings.Contains(env, "HTTPS_PROXY=http://"+o.at(proxy)+"\n") || !strings.Contains(env, o.net+".0/24") || !strings.Contains(env, ".site.test") {
					t.Errorf("containerd of %s has the environment %s", m.Name, env)
				}
			}
			if _, err := r.api().AppsV1().Deployments("default").Get(t.Context(), "set", metav1.GetOptions{}); err != nil { // not there yet
				r.answers(t, "set", "registry.example.org/team/set:v1", "team/set")
			}
		},
	}
}
