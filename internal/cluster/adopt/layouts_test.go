package adopt

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// kubespray gives three control-plane machines and a worker the layout of Kubespray: certificates in /etc/kubernetes/ssl, a kubelet with
// kubelet.env, a load balancer on each worker, node-local DNS, and containerd's configuration in version 2.
func kubespray(t *testing.T, f *Found) {
	t.Helper()
	worker, node := f.Hosts[2], f.Survey.Nodes[2]
	node.Taints = nil
	three(t, f, map[string]string{
		"kube-a": "    - --initial-cluster=kube-a=https://192.0.2.11:2380\n",
		"kube-b": "    - --initial-cluster=kube-a=https://192.0.2.11:2380,kube-b=https://192.0.2.21:2380\n    - --initial-cluster-state=existing\n",
		"kube-c": "    - --initial-cluster=kube-a=https://192.0.2.11:2380,kube-b=https://192.0.2.21:2380,kube-c=https://192.0.2.22:2380\n    - --initial-cluster-state=existing\n",
	})
	for i := range f.Survey.Nodes {
		f.Survey.Nodes[i].Taints = []kube.Taint{{Key: controlPlaneRole, Effect: "NoSchedule"}}
	}
	worker.Name, worker.Address, worker.Facts = "node4", "192.0.2.31", maps.Clone(worker.Facts)
	worker.Files = map[string][]byte{kubeletConfig: written(t, "kubelet.yaml"), pkiDir + "ca.crt": f.Hosts[0].Files[pkiDir+"ca.crt"]}
	node.Name, node.Addresses = "node4", []string{"192.0.2.31"}
	node.Labels = map[string]string{"kubernetes.io/hostname": "node4", "node-role.kubernetes.io/worker": ""}
	f.Survey.Nodes, f.Hosts = append(f.Survey.Nodes, node), append(f.Hosts, worker)
	conf(f, "controlPlaneEndpoint: k8s.example.org:6443", "controlPlaneEndpoint: 192.0.2.11:6443")
	conf(f, "apiServer: {}", "apiServer:\n  certSANs: [kubernetes, kubernetes.default, kubernetes.default.svc, kubernetes.default.svc.cluster.local, 10.96.0.1, localhost, 127.0.0.1, kube-a, kube-b, kube-c, "+
		"kube-a.cluster.local, lb-apiserver.kubernetes.local, 192.0.2.11, 192.0.2.21, 192.0.2.22]")
	linked("/etc/kubernetes/ssl")(f)
	f.Survey.DaemonSets = []string{"kube-system/calico-node", "kube-system/kube-proxy", "kube-system/nodelocaldns"}
	proxy(f, "mode: iptables", "mode: ipvs")
	f.Survey.Records["kube-proxy"]["kubeconfig.conf"] = "clusters:\n- cluster:\n    server: https://localhost:6443\n"
	for i := range f.Hosts {
		h := &f.Hosts[i]
		kubelet(i, "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=/etc/kubernetes/kubelet-config.yaml", "--v=2",
			"--node-ip="+h.Address, "--hostname-override="+h.Name, "--container-runtime-endpoint=unix:///var/run/containerd/containerd.sock", "--runtime-cgroups=/system.slice/containerd.service")(f)
		h.Files["/etc/kubernetes/kubelet-config.yaml"] = bytes.Replace(h.Files[kubeletConfig], []byte("- 10.96.0.10"), []byte("- 169.254.25.10"), 1)
		h.Files["/etc/containerd/config.toml"] = []byte("version = 2\nroot = \"/var/lib/containerd\"\nstate = \"/run/containerd\"\noom_score = 0\n[grpc]\n  max_recv_message_size = 16777216\n" +
			"[plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image = \"registry.k8s.io/pause:3.10\"\n  [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n" +
			"    runtime_type = \"io.containerd.runc.v2\"\n    base_runtime_spec = \"/etc/containerd/cri-base.json\"\n    [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n" +
			"      SystemdCgroup = true\n      BinaryName = \"/usr/local/bin/runc\"\n  [plugins.\"io.containerd.grpc.v1.cri\".registry]\n    config_path = \"/etc/containerd/certs.d\"\n")
	}
	f.Hosts[3].Facts["server"] = "https://localhost:6443"
	f.Hosts[3].Files[manifestDir+"nginx-proxy.yml"] = manifest("nginx-proxy")
}

// kubeone gives a cluster the layout of KubeOne on AWS: names with a domain, its server flags, a worker of machine-controller, and containerd's
// configuration in version 3.
func kubeone(t *testing.T, f *Found) {
	t.Helper()
	for i, name := range []string{"ip-192-0-2-11", "ip-192-0-2-21", "ip-192-0-2-22"} {
		facts := maps.Clone(f.Hosts[i].Facts)
		facts["hostname"] = name
		rename(f, i, name+".eu-west-3.compute.internal")
		f.Hosts[i].Facts = facts
		f.Hosts[i].Files["/etc/containerd/config.toml"] = []byte("version = 3\n[metrics]\naddress = \"127.0.0.1:1338\"\n[plugins.\"io.containerd.cri.v1.images\".pinned_images]\nsandbox = \"registry.k8s.io/pause:3.10\"\n" +
			"[plugins.\"io.containerd.cri.v1.images\".registry]\nconfig_path = \"/etc/containerd/certs.d\"\n[plugins.\"io.containerd.cri.v1.runtime\"]\ndevice_ownership_from_security_context = true\n")
		f.Hosts[i].Files[kubeletConfig] = bytes.Replace(append(f.Hosts[i].Files[kubeletConfig], "serverTLSBootstrap: true\nkubeReserved: {cpu: 200m}\n"...), []byte("- 10.96.0.10"), []byte("- 169.254.20.10"), 1)
	}
	conf(f, "clusterName: kubernetes", "controlPlaneEndpoint: demo-api-lb.elb.eu-west-3.amazonaws.com:6443\nclusterName: demo")
	for name, value := range map[string]string{"profiling": "false", "endpoint-reconciler-type": "lease", "request-timeout": "1m", "service-node-port-range": "30000-32767",
		"kubelet-certificate-authority": "/etc/kubernetes/pki/ca.crt", "enable-admission-plugins": "NodeRestriction,NamespaceLifecycle"} {
		with(f, "kube-apiserver", name, value)
	}
	f.Survey.Nodes[1].Labels["machine-controller/owned-by"] = "7d5c"
	f.Survey.Nodes[1].Labels["v1.machine-controller.kubermatic.io/operating-system"] = "ubuntu"
	f.Survey.Nodes[1].Taints = []kube.Taint{{Key: "node.cilium.io/agent-not-ready", Effect: "NoExecute"}}
	f.Survey.DaemonSets = []string{"kube-system/canal", "kube-system/kube-proxy", "kube-system/node-local-dns"}
}

