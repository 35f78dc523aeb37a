//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/cluster/adopt"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

// kubespray returns the layout that Kubespray adds to kubeadm: certificates in /etc/kubernetes/ssl, a link to it from kubeadm's directory, kubelets
// with kubelet.env and their own configuration, a load balancer on each worker, and containerd's configuration in version 2.
func kubespray(cps []string) like {
	return like{
		images:  "control-plane", // the load balancer uses etcd's gateway
		cluster: "certificatesDir: /etc/kubernetes/ssl\napiServer: {certSANs: [localhost, 127.0.0.1, kubernetes, kubernetes.default.svc.cluster.local]}\n",
		before: func(c *somebodys, machine string) {
			c.run(machine, "mkdir -p /etc/kubernetes/ssl && ln -s ssl /etc/kubernetes/pki")
			c.put(c.t.(*testing.T), machine, "/etc/containerd/config.toml", []byte(containerdV2(c.run(machine, "cat /etc/containerd/config.toml"))))
			c.run(machine, "systemctl restart containerd.service")
		},
		after: func(c *somebodys, machine string) {
			t := c.t.(*testing.T)
			if !slices.Contains(cps, machine) {
				var servers []string
				for _, cp := range cps {
					servers = append(servers, c.machine[cp].Address+":6443")
				}
				image := testkit.Value(c.b.Image("etcd"))(t).Ref
				c.put(t, machine, "/etc/kubernetes/manifests/nginx-proxy.yml", []byte(fmt.Sprintf(nginxProxy, image, strings.Join(servers, ","))))
				c.run(machine, "sed -i 's|server: .*|server: https://127.0.0.1:6443|' /etc/kubernetes/kubelet.conf")
			}
			c.run(machine, fmt.Sprintf(kubesprayKubelet, c.machine[machine].Address, machine))
			c.ready(t, cps[0], machine)
		},
	}
}

// nginxProxy replaces Kubespray's load balancer: another program with the same name, place and port.
const nginxProxy = `apiVersion: v1
kind: Pod
metadata: {name: nginx-proxy, namespace: kube-system, labels: {k8s-app: kube-nginx}}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  containers:
  - name: nginx-proxy
    image: %s
    imagePullPolicy: IfNotPresent
    command: [etcd, gateway, start, --listen-addr=127.0.0.1:6443, "--endpoints=%s"]
`

// kubesprayKubelet runs a kubelet with Kubespray's unit and files.
const kubesprayKubelet = `set -e
cp /var/lib/kubelet/config.yaml /etc/kubernetes/kubelet-config.yaml
cat > /etc/kubernetes/kubelet.env <<'EOF'
KUBELET_LOG_LEVEL="--v=2"
KUBELET_ADDRESS="--node-ip=%s"
KUBELET_HOSTNAME="--hostname-override=%s"
KUBELET_ARGS="--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --config=/etc/kubernetes/kubelet-config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf --container-runtime-endpoint=unix:///var/run/containerd/containerd.sock"
EOF
cat > /etc/systemd/system/kubelet.service <<'EOF'
[Unit]
Description=Kubernetes Kubelet Server
After=containerd.service
Wants=containerd.service
[Service]
EnvironmentFile=-/etc/kubernetes/kubelet.env
ExecStart=/usr/local/bin/kubelet $KUBELET_LOG_LEVEL $KUBELET_ADDRESS $KUBELET_HOSTNAME $KUBELET_ARGS
Restart=always
RestartSec=10s
[Install]
WantedBy=multi-user.target
EOF
rm -r /etc/systemd/system/kubelet.service.d
systemctl daemon-reload
systemctl restart kubelet.service`

// containerdV2 returns a machine's containerd configuration in Kubespray's form, version 2, with a setting that documents do not support.
func containerdV2(v3 string) string {
	line := func(key string) string {
		for l := range strings.Lines(v3) {
			if l = strings.TrimSpace(l); strings.HasPrefix(l, key+" = ") {
				return l
			}
		}
		return ""
	}
	const cri = `plugins."io.containerd.grpc.v1.cri"`
	pause := strings.Replace(line("sandbox"), "sandbox", "sandbox_image", 1)
	return "version = 2\nroot = \"/var/lib/containerd\"\nstate = \"/run/containerd\"\noom_score = 0\n[grpc]\n  max_recv_message_size = 16777216\n[debug]\n  level = \"info\"\n[metrics]\n  address = \"127.0.0.1:1338\"\n" +
		"[" + cri + "]\n  " + strings.Join([]string{pause, line("restrict_oom_score_adj"), line("disable_apparmor")}, "\n  ") + "\n" +
		"[" + cri + ".containerd]\n  default_runtime_name = \"runc\"\n  snapshotter = \"overlayfs\"\n[" + cri + ".containerd.runtimes.runc]\n  runtime_type = \"io.containerd.runc.v2\"\n" +
		"[" + cri + ".containerd.runtimes.runc.options]\n  " + line("SystemdCgroup") + "\n[" + cri + ".registry]\n  config_path = \"/etc/containerd/certs.d\"\n" +
		"[" + cri + ".cni]\n  bin_dir = \"/opt/cni/bin\"\n  conf_dir = \"/etc/cni/net.d\"\n"
}

