package adopt

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/testkit"
)

// conf changes kubeadm's record.
func conf(f *Found, old, replacement string) {
	r := f.Survey.Records["kubeadm-config"]
	r["ClusterConfiguration"] = strings.Replace(r["ClusterConfiguration"], old, replacement, 1)
}

// rename gives a node another name.
func rename(f *Found, i int, name string) {
	old := f.Survey.Nodes[i].Name
	f.Survey.Nodes[i].Name, f.Hosts[i].Name = name, name
	for p, d := range f.Hosts[i].Files {
		f.Hosts[i].Files[p] = renamed(d, old, name)
	}
}

// manifest is a static pod with one container.
func manifest(name string) []byte {
	return []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: kube-system}\nspec: {containers: [{name: " + name + ", image: x}]}\n")
}

// TestUsual: flags that spell defaults out lose nothing and add nothing to the document; other values of theirs do either.
func TestUsual(t *testing.T) {
	plain := testkit.Value(New(options(), bare(t)))(t)
	for component, flags := range usual {
		for name, values := range flags {
			for _, v := range append(slices.Clone(values), "77") {
				f := bare(t)
				with(f, component, name, v)
				d := testkit.Value(New(options(), f))(t)
				lost, holds := strings.Contains(strings.Join(d.Lost(), "\n"), name), !bytes.Equal(d.Document, plain.Document)
				if harmless := values == nil || slices.Contains(values, v); harmless == (lost != holds) || lost && holds {
					t.Errorf("%s --%s=%s: lost is %q, and the document is\n%s", component, name, v, d.Lost(), d.Document)
				}
			}
		}
	}
}

// report is a real user's cluster, with the findings that import reports.
type report struct {
	spoil  func(*Found)
	blocks string // part of the only obstacle; empty: the cluster can be taken over
	says   string // part of any finding
	doc    string // part of the document
}

func (c report) check(t *testing.T, f *Found) {
	t.Helper()
	c.spoil(f)
	d := testkit.Value(New(options(), f))(t)
	blocks := d.Of(Blocks)
	if c.blocks == "" && len(blocks) > 0 || c.blocks != "" && (len(blocks) != 1 || !strings.Contains(blocks[0].What, c.blocks)) {
		t.Errorf("obstacles: %+v, want one: %q", blocks, c.blocks)
	}
	var all []string
	for _, g := range d.Gaps {
		all = append(all, fmt.Sprintf("%s %s: %s %v [%s]", g.Kind, g.Where, g.What, g.Details, g.Do))
		if (g.Kind == Blocks || g.Kind == Lost) && g.Do == "" {
			t.Errorf("nothing to do about: %s", g.What)
		}
		if c.blocks == "" && d.doc == nil {
			t.Errorf("no document: %s", g.What)
		}
	}
	text := strings.Join(all, "\n")
	if !strings.Contains(text, c.says) {
		t.Errorf("%q is not said:\n%s", c.says, text)
	}
	if slices.Sort(all); len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("something is said twice:\n%s", text)
	}
	if !strings.Contains(string(d.Document), c.doc) {
		t.Errorf("the document lacks %q:\n%s", c.doc, d.Document)
	}
}

// edit returns a change of kubeadm's record.
func edit(old, replacement string) func(*Found) {
	return func(f *Found) { conf(f, old, replacement) }
}

// flag returns a change of a component's flag.
func flag(component, name, value string) func(*Found) {
	return func(f *Found) { with(f, component, name, value) }
}

// all joins changes.
func all(changes ...func(*Found)) func(*Found) {
	return func(f *Found) {
		for _, change := range changes {
			change(f)
		}
	}
}

// moved moves a host's authorities to another directory and updates all references.
func moved(dir string) func(*Found) {
	return func(f *Found) {
		conf(f, "certificatesDir: /etc/kubernetes/pki", "certificatesDir: "+dir)
		for i := range f.Hosts {
			files := map[string][]byte{}
			for file, data := range f.Hosts[i].Files {
				files[strings.Replace(file, "/etc/kubernetes/pki/", dir+"/", 1)] = bytes.ReplaceAll(data, []byte("/etc/kubernetes/pki"), []byte(dir))
			}
			f.Hosts[i].Files = files
		}
	}
}