// TestLayouts compares the findings about clusters that Kubespray and KubeOne made with golden files: import accepts them.
func TestLayouts(t *testing.T) {
	for name, layout := range map[string]func(*testing.T, *Found){"kubespray": kubespray, "kubeone": kubeone} {
		t.Run(name, func(t *testing.T) {
			f := bare(t)
			layout(t, f)
			d := testkit.Value(New(options(), f))(t)
			var out bytes.Buffer
			testkit.Must(t, d.Write(&out))
			testkit.Golden(t, name+".golden", out.String())
			testkit.Value(d.Cluster())(t)
			names := map[string]string{"kubespray": "localhost,127.0.0.1"}[name]
			if got := testkit.Value(d.Facts(t.Context()))(t)[store.Fact{Kind: string(memory.APINames)}]; got != names {
				t.Errorf("certificates keep the names %q, want %q", got, names)
			}
			if secrets := testkit.Value(d.Secrets())(t); len(secrets) != 4 {
				t.Errorf("%d secrets", len(secrets))
			}
		})
	}
}

// TestKubesprayEtcd: Kubespray's default runs etcd as a service of its own, which is one obstacle.
func TestKubesprayEtcd(t *testing.T) {
	report{func(f *Found) {
		kubespray(t, f)
		for i := range f.Hosts[:3] {
			file := manifestDir + "kube-apiserver.yaml"
			delete(f.Hosts[i].Files, manifestDir+"etcd.yaml")
			delete(f.Hosts[i].Files, pkiDir+"etcd/ca.crt")
			delete(f.Hosts[i].Files, pkiDir+"etcd/ca.key")
			f.Hosts[i].Files[file] = bytes.Replace(f.Hosts[i].Files[file], []byte("--etcd-cafile=/etc/kubernetes/ssl/etcd/ca.crt"), []byte("--etcd-cafile=/etc/ssl/etcd/ssl/ca.pem"), 1)
		}
		conf(f, "  local:\n    dataDir: /var/lib/etcd", "  external:\n    endpoints: [https://192.0.2.11:2379]\n    caFile: /etc/ssl/etcd/ssl/ca.pem")
	}, "its etcd is not kubeadm's own (external)", "etcd_deployment_type: kubeadm", ""}.check(t, bare(t))
}

// TestFurther: files that flags and files name are read, and nothing that a shell would read as more than a path.
func TestFurther(t *testing.T) {
	f := bare(t)
	moved("/etc/kubernetes/ssl")(f)
	h := f.Hosts[0]
	delete(h.Files, "/etc/kubernetes/ssl/sa.key")
	h.Files["/etc/containerd/config.toml"] = []byte("imports = [\"/opt/*.toml\", \"/tmp/$(reboot)\", \"conf.d/a b.toml\"]\n")
	kubelet(0, "--config=/etc/kubernetes/kubelet-config.yaml", "--config-dir=/etc/kubelet.d")(f)
	got := strings.Join(f.Hosts[0].further(), " ")
	want := "etc/kubernetes/ssl/sa.key etc/kubernetes/kubelet-config.yaml etc/kubelet.d/*.conf opt/*.toml"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestFacts runs the script of a host's facts where systemctl names a process of the test's.
func TestFacts(t *testing.T) {
	dir := t.TempDir()
	runs := exec.Command("sleep", "300", "0.1")
	testkit.Must(t, runs.Start())
	t.Cleanup(func() { _ = runs.Process.Kill(); _ = runs.Wait() })
	fake := "#!/bin/sh\ncase \"$*\" in *ExecStart*) echo '{ path=/usr/bin/containerd ; argv[]=x }';; *containerd*) echo 0;; *) echo " + strconv.Itoa(runs.Process.Pid) + ";; esac\n"
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "systemctl"), []byte(fake), 0o755))
	cmd := exec.Command("sh", "-c", factsScript())
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out := testkit.Value(cmd.Output())(t)
	facts := factsOf(out)
	h := Host{Facts: facts}
	if got := strings.Join(h.running("kubelet"), "|"); got != "sleep|300|0.1" || facts["runtime"] != "/usr/bin/containerd" || h.running("containerd") != nil || facts["containerd"] != "0" {
		t.Errorf("the facts are %q", facts)
	}
	archive := exec.Command("sh", "-c", filesScript("etc/passwd no/such/file*")) // the reader takes an archive of the files
	if data, err := archive.Output(); err != nil || !bytes.Contains(data, []byte("etc/passwd")) {
		t.Errorf("the archive: %v, %d bytes", err, len(data))
	}
}