// kubeone returns the layout that KubeOne adds to kubeadm: node names with a domain, as on AWS, its server flags, and kubelets that request serving
// certificates.
func kubeone(f *fleet) like {
	return like{
		node: func(machine string) string {
			return "ip-" + strings.ReplaceAll(f.machine[machine].Address, ".", "-") + ".eu-west-3.compute.internal"
		},
		kubelet: "serverTLSBootstrap: true\nkubeReserved: {cpu: 50m}\n",
		cluster: `apiServer:
  extraArgs:
  - {name: endpoint-reconciler-type, value: lease}
  - {name: kubelet-certificate-authority, value: /etc/kubernetes/pki/ca.crt}
  - {name: profiling, value: "false"}
  - {name: request-timeout, value: 1m}
  - {name: service-node-port-range, value: 30000-32767}
controllerManager:
  extraArgs:
  - {name: terminated-pod-gc-threshold, value: "1000"}
`,
		before: func(c *somebodys, machine string) {
			c.run(machine, "printf '\\n[metrics]\\n  address = \"127.0.0.1:1338\"\\n' >> /etc/containerd/config.toml && systemctl restart containerd.service")
		},
	}
}

// TestImportKubespray imports a cluster with Kubespray's layout, then scales, upgrades and releases it.
func TestImportKubespray(t *testing.T) {
	testkit.OnlyFull(t, "TestLayouts of internal/cluster/adopt reads what Kubespray leaves")
	t.Parallel()
	b := bundletest.Of(t, release.Former(1))
	cps := []string{"kube-a", "kube-b", "kube-c"}
	const worker, later = "kube-d", "kube-e"
	f := newFleet(t, "e2espray", b, append(slices.Clone(cps), worker, later)...)
	l := layoutTest{somebodys: installed(t, f, b, kubespray(cps), cps, worker), r: newRig(t, "kubespray"), cps: cps, worker: worker, later: later}
	report := l.look(t, "certificates and keys are read from /etc/kubernetes/ssl", "a load balancer on its own host (127.0.0.1:6443)", "the static pod nginx-proxy", "containerd's configuration")
	if lost := fmt.Sprint(report.Gaps); !strings.Contains(lost, "metrics.address=127.0.0.1:1338 goes") {
		t.Errorf("the report is %s", lost)
	}
	l.live(t, nil)
}

// TestImportKubeOne imports a cluster with KubeOne's layout, then scales, upgrades and releases it.
func TestImportKubeOne(t *testing.T) {
	testkit.OnlyFull(t, "TestLayouts of internal/cluster/adopt reads what KubeOne leaves")
	t.Parallel()
	b := bundletest.Of(t, release.Former(1))
	const cp, worker, later = "kube-a", "kube-b", "kube-c"
	f := newFleet(t, "e2ekone", b, cp, worker, later)
	l := layoutTest{somebodys: installed(t, f, b, kubeone(f), []string{cp}, worker), r: newRig(t, "kubeone"), cps: []string{cp}, worker: worker, later: later}
	const taint = "ToBeDeletedByClusterAutoscaler"
	f.run(cp, askAdmin+"label node "+l.node(worker)+" machine-controller/owned-by=7d5c")
	f.run(cp, askAdmin+"taint node "+l.node(worker)+" "+taint+"=1700000000:NoSchedule")
	report := l.look(t, "machine-controller puts on the node", "cluster-autoscaler puts on the node", "containerd's configuration")
	if doc := string(testkit.Value(json.Marshal(report.Document))(t)); strings.Contains(doc, taint) || strings.Contains(doc, "owned-by") || !strings.Contains(doc, l.node(cp)) {
		t.Errorf("the document is %s", doc)
	}
	l.live(t, func() { f.run(cp, askAdmin+"taint node "+l.node(worker)+" "+taint+"-") })
}