// linked has kubeadm's directory of certificates be a link to another one, which everything names.
func linked(dir string) func(*Found) {
	return func(f *Found) {
		moved(dir)(f)
		for i := range f.Hosts {
			for file, data := range maps.Clone(f.Hosts[i].Files) {
				if base, ok := strings.CutPrefix(file, dir+"/"); ok {
					f.Hosts[i].Files[pkiDir+base] = data
				}
			}
		}
	}
}

// kubelet sets the command line of a host's kubelet.
func kubelet(i int, args ...string) func(*Found) {
	return func(f *Found) {
		facts := maps.Clone(f.Hosts[i].Facts)
		facts["kubeletArgs"] = strings.Join(append([]string{"/usr/bin/kubelet"}, args...), "\t")
		f.Hosts[i].Facts = facts
	}
}

// puts a file on a host.
func puts(i int, file, text string) func(*Found) {
	return func(f *Found) { f.Hosts[i].Files[file] = []byte(text) }
}

// TestReports imports clusters of real users. A cluster that can't be imported has one obstacle for each cause, with advice; the document of every other
// cluster matches its running programs.
func TestReports(t *testing.T) {
	add := func(i int, file string, data []byte) func(*Found) {
		return func(f *Found) { f.Hosts[i].Files[manifestDir+file] = data }
	}
	issuer := func(v string) func(*Found) { return flag("kube-apiserver", "service-account-issuer", v) }
	endpoint := func(v string) func(*Found) { return edit("clusterName:", "controlPlaneEndpoint: "+v+"\nclusterName:") }
	for name, c := range map[string]report{
		"FQDN node names":    {func(f *Found) { rename(f, 1, "worker1.example.org") }, "", "", "name: worker1.example.org"},
		"FQDN control plane": {func(f *Found) { rename(f, 0, "ip-10-0-0-11.eu-west-3.compute.internal") }, "", "", "name: ip-10-0-0-11.eu-west-3.compute.internal"},
		"names too long": {func(f *Found) {
			rename(f, 1, strings.Repeat("w", 60)+".example.org")
			rename(f, 2, strings.Repeat("v", 60)+".example.org")
		}, "name", "63 characters at most", ""},
		"capital in names":       {func(f *Found) { rename(f, 1, "Worker1") }, "name", "join the machine again under a name", ""},
		"another issuer":         {issuer("https://oidc.example.org"), "tokens are issued by https://oidc.example.org", "give every API server --service-account-issuer=https://kubernetes.default.svc.cluster.local and behind it the former one", ""},
		"short issuer":           {issuer("https://kubernetes.default.svc"), "tokens are issued by https://kubernetes.default.svc:", "give every API server", ""},
		"two issuers, new first": {issuer("https://kubernetes.default.svc.cluster.local\n    - --service-account-issuer=https://oidc.example.org"), "", "service-account-issuer=https://kubernetes.default.svc.cluster.local,https://oidc.example.org becomes", ""},
		"two issuers":            {issuer("https://oidc.example.org\n    - --service-account-issuer=https://kubernetes.default.svc.cluster.local"), "issued by https://oidc.example.org,https://kubernetes", "", ""},
		"v1beta3 with maps": {all(edit("kubeadm.k8s.io/v1beta4", "kubeadm.k8s.io/v1beta3"),
			edit("apiServer: {}", "apiServer:\n  extraArgs:\n    authorization-mode: Node,RBAC\n  timeoutForControlPlane: 4m0s")), "", "", ""},
		"v1beta4 with lists":      {edit("apiServer: {}", "apiServer:\n  extraArgs:\n  - name: audit-log-path\n    value: /var/log/a.log\n  extraVolumes:\n  - name: a\n    hostPath: /x\n    mountPath: /x"), "", "", ""},
		"record without defaults": {all(edit("clusterName: kubernetes\n", ""), edit("imageRepository: registry.k8s.io\n", "")), "", "kubeadm's name of the cluster, kubernetes, becomes demo", ""},
		"tabs":                    {edit("proxy: {}", "proxy:\n\t- x"), "kubeadm-config can't be read", "no tabs for indentation", ""},
		"quoted numbers":          {edit("clusterName: kubernetes", "clusterName: 12"), "", "", ""},
		"CRLF": {func(f *Found) {
			r := f.Survey.Records["kubeadm-config"]
			r["ClusterConfiguration"] = strings.ReplaceAll(r["ClusterConfiguration"], "\n", "\r\n")
		}, "", "", ""},
		"no networking":       {edit("  dnsDomain: cluster.local\n  podSubnet: 10.244.0.0/16\n  serviceSubnet: 10.96.0.0/12\n", "  {}\n"), "", "", "serviceCIDR: 10.96.0.0/12"},
		"no serviceSubnet":    {edit("  serviceSubnet: 10.96.0.0/12\n", ""), "", "", "serviceCIDR: 10.96.0.0/12"},
		"no dnsDomain":        {edit("  dnsDomain: cluster.local\n", ""), "", "", "dnsDomain: cluster.local"},
		"no podSubnet":        {edit("  podSubnet: 10.244.0.0/16\n", ""), "", "", "podCIDR: 10.244.0.0/16"},
		"kube-proxy's pods":   {all(edit("  podSubnet: 10.244.0.0/16\n", ""), func(f *Found) { without(f, "kube-controller-manager", "cluster-cidr") }), "", "", "podCIDR: 10.244.0.0/16"},
		"another record":      {edit("podSubnet: 10.244.0.0/16", "podSubnet: 10.99.0.0/16"), "", "kubeadm-config says podSubnet 10.99.0.0/16, but servers run with 10.244.0.0/16", "podCIDR: 10.244.0.0/16"},
		"host bits, recorded": {edit("podSubnet: 10.244.0.0/16", "podSubnet: 10.244.0.1/16"), "", "", "podCIDR: 10.244.0.0/16"},
		"host bits, running":  {flag("kube-controller-manager", "cluster-cidr", "10.244.0.1/16"), "", "", "podCIDR: 10.244.0.0/16"},
		"small pod network":   {flag("kube-controller-manager", "cluster-cidr", "10.244.0.0/25"), "podCIDR", "must be one IPv4 network", ""},
		"node mask":           {flag("kube-controller-manager", "node-cidr-mask-size", "25"), "", "", "nodeCIDRMaskSize: 25"},
		"node mask, IPv4":     {flag("kube-controller-manager", "node-cidr-mask-size-ipv4", "23"), "", "", "nodeCIDRMaskSize: 23"},
		"node mask, small":    {flag("kube-controller-manager", "node-cidr-mask-size", "30"), "", "node-cidr-mask-size=30 goes", ""},
		"dual-stack services": {flag("kube-apiserver", "service-cluster-ip-range", "10.96.0.0/16,fd00:10:96::/112"), "have two families", "move workloads and volumes there", ""},
		"dual-stack": {all(flag("kube-apiserver", "service-cluster-ip-range", "10.96.0.0/16,fd00:10:96::/112"), flag("kube-controller-manager", "cluster-cidr", "10.244.0.0/16,fd00:10:244::/56"),
			flag("kube-controller-manager", "node-cidr-mask-size-ipv6", "80")), "have two families", "", ""},
		"IPv6 alone": {all(flag("kube-apiserver", "service-cluster-ip-range", "fd00:10:96::/112"), flag("kube-controller-manager", "cluster-cidr", "fd00:10:244::/56")), "are IPv6", "", ""},
		"IPv6 node":  {func(f *Found) { f.Survey.Nodes[1].Addresses, f.Hosts[1].Address = []string{"fd00::21"}, "fd00::21" }, "IPv6", "machines need IPv4 addresses", ""},
		"IPv6 first": {func(f *Found) {
			f.Survey.Nodes[1].Addresses, f.Hosts[1].Address = []string{"fd00::21", "192.0.2.21"}, "fd00::21"
		}, "", "", "address: 192.0.2.21"},
		"arm64":      {func(f *Found) { f.Survey.Nodes[2].Architecture = "arm64" }, "its processor is arm64", "take the node out", ""},
		"old system": {func(f *Found) { f.Survey.Nodes[1].Image = "Ubuntu 20.04.6 LTS" }, "", "", ""},
		"two of CRI-O": {func(f *Found) {
			f.Survey.Nodes[1].Runtime, f.Survey.Nodes[2].Runtime = "cri-o://1.37.0", "cri-o://1.37.0"
		}, "its container runtime is cri-o", "kube-b, kube-c", ""},
		"cri-dockerd": {func(f *Found) { f.Survey.Nodes[1].Runtime = "docker://29.0.1" }, "its container runtime is docker", "move the node to containerd", ""},
		"OIDC":        {flag("kube-apiserver", "oidc-issuer-url", "https://sso.example.org"), "", "oidc-issuer-url=https://sso.example.org goes", ""},
		"defaults spelt out": {all(flag("kube-apiserver", "endpoint-reconciler-type", "lease"), flag("kube-apiserver", "service-node-port-range", "30000-32767"), flag("kube-apiserver", "anonymous-auth", "true"),
			flag("kube-apiserver", "enable-admission-plugins", "NamespaceLifecycle,NodeRestriction,PodSecurity"), flag("kube-controller-manager", "node-cidr-mask-size-ipv4", "24"), flag("etcd", "log-level", "info")), "", "", ""},
		"admission": {flag("kube-apiserver", "enable-admission-plugins", "NodeRestriction,PodNodeSelector"), "", "", "enableAdmissionPlugins:\n        - PodNodeSelector"},
		"KMS": {all(flag("kube-apiserver", encryptionFlag, "/etc/kubernetes/kms.yaml"), puts(0, "/etc/kubernetes/kms.yaml",
			"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - kms: {apiVersion: v2, name: vault, endpoint: unix:///var/run/kms.sock}\n  - identity: {}\n")),
			"encrypt otherwise", "rewrite Secrets", ""},
		"certificates recorded elsewhere": {edit("certificatesDir: /etc/kubernetes/pki", "certificatesDir: /etc/kubernetes/ssl"), "", "", ""},
		"certificates elsewhere":          {moved("/etc/kubernetes/ssl"), "", "kube-a, kube-b, kube-c: certificates and keys are read from /etc/kubernetes/ssl", ""},
		"certificates linked":             {linked("/etc/kubernetes/ssl"), "", "certificates and keys are read from /etc/kubernetes/ssl", ""},
		"certificates gone": {func(f *Found) {
			conf(f, "certificatesDir: /etc/kubernetes/pki", "certificatesDir: /etc/kubernetes/ssl")
			maps.DeleteFunc(f.Hosts[0].Files, func(file string, _ []byte) bool { return strings.HasPrefix(file, pkiDir) })
		}, "(kubeadm-config says that certificates lie in /etc/kubernetes/ssl)", "put it back", ""},
		"worker's authority": {func(f *Found) {
			f.Hosts[1].Files[pkiDir+"ca.crt"], f.Hosts[2].Files[pkiDir+"ca.crt"] = []byte("x"), []byte("x")
		}, "its authority is another one than that of kube-a", "kube-b, kube-c", ""},
		"backup": {func(f *Found) {
			add(0, "kube-apiserver.yaml.bak", f.Hosts[0].Files[manifestDir+"kube-apiserver.yaml"])(f)
		},
			"two manifests make the pod kube-apiserver, kube-apiserver.yaml and kube-apiserver.yaml.bak", "move kube-apiserver.yaml.bak out of /etc/kubernetes/manifests", ""},
		"backup, other name": {func(f *Found) { add(0, "old", f.Hosts[0].Files[manifestDir+"etcd.yaml"])(f) }, "two manifests make the pod etcd, etcd.yaml and old", "", ""},
		"hidden backup": {func(f *Found) {
			add(0, ".kube-apiserver.yaml.swp", f.Hosts[0].Files[manifestDir+"kube-apiserver.yaml"])(f)
		}, "", "", ""},
		"junk": {add(0, "kube-apiserver.yaml.bak", []byte("x")), "", "no pods: kube-apiserver.yaml.bak", ""},
		"another file name": {func(f *Found) {
			add(0, "scheduler.yaml", f.Hosts[0].Files[manifestDir+"kube-scheduler.yaml"])(f)
			delete(f.Hosts[0].Files, manifestDir+"kube-scheduler.yaml")
		}, "the manifest of kube-scheduler is called scheduler.yaml", "rename it to kube-scheduler.yaml", ""},
		"two pods of others":  {all(add(1, "a.yaml", manifest("node-cache")), add(1, "b.yaml", manifest("node-cache"))), "two manifests make the pod node-cache", "move b.yaml out of", ""},
		"kube-vip":            {all(add(0, "kube-vip.yaml", manifest("kube-vip")), endpoint("192.0.2.100:6443")), "", "kubeadm has not made: kube-vip", "address: 192.0.2.100:6443"},
		"pod named otherwise": {add(0, "x.yaml", manifest("node-cache")), "", "kubeadm has not made: node-cache", ""},
		"manifests elsewhere": {func(f *Found) {
			f.Hosts[1].Files[kubeletConfig] = bytes.Replace(written(t, "kubelet.yaml"), []byte("staticPodPath: /etc/kubernetes/manifests"), []byte("staticPodPath: /etc/kubelet.d"), 1)
		}, "static pods lie in /etc/kubelet.d", "", ""},
		"second container": {func(f *Found) {
			file := manifestDir + "kube-apiserver.yaml"
			f.Hosts[0].Files[file] = bytes.Replace(f.Hosts[0].Files[file], []byte("  containers:\n"), []byte("  containers:\n  - name: kms\n    image: kms:v1\n"), 1)
		}, "", "kube-apiserver: containers beside it in its pod: kms", ""},
		"a proxy's variables": {replaced("kube-apiserver", "    image: ", "    env: [{name: HTTPS_PROXY, value: 'http://me:secret@proxy:3128'}, {name: NO_PROXY, value: x}]\n    image: "), "", "kube-apiserver: environment variables: HTTPS_PROXY, NO_PROXY", ""},
		"host aliases":        {replaced("kube-apiserver", "  hostNetwork: true", "  hostAliases: [{ip: 192.0.2.7, hostnames: [sso.example.org]}]\n  hostNetwork: true"), "", "kube-apiserver: host aliases", ""},
		"capitals":            {endpoint("K8S.Example.ORG:6443"), "", "", "address: k8s.example.org:6443"},
		"another port":        {endpoint("k8s.example.org:8443"), "", "", "address: k8s.example.org:8443"},
		"name without port":   {endpoint("cluster-endpoint"), "", "", "address: cluster-endpoint:6443"},
		"name in /etc/hosts":  {all(endpoint("lb.k8s.local:6443"), puts(1, "/etc/hosts", "127.0.0.1 localhost\n# 192.0.2.7 other\n192.0.2.100\tlb lb.k8s.local # the API\n")), "", "machines find lb.k8s.local in their /etc/hosts", "address: lb.k8s.local:6443"},
		"names of its own":    {edit("apiServer: {}", "apiServer: {certSANs: [kubernetes.example.org, kube-a, kubernetes.default.svc, localhost, 127.0.0.1, 10.96.0.1, kube-a.example.org]}"), "", "", "certSANs:\n        - kubernetes.example.org\n        - kube-a.example.org"},
		"bad names":           {edit("apiServer: {}", "apiServer: {certSANs: [a.example.org, b_c.example.org, c.example.org]}"), "", "no document can hold: b_c.example.org []", "certSANs:\n        - a.example.org\n        - c.example.org"},
		"a name of its own":   {edit("apiServer: {}", "apiServer: {certSANs: [kubernetes.example.org, kube-a]}"), "", "", "dnsName: kubernetes.example.org"},
		"IPv6 endpoint":       {endpoint("\"[fd00::1]:6443\""), "is IPv6", "give the API an address or a name of its own", ""},
		"local endpoint":      {endpoint("127.0.0.1:6443"), "", "each machine leads on by itself: all use 192.0.2.11:6443", "kind: direct"},
		"localhost":           {endpoint("localhost:8443"), "", "localhost:8443", "kind: direct"},
		"image digest":        {replaced("kube-scheduler", "kube-scheduler:v1.37.2", "kube-scheduler:v1.37.2@sha256:"+strings.Repeat("a", 64)), "", "", ""},
		"digest alone":        {replaced("kube-scheduler", "kube-scheduler:v1.37.2", "kube-scheduler@sha256:"+strings.Repeat("a", 64)), "", "", ""},
		"images of a mirror":  {all(replaced("kube-scheduler", "registry.k8s.io/", "mirror.example.org:5000/k8s/"), edit("imageRepository: registry.k8s.io", "imageRepository: mirror.example.org:5000/k8s")), "", "mirror.example.org:5000/k8s becomes the bundle's", ""},
		"old release":         {func(f *Found) { everything(f, "v1.34.3") }, "it runs Kubernetes v1.34.3, for which naupegos makes no bundle", "a minor at a time", ""},
		"two releases":        {func(f *Found) { f.Survey.Nodes[1].Version = "v1.36.4" }, "several releases", "bring everything to one release", ""},
		"etcd's slash":        {flag("etcd", "data-dir", "/var/lib/etcd/"), "", "", ""},
		"etcd's other slash":  {flag("etcd", "data-dir", "//var/lib//etcd"), "", "", ""},
		"port left out":       {func(f *Found) { without(f, "kube-apiserver", "secure-port") }, "", "", ""},
		"labels of Kubernetes": {func(f *Found) {
			for i := range f.Survey.Nodes {
				f.Survey.Nodes[i].Labels = map[string]string{"kubernetes.io/hostname": "x", "beta.kubernetes.io/os": "linux", "node-role.kubernetes.io/worker": "", "topology.kubernetes.io/zone": fmt.Sprint(i)}
			}
		}, "", "kube-a: topology.kubernetes.io/zone=0", "node-role.kubernetes.io/worker: \"\""},
		"etcd elsewhere":       {flag("etcd", "data-dir", "/data/etcd"), "etcd's data is in /data/etcd", "move etcd's data", ""},
		"etcd of another name": {flag("etcd", "name", "etcd1"), "its etcd member is called etcd1", "join it again", ""},
		"etcd's own names": {func(f *Found) {
			three(t, f, map[string]string{})
			for i := range f.Hosts {
				file := manifestDir + "etcd.yaml"
				f.Hosts[i].Files[file] = bytes.Replace(f.Hosts[i].Files[file], []byte("--name="+f.Hosts[i].Name), fmt.Appendf(nil, "--name=etcd%d", i+1), 1)
			}
		}, "its etcd member is called etcd1, etcd2, etcd3", "kube-a, kube-b, kube-c", ""},
		"labels of many": {func(f *Found) {
			f.Survey.Nodes[2].Taints = nil
			for i := range f.Survey.Nodes {
				f.Survey.Nodes[i].Labels["example.org/place"] = fmt.Sprint(i)
			}
		}, "", "kube-a, kube-b, kube-c: labels of single nodes [kube-a: example.org/place=0 kube-b: example.org/place=1 kube-c:", ""},
		"no kube-proxy": {func(f *Found) {
			f.Survey.DaemonSets = []string{"kube-system/cilium"}
			delete(f.Survey.Records, "kube-proxy")
		}, "it has no kube-proxy", "kubeProxyReplacement: false", ""},
		"DNS' address taken": {func(f *Found) {
			f.Survey.Services = map[string]string{"10.96.0.10": "default/mine", "10.96.0.3": "kube-system/coredns"}
		}, "the Service default/mine has the address 10.96.0.10", "make it again", ""},
		"DNS as kubeadm's": {func(f *Found) { f.Survey.Services = map[string]string{"10.96.0.10": "kube-system/kube-dns"} }, "", "", ""},
		"no record":        {func(f *Found) { f.Survey.Records = nil }, "there is no kubeadm-config", "create a cluster with naupegos apply", ""},
		"no static pods": {func(f *Found) {
			for _, c := range components() {
				delete(f.Hosts[0].Files, manifestDir+c+".yaml")
			}
		}, "no API server lies on any host as a static pod", "as static pods in /etc/kubernetes/manifests", ""},
		"even": {func(f *Found) {
			second(f)
			f.Survey.Nodes[1].Taints = f.Survey.Nodes[0].Taints
			conf(f, "clusterName:", "controlPlaneEndpoint: k8s.example.org:6443\nclusterName:")
		}, "are even", "add a control-plane machine with kubeadm join", ""},
		"several without endpoint": {func(f *Found) {
			three(t, f, map[string]string{})
			conf(f, "controlPlaneEndpoint: k8s.example.org:6443\n", "")
		}, "it has 3 API servers, and kubeadm-config names no address for all of them", "a load balancer, kube-vip", ""},
		"several with local ones": {func(f *Found) {
			three(t, f, map[string]string{})
			conf(f, "controlPlaneEndpoint: k8s.example.org:6443", "controlPlaneEndpoint: localhost:8443")
		}, `("localhost:8443")`, "a load balancer, kube-vip", ""},
		"ipvs": {func(f *Found) {
			proxy(f, "mode: iptables", "mode: ipvs")
			proxy(f, "  strictARP: false", "  strictARP: true")
			proxy(f, `  scheduler: ""`, "  scheduler: rr")
		}, "", `ipvs={"scheduler":"rr","strictARP":true} goes`, ""},
		"nftables":      {func(f *Found) { proxy(f, "mode: iptables", "mode: nftables") }, "", "", ""},
		"proxy metrics": {func(f *Found) { proxy(f, `metricsBindAddress: ""`, "metricsBindAddress: 0.0.0.0:10249") }, "", "", "metricsBindAddress: 0.0.0.0:10249"},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, bare(t)) })
	}
}

