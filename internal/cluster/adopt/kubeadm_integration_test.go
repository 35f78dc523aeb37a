//go:build integration

package adopt

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

const initHead = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 192.0.2.11, bindPort: 6443}
nodeRegistration: {name: %s, criSocket: "unix:///run/containerd/containerd.sock"}
---
`

// kubesprayConfig is the configuration that Kubespray writes for kubeadm with its defaults and etcd_deployment_type: kubeadm.
const kubesprayConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: cluster.local
certificatesDir: /etc/kubernetes/ssl
kubernetesVersion: %s
imageRepository: registry.k8s.io
controlPlaneEndpoint: "127.0.0.1:6443"
networking: {dnsDomain: cluster.local, serviceSubnet: "10.233.0.0/18", podSubnet: "10.233.64.0/18"}
etcd:
  local:
    imageRepository: "quay.io/coreos"
    imageTag: "v3.6.5"
    dataDir: "/var/lib/etcd"
    extraArgs:
    - {name: metrics, value: basic}
    - {name: election-timeout, value: "5000"}
    - {name: heartbeat-interval, value: "250"}
    - {name: auto-compaction-retention, value: "8"}
    - {name: snapshot-count, value: "10000"}
    - {name: log-level, value: info}
apiServer:
  certSANs: [kubernetes, kubernetes.default, kubernetes.default.svc, kubernetes.default.svc.cluster.local, 10.233.0.1, localhost, 127.0.0.1, node1]
  extraArgs:
  - {name: etcd-compaction-interval, value: 5m0s}
  - {name: default-not-ready-toleration-seconds, value: "300"}
  - {name: default-unreachable-toleration-seconds, value: "300"}
  - {name: anonymous-auth, value: "True"}
  - {name: authorization-mode, value: "Node,RBAC"}
  - {name: bind-address, value: "::"}
  - {name: apiserver-count, value: "1"}
  - {name: endpoint-reconciler-type, value: lease}
  - {name: service-node-port-range, value: "30000-32767"}
  - {name: service-cluster-ip-range, value: "10.233.0.0/18"}
  - {name: kubelet-preferred-address-types, value: "InternalDNS,InternalIP,Hostname,ExternalDNS,ExternalIP"}
  - {name: profiling, value: "False"}
  - {name: request-timeout, value: "1m0s"}
  - {name: enable-aggregator-routing, value: "False"}
  - {name: service-account-lookup, value: "True"}
  - {name: storage-backend, value: etcd3}
  - {name: allow-privileged, value: "true"}
  - {name: event-ttl, value: "1h0m0s"}
controllerManager:
  extraArgs:
  - {name: node-monitor-grace-period, value: 40s}
  - {name: node-monitor-period, value: 5s}
  - {name: cluster-cidr, value: "10.233.64.0/18"}
  - {name: service-cluster-ip-range, value: "10.233.0.0/18"}
  - {name: allocate-node-cidrs, value: "false"}
  - {name: profiling, value: "False"}
  - {name: terminated-pod-gc-threshold, value: "12500"}
  - {name: bind-address, value: "::"}
  - {name: leader-elect-lease-duration, value: 15s}
  - {name: leader-elect-renew-deadline, value: 10s}
  - {name: configure-cloud-routes, value: "false"}
scheduler:
  extraArgs:
  - {name: bind-address, value: "::"}
  - {name: profiling, value: "False"}
`

// kubeoneConfig is the kubeadm configuration of KubeOne.
const kubeoneConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
clusterName: demo
kubernetesVersion: %s
controlPlaneEndpoint: "demo-api-lb.elb.eu-west-3.amazonaws.com:6443"
networking: {dnsDomain: cluster.local, serviceSubnet: "10.96.0.0/12", podSubnet: "10.244.0.0/16"}
apiServer:
  certSANs: [demo-api-lb.elb.eu-west-3.amazonaws.com]
  extraArgs:
  - {name: enable-admission-plugins, value: "NamespaceLifecycle,LimitRanger,ServiceAccount,DefaultStorageClass,DefaultTolerationSeconds,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ResourceQuota,Priority,NodeRestriction"}
  - {name: endpoint-reconciler-type, value: lease}
  - {name: kubelet-certificate-authority, value: /etc/kubernetes/pki/ca.crt}
  - {name: profiling, value: "false"}
  - {name: request-timeout, value: 1m}
  - {name: service-node-port-range, value: "30000-32767"}
