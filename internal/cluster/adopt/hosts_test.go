package adopt

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRuntimes checks the settings that containerd runs with, from its file, imports and command line.
func TestRuntimes(t *testing.T) {
	containerd := func(i int, args ...string) func(*Found) {
		return func(f *Found) {
			facts := maps.Clone(f.Hosts[i].Facts)
			facts["containerdArgs"] = strings.Join(append([]string{"/usr/bin/containerd"}, args...), "\t")
			f.Hosts[i].Facts = facts
		}
	}
	fact := func(i int, name, value string) func(*Found) {
		return func(f *Found) {
			facts := maps.Clone(f.Hosts[i].Facts)
			facts[name] = value
			f.Hosts[i].Facts = facts
		}
	}
	const file, cri = "/etc/containerd/config.toml", "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n"
	for name, c := range map[string]report{
		"defaults":         {puts(1, file, cri+"sandbox_image = \"registry.k8s.io/pause:3.9\"\n"), "", "", ""},
		"root":             {puts(1, file, "version = 2\nroot = \"/data/containerd\"\n"), "containerd's data is in /data/containerd", "move /data/containerd to /var/lib/containerd", ""},
		"root, version 1":  {puts(1, file, "root = \"/data/containerd/\"\n[plugins.cri]\nsandbox_image = \"x\"\n"), "containerd's data is in /data/containerd:", "", ""},
		"root, version 3":  {puts(1, file, "version = 3\nroot = '/data/containerd'\n"), "containerd's data is in /data/containerd", "", ""},
		"root of two":      {all(puts(1, file, "root = \"/data\"\n"), puts(2, file, "root = \"/data\"\n")), "containerd's data is in /data", "kube-b, kube-c", ""},
		"root by a link":   {all(puts(1, file, "root = \"/data/containerd\"\n"), fact(1, "containerdRoot", "/data/containerd")), "", "", ""},
		"root by a flag":   {containerd(1, "--root", "/data/containerd"), "containerd's data is in /data/containerd", "", ""},
		"root by import":   {all(puts(1, file, "version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n"), puts(1, "/etc/containerd/conf.d/a.toml", "version = 2\nroot = \"/data\"\n")), "containerd's data is in /data", "", ""},
		"state":            {puts(1, file, "version = 2\nstate = \"/ephemeral/containerd\"\n"), "containerd's state lies in /ephemeral/containerd", "restart the host", ""},
		"state, Debian's":  {puts(1, file, "version = 2\nstate = \"/var/run/containerd\"\n"), "", "", ""},
		"another file":     {all(containerd(1, "-c", "/opt/c.toml"), puts(1, "/opt/c.toml", "root = \"/data\"\n"), puts(1, file, "root = \"/other\"\n")), "containerd's data is in /data", "", ""},
		"socket, Debian's": {kubelet(1, "--container-runtime-endpoint=unix:///var/run/containerd/containerd.sock", "--pod-infra-container-image=registry.k8s.io/pause:3.9"), "", "", ""},
		"socket":           {kubelet(1, "--container-runtime-endpoint=unix:///run/containerd-k8s/containerd.sock"), "the kubelet uses the containerd at /run/containerd-k8s/containerd.sock", "listen on /run/containerd/containerd.sock", ""},
		"not TOML":         {puts(1, file, "version = 2\npassword hunter2\n"), "containerd's configuration can't be read: /etc/containerd/config.toml: line 2 is not TOML", "correct it", ""},
		"runtime":          {puts(1, file, cri+"[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.nvidia]\nruntime_type = \"io.containerd.runc.v2\"\n"), "", "the runtime nvidia goes", ""},
		"credentials":      {puts(1, file, cri+"[plugins.\"io.containerd.grpc.v1.cri\".registry.configs.\"r.example.org\".auth]\nusername = \"u\"\npassword = \"hunter2\"\n"), "", "the credentials of r.example.org go] [give pods imagePullSecrets", ""},
		"mirrors":          {puts(1, file, cri+"[plugins.\"io.containerd.grpc.v1.cri\".registry.mirrors.\"docker.io\"]\nendpoint = [\"https://m.example.org\"]\n"), "", "[write mirrors as /etc/containerd/certs.d/HOST/hosts.toml, which stays]", ""},
		"cgroupfs": {all(puts(1, file, cri+"[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nSystemdCgroup = false\n"), func(f *Found) {
			f.Hosts[1].Files[kubeletConfig] = bytes.Replace(written(t, "kubelet.yaml"), []byte("cgroupDriver: systemd"), []byte("cgroupDriver: cgroupfs"), 1)
		}), "", "cgroupDriver=cgroupfs becomes systemd", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := bare(t)
			c.check(t, f)
			for _, g := range testkit.Value(New(options(), f))(t).Gaps {
				if strings.Contains(g.What+strings.Join(g.Details, ""), "hunter") {
					t.Errorf("a secret is shown: %+v", g)
				}
			}
		})
	}
}