// without takes a flag of a component away.
func without(f *Found, component, name string) {
	var out []string
	file := manifestDir + component + ".yaml"
	for line := range strings.Lines(string(f.Hosts[0].Files[file])) {
		if !strings.Contains(line, "- --"+name+"=") {
			out = append(out, line)
		}
	}
	f.Hosts[0].Files[file] = []byte(strings.Join(out, ""))
}

// replaced changes a component's manifest.
func replaced(component, old, replacement string) func(*Found) {
	return func(f *Found) {
		file := manifestDir + component + ".yaml"
		f.Hosts[0].Files[file] = bytes.Replace(f.Hosts[0].Files[file], []byte(old), []byte(replacement), 1)
	}
}

// TestOwnedKeys: taints and labels that programs set temporarily are not the owner's.
func TestOwnedKeys(t *testing.T) {
	f := bare(t)
	f.Survey.Nodes[1].Taints = []kube.Taint{
		{Key: "node.cilium.io/agent-not-ready", Effect: "NoExecute"}, {Key: "ToBeDeletedByClusterAutoscaler", Value: "1700000000", Effect: "NoSchedule"},
		{Key: "karpenter.sh/disrupted", Effect: "NoSchedule"}, {Key: "ebs.csi.aws.com/agent-not-ready", Effect: "NoExecute"},
		{Key: "node.kubernetes.io/out-of-service", Value: "nodeshutdown", Effect: "NoExecute"}, {Key: "example.org/out-of-service", Effect: "NoExecute"},
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: "NoSchedule"}, {Key: "nvidia.com/gpu-driver-upgrade", Effect: "NoSchedule"},
	}
	f.Survey.Nodes[1].Labels["nvidia.com/gpu.present"], f.Survey.Nodes[1].Labels["example.org/rack"] = "true", "8"
	d := testkit.Value(New(options(), f))(t)
	doc := string(d.Document)
	for _, gone := range []string{"cilium", "Autoscaler", "karpenter", "csi.aws", "out-of-service", "nvidia", "cloudprovider"} {
		if strings.Contains(doc, gone) {
			t.Errorf("the document has %s:\n%s", gone, doc)
		}
	}
	if !strings.Contains(doc, "example.org/rack") || !strings.Contains(doc, "key: gpu") {
		t.Errorf("the owner's own are missing:\n%s", doc)
	}
	var said strings.Builder
	for _, g := range d.Of(Stays) {
		said.WriteString(g.What + "\n")
	}
	for _, owner := range []string{"Cilium puts", "cluster-autoscaler puts", "Karpenter puts", "NVIDIA's GPU operator puts"} {
		if !strings.Contains(said.String(), owner) {
			t.Errorf("%q is not said:\n%s", owner, said.String())
		}
	}
}