controllerManager:
  extraArgs:
  - {name: flex-volume-plugin-dir, value: /var/lib/kubelet/volumeplugins}
  - {name: profiling, value: "false"}
  - {name: terminated-pod-gc-threshold, value: "1000"}
  - {name: node-cidr-mask-size-ipv4, value: "24"}
scheduler:
  extraArgs:
  - {name: profiling, value: "false"}
etcd:
  local:
    dataDir: /var/lib/etcd
    extraArgs:
    - {name: experimental-compact-hash-check-enabled, value: "true"}
    - {name: experimental-corrupt-check-time, value: 240m}
`

// aHost is a host of its own as far as a reader looks: kubeadm has written its files, and processes with command lines stand for programs.
type aHost struct {
	dir, name string
}

// newHost has kubeadm of a release write a control-plane machine's files.
func newHost(t *testing.T, name, config string) aHost {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("kubeadm --rootfs changes its root: run this test as root")
	}
	b := bundletest.Of(t, release.Default)
	h := aHost{t.TempDir(), name}
	for _, dir := range []string{"tmp", "etc/ssl/certs", "etc/ca-certificates", "usr/share/ca-certificates", "usr/local/share/ca-certificates", "etc/kubernetes", "etc/containerd", "etc/bin", "var/lib/kubelet", "var/lib/dpkg"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(h.dir, dir), 0o755))
	}
	h.write(t, "/tmp/kubeadm.yaml", fmt.Sprintf(initHead, name)+fmt.Sprintf(config, release.Default))
	for _, phase := range []string{"certs all", "kubeconfig admin", "kubeconfig kubelet", "control-plane all", "etcd local"} {
		args := append([]string{"--rootfs", h.dir, "init", "phase"}, strings.Fields(phase)...)
		cmd := exec.CommandContext(t.Context(), bundletest.Program(t, b, "kubeadm"), append(args, "--config", "/tmp/kubeadm.yaml")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubeadm %s: %v\n%s", phase, err, out)
		}
	}
	h.write(t, "/var/lib/dpkg/status", "x")
	return h
}

func (h aHost) write(t *testing.T, file, text string) {
	t.Helper()
	at := filepath.Join(h.dir, file)
	testkit.Must(t, os.MkdirAll(filepath.Dir(at), 0o755))
	testkit.Must(t, os.WriteFile(at, []byte(text), 0o755))
}

// runs starts a process with a program's command line, and has systemctl name it as the main process of the program's unit.
func (h aHost) runs(t *testing.T, programs map[string][]string) {
	t.Helper()
	units := ""
	script := filepath.Join(t.TempDir(), "waits")
	testkit.Must(t, os.WriteFile(script, []byte("read line\n"), 0o600))
	for name, args := range programs {
		cmd := exec.CommandContext(t.Context(), "/bin/sh")
		cmd.Args = append([]string{"/usr/bin/" + name, script}, args...)
		in := testkit.Value(cmd.StdinPipe())(t)
		testkit.Must(t, cmd.Start())
		t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
		units += fmt.Sprintf("*MainPID*%s.service*) echo %d;;\n", name, cmd.Process.Pid)
	}
	h.write(t, "/etc/bin/systemctl", "#!/bin/sh\ncase \"$*\" in\n"+units+"*ExecStart*) echo '{ path=/usr/bin/containerd ; argv[]=/usr/bin/containerd }';;\nesac\n")
}

// reader returns a reader of the host, over SSH, and how the host is reached.
func (h aHost) reader(t *testing.T) (*Reader, remote.Host) {
	t.Helper()
	private, public, err := remote.GenerateKey("adopt")
	testkit.Must(t, err)
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public))
	testkit.Must(t, err)
	s := sshtest.NewServer(t, key)
	s.Command = func(command string) string { // commands see the host's files in place of ours
		return "exec unshare -m sh -c 'mount --make-rprivate / && mount --bind " + h.dir + "/etc /etc && mount --bind " + h.dir + "/var /var && PATH=/etc/bin:$PATH exec sh -c \"$1\"' sh " + quoted(command)
	}
	hostKey := sshtest.AuthorizedKey(s.HostKey.PublicKey())
	known := testkit.Value(remote.ParseKnown("known_hosts", fmt.Appendf(nil, "[127.0.0.1]:%d %s\n", s.Port(), hostKey)))(t)
	r := testkit.Value(NewReader(Way{From: "127.0.0.1", User: "root", Port: s.Port(), Key: private, Known: known}))(t)
	t.Cleanup(func() { testkit.Must(t, r.Close()) })
	return r, remote.Host{Name: h.name, Address: "127.0.0.1", Port: s.Port(), User: "root", HostKeys: []string{hostKey}}
}

// read reads the host.
func (h aHost) read(t *testing.T) Host {
	t.Helper()
	r, at := h.reader(t)
	host := testkit.Value(r.readHost(t.Context(), at))(t)
	host.Facts["systemd"], host.Keys, host.Address = "yes", []string{hostKey}, "192.0.2.11"
	return host
}

func quoted(command string) string { return "'" + strings.ReplaceAll(command, "'", `'\''`) + "'" }

// found is a cluster of one host, with an API that answers as an installer's would.
func found(t *testing.T, h Host, config string, daemonSets ...string) *Found {
	t.Helper()
	f := bare(t)
	n := f.Survey.Nodes[0]
	n.Name, n.Version, n.Addresses, n.Taints = h.Name, release.Default, []string{h.Address}, nil
	n.Labels = map[string]string{"kubernetes.io/hostname": h.Name}
	proxies := f.Survey.Records["kube-proxy"]
	return &Found{Hosts: []Host{h}, Survey: &kube.Survey{Nodes: []kube.SurveyedNode{n}, DaemonSets: append(daemonSets, "kube-system/kube-proxy"),
		Records: map[string]map[string]string{"kubeadm-config": {"ClusterConfiguration": fmt.Sprintf(config, release.Default)}, "kube-proxy": proxies}}}
}

// TestRealKubespray reads, over SSH, files that kubeadm has written for Kubespray, next to Kubespray's own.
func TestRealKubespray(t *testing.T) {
	h := newHost(t, "node1", kubesprayConfig)
	testkit.Must(t, os.Symlink("ssl", filepath.Join(h.dir, "etc/kubernetes/pki")))
	h.write(t, "/etc/kubernetes/kubelet-config.yaml", strings.NewReplacer("/etc/kubernetes/pki", "/etc/kubernetes/ssl", "10.96.0.10", "169.254.25.10").Replace(string(written(t, "kubelet.yaml"))))
	h.write(t, "/etc/containerd/config.toml", "version = 2\nimports = [\"/etc/containerd/more/*.toml\"]\n[metrics]\n  address = \"127.0.0.1:1338\"\n")
	h.write(t, "/etc/containerd/more/runsc.toml", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runsc]\n  runtime_type = \"io.containerd.runsc.v1\"\n")
	h.runs(t, map[string][]string{"containerd": nil,
		"kubelet": {"--v=2", "--node-ip=192.0.2.11", "--hostname-override=node1", "--config=/etc/kubernetes/kubelet-config.yaml", "--kubeconfig=/etc/kubernetes/kubelet.conf"}})
	host := h.read(t)
	if host.Facts["server"] != "https://192.0.2.11:6443" || host.Facts["runtime"] != "/usr/bin/containerd" {
		t.Errorf("the facts are %q", host.Facts)
	}
	f := found(t, host, kubesprayConfig, "kube-system/calico-node", "kube-system/nodelocaldns")
	d := testkit.Value(New(options(), f))(t)
	doc, err := d.Cluster()
	testkit.Must(t, err)
	if doc.Spec.Kubernetes.PodCIDR != "10.233.64.0/18" || doc.Spec.Kubernetes.ServiceCIDR != "10.233.0.0/18" || doc.Spec.Endpoint.Kind != "direct" || doc.Spec.Etcd.ElectionMilliseconds != 5000 {
		t.Errorf("the document is %s", d.Document)
	}
	lost := strings.Join(d.Lost(), "\n")
	for _, want := range []string{"the runtime runsc goes", "metrics.address=127.0.0.1:1338 goes", `clusterDNS=["169.254.25.10"] becomes`, "allocate-node-cidrs=false becomes true"} {
		if !strings.Contains(lost, want) {
			t.Errorf("%q is not lost:\n%s", want, lost)
		}
	}
	for _, no := range []string{"/etc/kubernetes/ssl", "/etc/kubernetes/pki", "anonymous-auth", "service-account-lookup", "enable-aggregator-routing", "service-node-port-range", "hostname-override", "node-ip"} {
		if strings.Contains(lost, no) {
			t.Errorf("%q is among the lost settings:\n%s", no, lost)
		}
	}
	if secrets := testkit.Value(d.Secrets())(t); len(secrets) != 4 {
		t.Errorf("%d secrets", len(secrets))
	}
}

// TestRealKubeOne does so for KubeOne.
func TestRealKubeOne(t *testing.T) {
	const name = "ip-10-0-0-11.eu-west-3.compute.internal"
	h := newHost(t, name, kubeoneConfig)
	h.write(t, "/var/lib/kubelet/config.yaml", string(written(t, "kubelet.yaml"))+"serverTLSBootstrap: true\n")
	h.write(t, "/var/lib/kubelet/kubeadm-flags.env", "KUBELET_KUBEADM_ARGS=\"--hostname-override="+name+" --node-ip=192.0.2.11\"\n")
	h.write(t, "/etc/systemd/system/kubelet.service.d/extras.conf", "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--max-pods=200\"\n")
	h.write(t, "/etc/containerd/config.toml", "version = 3\n[plugins.\"io.containerd.cri.v1.images\".registry.configs.\"r.example.org\".auth]\nusername = \"u\"\npassword = \"hunter2\"\n")
	h.runs(t, map[string][]string{"containerd": {"--config", "/etc/containerd/config.toml"},
		"kubelet": {"--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=/var/lib/kubelet/config.yaml", "--hostname-override=" + name, "--node-ip=192.0.2.11", "--max-pods=200"}})
	d := testkit.Value(New(options(), found(t, h.read(t), kubeoneConfig, "kube-system/canal", "kube-system/node-local-dns")))(t)
	doc, err := d.Cluster()
	testkit.Must(t, err)
	if doc.Spec.Endpoint.Address != "demo-api-lb.elb.eu-west-3.amazonaws.com:6443" || doc.Machines()[0].Name != name {
		t.Errorf("the document is %s", d.Document)
	}
	var text strings.Builder
	testkit.Must(t, d.Write(&text))
	for _, want := range []string{"the credentials of r.example.org go", "KUBELET_EXTRA_ARGS, with --max-pods", "kubelet.service.d/extras.conf", "Canal"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not said:\n%s", want, text.String())
		}
	}
	if lost := strings.Join(d.Lost(), "\n"); strings.Contains(lost, "max-pods") || strings.Contains(lost, "enable-admission-plugins") || strings.Contains(text.String(), "hunter2") {
		t.Errorf("lost are:\n%s", lost)
	}
}

// TestRealDistribution: a host of RKE2 is named as that, and one without kubeadm's files is not taken for another.
func TestRealDistribution(t *testing.T) {
	for dir, want := range map[string]string{"var/lib/rancher/rke2": "127.0.0.1 runs RKE2", "var/snap/microk8s": "127.0.0.1 runs MicroK8s", "var/lib/other": "there is no /etc/kubernetes/admin.conf"} {
		h := aHost{t.TempDir(), "x"}
		testkit.Must(t, os.MkdirAll(filepath.Join(h.dir, dir), 0o755))
		h.runs(t, nil)
		r, _ := h.reader(t)
		if _, err := r.Read(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
}