// TestKubelets: the running kubelet counts, wherever its flags come from.
func TestKubelets(t *testing.T) {
	usual := []string{"--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", "--kubeconfig=/etc/kubernetes/kubelet.conf", "--config=/var/lib/kubelet/config.yaml"}
	elsewhere := func(i int, text string) func(*Found) {
		return all(kubelet(i, append(slices.Clone(usual[:2]), "--config=/etc/kubernetes/kubelet-config.yaml")...), func(f *Found) {
			f.Hosts[i].Files["/etc/kubernetes/kubelet-config.yaml"] = append(written(t, "kubelet.yaml"), text...)
			f.Hosts[i].Files[kubeletConfig] = []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 5\n")
		})
	}
	for name, c := range map[string]report{
		"kubeadm's":       {kubelet(1, usual...), "", "", ""},
		"extra arguments": {all(kubelet(1, append(slices.Clone(usual), "--node-ip=192.0.2.21", "--max-pods=200")...), puts(1, kubeletExtra, "# comment\nKUBELET_EXTRA_ARGS=\"--node-ip=192.0.2.21 --max-pods=200\"\n")), "", "KUBELET_EXTRA_ARGS, with --max-pods, --node-ip", ""},
		"machine-controller's": {all(kubelet(1, append(slices.Clone(usual), "--resolv-conf=/run/systemd/resolve/resolv.conf")...),
			puts(1, "/etc/systemd/system/kubelet.service.d/extras.conf", "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--resolv-conf=/run/systemd/resolve/resolv.conf\"\n")), "", "KUBELET_EXTRA_ARGS, with --resolv-conf", ""},
		"kubeadm's drop-in": {puts(1, "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS\n"), "", "", ""},
		"command of a drop-in": {puts(1, "/etc/systemd/system/kubelet.service.d/99-own.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet \\\n  --config=/x\n"),
			"/etc/systemd/system/kubelet.service.d/99-own.conf has kubelet.service started by a command of its own", "KUBELET_EXTRA_ARGS", ""},
		"overruled command":      {puts(1, "/etc/systemd/system/kubelet.service.d/0-own.conf", "[Service]\nExecStart=/usr/bin/kubelet\n"), "", "drop-ins of kubelet.service: /etc/systemd/system/kubelet.service.d/0-own.conf", ""},
		"containerd's command":   {puts(1, "/etc/systemd/system/containerd.service.d/root.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/containerd --root /data\n"), "root.conf has containerd.service started by a command of its own", "take ExecStart out of it", ""},
		"a proxy for containerd": {puts(1, "/etc/systemd/system/containerd.service.d/http-proxy.conf", "[Service]\nEnvironment=HTTPS_PROXY=http://proxy:3128\n"), "", "drop-ins of containerd.service: /etc/systemd/system/containerd.service.d/http-proxy.conf", ""},
		"drop-in's flags":        {kubelet(1, append(slices.Clone(usual), "--max-pods=200", "--root-dir=/data/kubelet")...), "", "[root-dir=/data/kubelet goes]", "maxPods: 200"},
		"flags by file":          {puts(1, kubeletFlags, `KUBELET_KUBEADM_ARGS="--root-dir=/data/kubelet --cloud-provider=external --cgroup-driver=systemd"`), "", "cgroup-driver=systemd goes", ""},
		"quotes inside":          {puts(1, kubeletFlags, `KUBELET_KUBEADM_ARGS="--node-labels=a=b,c=d --feature-gates=\"A=true,B=false\""`+"\nOTHER=1\n"), "", "feature-gates=", ""},
		"configuration":          {elsewhere(1, ""), "", "", ""},
		"reserved":               {elsewhere(1, "systemReserved: {cpu: 200m}\n"), "", "", "systemReserved:\n          cpu: 200m"},
		"node-local DNS": {func(f *Found) {
			f.Hosts[1].Files[kubeletConfig] = bytes.Replace(written(t, "kubelet.yaml"), []byte("- 10.96.0.10"), []byte("- 169.254.20.10"), 1)
		}, "", `clusterDNS=["169.254.20.10"] becomes ["10.96.0.10"]] [pods that start after the first apply ask the cluster's DNS itself`, ""},
		"unreadable":        {elsewhere(1, "\t{\n"), "the kubelet's configuration can't be read", "correct /etc/kubernetes/kubelet-config.yaml", ""},
		"drop-in directory": {all(kubelet(1, append(slices.Clone(usual), "--config-dir=/etc/kubelet.d")...), puts(1, "/etc/kubelet.d/10-pods.conf", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 77\n")), "", "", "kubelet:\n        maxPods: 77"},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, bare(t)) })
	}
}

// TestUsualSettings: configurations that spell defaults out, as Kubespray's do, lose nothing and add nothing to the document; it holds other values of
// these settings.
func TestUsualSettings(t *testing.T) {
	f := bare(t)
	f.Hosts[1].Files[kubeletConfig] = append(written(t, "kubelet.yaml"), `maxPods: 110
nodeStatusUpdateFrequency: "10s"
failSwapOn: true
enforceNodeAllocatable: [pods]
address: "0.0.0.0"
readOnlyPort: 0
kubeletCgroups: /system.slice/kubelet.service
containerLogMaxSize: 10Mi
containerLogMaxFiles: 5
serializeImagePulls: true
podPidsLimit: -1
eventRecordQPS: 50
`...)
	proxy(f, `healthzBindAddress: ""`, "healthzBindAddress: 0.0.0.0:10256")
	proxy(f, `metricsBindAddress: ""`, "metricsBindAddress: 127.0.0.1:10249")
	proxy(f, "configSyncPeriod: 0s", "configSyncPeriod: 15m0s")
	proxy(f, "oomScoreAdj: null", "oomScoreAdj: -999")
	proxy(f, "  masqueradeBit: null\n  minSyncPeriod: 0s\n  syncPeriod: 0s", "  masqueradeBit: 14\n  minSyncPeriod: 0s\n  syncPeriod: 30s")
	d := testkit.Value(New(options(), f))(t)
	if lost := d.Lost(); len(lost) > 0 || strings.Contains(string(d.Document), "kubelet:") {
		t.Errorf("lost are %q, and the document is\n%s", lost, d.Document)
	}
	for _, setting := range []string{"maxPods: 250", "podPidsLimit: 4096", "containerLogMaxSize: 50Mi"} {
		f := bare(t)
		f.Hosts[1].Files[kubeletConfig] = append(written(t, "kubelet.yaml"), setting+"\n"...)
		d := testkit.Value(New(options(), f))(t)
		if lost := d.Lost(); len(lost) > 0 || !strings.Contains(string(d.Document), setting) {
			t.Errorf("%s: lost is %q, and the document is\n%s", setting, lost, d.Document)
		}
	}
}

// TestServers: the API servers' certificates keep the names at which kubelets reach them until the kubelets use the endpoint.
func TestServers(t *testing.T) {
	for server, want := range map[string]string{
		"https://192.0.2.11:6443": "", "https://kube-a:6443": "proxy.example.org", "": "", "https://127.0.0.1:6443": "127.0.0.1", "https://localhost:8443": "localhost",
		"https://former.example.org:6443": "former.example.org", "https://192.0.2.99:6443": "192.0.2.99",
	} {
		f := bare(t)
		for i := range f.Hosts[1:] {
			f.Hosts[i+1].Facts = maps.Clone(f.Hosts[0].Facts)
			f.Hosts[i+1].Facts["server"] = server
		}
		if server == "https://kube-a:6443" { // kube-proxy uses another endpoint
			f.Survey.Records["kube-proxy"]["kubeconfig.conf"] = "clusters:\n- cluster:\n    server: https://proxy.example.org:6443\n  name: default\n"
		}
		d := testkit.Value(New(options(), f))(t)
		if got := testkit.Value(d.Facts(t.Context()))(t)[store.Fact{Kind: string(memory.APINames)}]; got != want {
			t.Errorf("%s: certificates keep %q, want %q", server, got, want)
		}
		said := slices.ContainsFunc(d.Gaps, func(g Gap) bool {
			return strings.Contains(g.What, "the kubelet reaches the API") && g.Where == "kube-b, kube-c"
		})
		if said != (want != "" && want != "proxy.example.org") {
			t.Errorf("%s: it is said: %t", server, said)
		}
		testkit.Value(d.Cluster())(t)
	}
}

// TestDistributions: one finding names another distribution, whichever of its traces a host shows.
func TestDistributions(t *testing.T) {
	version := func(v string) func(*Found) {
		return func(f *Found) {
			for i := range f.Survey.Nodes {
				f.Survey.Nodes[i].Version = v
			}
		}
	}
	label := func(key string) func(*Found) {
		return func(f *Found) {
			for i := range f.Survey.Nodes {
				f.Survey.Nodes[i].Labels[key] = "x"
			}
			f.Survey.Records = nil
		}
	}
	for name, c := range map[string]report{
		"RKE2":     {version("v1.37.2+rke2r1"), "it runs RKE2", notKubeadm, ""},
		"K3s":      {version("v1.37.2+k3s1"), "it runs K3s", "kube-a, kube-b, kube-c", ""},
		"one K3s":  {func(f *Found) { f.Survey.Nodes[1].Version = "v1.37.2+k3s1" }, "it runs K3s", "take these nodes out", ""},
		"MicroK8s": {label("microk8s.io/cluster"), "it runs MicroK8s", "", ""},
		"kOps":     {label("kops.k8s.io/instancegroup"), "it runs kOps", notKubeadm, ""},
		"Gardener": {label("worker.gardener.cloud/pool"), "it runs Gardener", notKubeadm, ""},
		"k0s":      {version("v1.37.2+k0s"), "it runs k0s", "", ""},
		"Talos": {func(f *Found) {
			f.Survey.Nodes[0].Image, f.Survey.Nodes[1].Image, f.Survey.Nodes[2].Image = "Talos (v1.11)", "Talos (v1.11)", "Talos (v1.11)"
		}, "it runs Talos Linux", "", ""},
		"EKS":       {version("v1.37.2-eks-113cf36"), "it runs Amazon EKS", "", ""},
		"OpenShift": {label("node.openshift.io/os_id"), "it runs OpenShift", "", ""},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, bare(t)) })
	}
	f := bare(t)
	label("rke.cattle.io/external-ip")(f)
	if gaps := testkit.Value(New(options(), f))(t).Gaps; len(gaps) != 1 || gaps[0].What != "it runs RKE" {
		t.Errorf("a cluster of RKE: %+v", gaps)
	}
	f = bare(t)
	version("v1.37.2+rke2r1")(f)
	var out strings.Builder
	d := testkit.Value(New(options(), f))(t)
	testkit.Must(t, d.Write(&out))
	if text := out.String(); !strings.HasPrefix(text, "# No document describes this cluster") || !strings.Contains(text, "It can't be taken over") || d.Report().Document != nil {
		t.Errorf("it says\n%s", text)
	}
	for _, d := range distributions {
		if d.files != "" && distributionOf("/other "+d.files) != d.name {
			t.Errorf("%s is not known by %s", d.name, d.files)
		}
		if d.files != "" && !strings.Contains(factsScript(), d.files) {
			t.Errorf("no host is asked for %s", d.files)
		}
	}
}