// TestMachineOwners: programs that make machines and delete them are named once each, whether labels or only annotations show them.
func TestMachineOwners(t *testing.T) {
	f := bare(t)
	for i := range f.Survey.Nodes { // as Cluster API does: it puts no label of its own on nodes
		f.Survey.Nodes[i].Annotations = map[string]string{
			"cluster.x-k8s.io/cluster-name": "prod", "cluster.x-k8s.io/machine": "prod-abc", "cluster.x-k8s.io/owner-kind": "KubeadmControlPlane", "node.alpha.kubernetes.io/ttl": "0",
		}
	}
	f.Survey.Nodes[1].Labels["karpenter.sh/nodepool"] = "default"
	f.Survey.Nodes[1].Annotations["karpenter.sh/nodepool-hash"] = "1"
	f.Survey.Nodes[1].Annotations["cilium.io/ipv4"] = "10.0.0.1" // which deletes no machine
	var said []string
	for _, g := range testkit.Value(New(options(), f))(t).Of(Stays) {
		if strings.Contains(g.Do, "which could delete or replace it") {
			said = append(said, g.Where+": "+g.What)
		}
	}
	want := []string{
		"kube-a, kube-b, kube-c: Cluster API makes and deletes the machine, by the node's annotations cluster.x-k8s.io/cluster-name, cluster.x-k8s.io/machine, cluster.x-k8s.io/owner-kind",
		"kube-b: labels and taints that Karpenter puts on the node: karpenter.sh/nodepool",
	}
	if slices.Sort(said); !slices.Equal(said, want) {
		t.Errorf("said is %q", said)
	}
}