// layoutTest is an installer's cluster to import.
type layoutTest struct {
	*somebodys
	r             *rig
	cps           []string
	worker, later string
}

func (l *layoutTest) from() []string {
	return []string{"import", l.r.name, "--from", l.machine[l.cps[0]].Address, "--identity", filepath.Join(l.r.dir, "id_ed25519"), "--known-hosts", filepath.Join(l.r.dir, "known_hosts")}
}

// look runs import without adoption, which must find the cluster adoptable and print all of says.
func (l *layoutTest) look(t *testing.T, says ...string) (report adopt.Report) {
	t.Helper()
	testkit.Must(t, os.WriteFile(filepath.Join(l.r.dir, "id_ed25519"), l.key, 0o600))
	l.known(t, filepath.Join(l.r.dir, "known_hosts"))
	looked := l.r.must(0, l.from()...).stdout
	t.Logf("import says\n%s", looked)
	for _, s := range says {
		if !strings.Contains(looked, s) {
			t.Errorf("import does not say %q", s)
		}
	}
	testkit.Must(t, json.Unmarshal([]byte(l.r.must(0, append(l.from(), "-o", "json")...).stdout), &report))
	if !report.Adoptable || len(report.Document.Machines()) != len(l.cps)+1 {
		t.Fatalf("the report is %+v", report)
	}
	return report
}

// live imports the cluster without a restart, and applies, scales, upgrades and releases it. adopted runs between import and apply.
func (l *layoutTest) live(t *testing.T, adopted func()) {
	t.Helper()
	r, cp := l.r, l.cps[0]
	l.run(cp, askAdmin+"create configmap keep --from-literal=a=b")
	machines := append(slices.Clone(l.cps), l.worker)
	before := map[string]string{}
	for _, m := range machines {
		until(t, time.Minute, time.Second, func() error {
			if before[m] = nodeRunsOn(l.fleet, cp, m, l.node(m)); strings.Contains(before[m], " \n") { // kubelet reports a mirror pod's container later
				return fmt.Errorf("a pod on %s has no container yet: %s", m, before[m])
			}
			return nil
		})
	}
	r.must(4, append(l.from(), "--adopt", "--yes")...) // the import loses settings, which requires consent
	r.must(0, append(l.from(), "--adopt", "--yes", "--consent", "lose-settings")...)
	for _, m := range machines {
		if now := nodeRunsOn(l.fleet, cp, m, l.node(m)); now != before[m] {
			t.Errorf("on %s runs something else:\n%s\nbefore:\n%s", m, now, before[m])
		}
	}
	if adopted != nil {
		adopted()
	}
	testkit.Must(t, os.WriteFile(r.file, []byte(r.must(0, "document", r.name).stdout), 0o644))
	r.inv.timeout = 15 * time.Minute
	r.size.controlPlanes, r.size.workers = len(l.cps), 1
	r.apply()
	r.healthy()

	l.run(l.later, "true")
	r.addHost(t, l.fleet, l.later)
	r.size.workers = 2
	r.apply()
	r.healthy()

	doc := string(testkit.Value(os.ReadFile(r.file))(t))
	testkit.Must(t, os.WriteFile(r.file, []byte(strings.Replace(doc, "version: "+release.Former(1), "version: "+release.Default, 1)), 0o644))
	r.must(0, "upgrade", r.name, "-f", r.file, "--finish", "--yes")
	r.runs(release.Default, release.Default)
	r.healthy()
	if kept := l.run(cp, askAdmin+"get configmap keep -o jsonpath={.data.a}"); kept != "b" {
		t.Errorf("the value stored before is %q now", kept)
	}
	if sets := l.run(cp, askAdmin+"get daemonsets -A -o name"); !strings.Contains(sets, "kube-flannel-ds") {
		t.Errorf("the pod network is gone: %s", sets)
	}
	r.calm.end()
	r.must(0, "release", r.name, filepath.Join(r.dir, "mine"), "--yes")
	for _, m := range append(machines, l.later) {
		if left := l.run(m, ofNaupegos); left != "" {
			t.Errorf("left on %s is\n%s", m, left)
		}
	}
	if out := l.run(cp, "kubeadm certs check-expiration 2>&1"); strings.Contains(out, "MISSING") {
		t.Errorf("kubeadm certs check-expiration:\n%s", out)
	}
}