// TestWishes: the document has the owner's labels and taints, even if a vendor's program uses the same domain.
func TestWishes(t *testing.T) {
	f := bare(t)
	for _, key := range []string{"nvidia.com/gpu", "dedicated", "example.org/gpu", "amd.com/gpu"} {
		f.Survey.Nodes[1].Taints = append(f.Survey.Nodes[1].Taints, kube.Taint{Key: key, Value: "x", Effect: "NoSchedule"})
	}
	f.Survey.Nodes[1].Labels["team"] = "a"
	doc := string(testkit.Value(New(options(), f))(t).Document)
	for _, key := range []string{"nvidia.com/gpu", "dedicated", "example.org/gpu", "amd.com/gpu", "team: a"} {
		if !strings.Contains(doc, key) {
			t.Errorf("the document lacks %s:\n%s", key, doc)
		}
	}
}

// TestAuthorities adopts authorities in the forms that occur in practice: chains, roll-overs, several forms of keys.
func TestAuthorities(t *testing.T) {
	const self = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=kubernetes -days 3650 "
	for name, c := range map[string]struct{ script, blocks string }{
		"EC with parameters": {"openssl ecparam -genkey -name prime256v1 -out ca.key; openssl req -x509 -new -key ca.key -subj /CN=kubernetes -days 3650 -out ca.crt", ""},
		"PKCS8":              {"openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out ca.key; openssl req -x509 -new -key ca.key -subj /CN=kubernetes -days 3650 -out ca.crt", ""},
		"old and new":        {self + "-keyout ca.key -out new.crt; " + self + "-keyout old.key -out old.crt; cat old.crt new.crt > ca.crt", ""},
		"new and old":        {self + "-keyout ca.key -out new.crt; " + self + "-keyout old.key -out old.crt; cat new.crt old.crt > ca.crt", ""},
		"key of another":     {self + "-keyout a.key -out ca.crt; openssl genrsa -out ca.key 2048", "its key is not that of its certificate"},
		"text before":        {self + "-keyout ca.key -out c.crt; openssl x509 -in c.crt -text -out ca.crt", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command("sh", "-ec", c.script)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("%s: %s", err, out)
			}
			f := bare(t)
			for i := range f.Hosts {
				f.Hosts[i].Files[pkiDir+"ca.crt"] = file(t, dir, "ca.crt")
			}
			f.Hosts[0].Files[pkiDir+"ca.key"] = file(t, dir, "ca.key")
			blocks := testkit.Value(New(options(), f))(t).Of(Blocks)
			if c.blocks == "" && len(blocks) > 0 || c.blocks != "" && (len(blocks) != 1 || !strings.Contains(blocks[0].What, c.blocks)) {
				t.Errorf("blocks: %+v, want %q", blocks, c.blocks)
			}
		})
	}
}

func file(t *testing.T, dir, name string) []byte {
	t.Helper()
	return testkit.Value(os.ReadFile(filepath.Join(dir, name)))(t)
}
