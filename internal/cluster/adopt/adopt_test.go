package adopt

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

const hostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs5yh3xvjLZdyRSmj2UOqGqQJ8gRlqDBFDM3lGj9bNv"

func options() Options {
	return Options{Name: "demo", ID: "demo-1", KeyFile: "/home/me/key", User: "debian", Port: 22}
}

// written reads a file that kubeadm 1.37 wrote: its phases ran with the name kube-a, the address 192.0.2.11 and a pod network.
func written(t *testing.T, name string) []byte {
	t.Helper()
	return testkit.Value(os.ReadFile(filepath.Join("testdata", "bare", name)))(t)
}

// bare returns a cluster made by kubeadm: one control-plane machine and two workers; one worker has a taint and a label.
func bare(t *testing.T) *Found {
	t.Helper()
	facts := map[string]string{"hostname": "kube-a", "systemd": "yes", "dpkg": "yes", "cgroup": "cgroup2fs", "container": "", "kubelet": "7", "containerd": "8", "runtime": "/usr/bin/containerd"}
	node := func(name, address string) (kube.SurveyedNode, Host) {
		n := kube.SurveyedNode{OS: "linux", Architecture: architecture, Image: "Debian GNU/Linux 12 (bookworm)", Runtime: "containerd://1.7.24"}
		n.Name, n.Version, n.Addresses, n.Ready = name, "v1.37.2", []string{address}, true
		n.Labels = map[string]string{"kubernetes.io/hostname": name}
		h := Host{Name: name, Address: address, Keys: []string{hostKey}, Facts: facts, Files: map[string][]byte{kubeletConfig: written(t, "kubelet.yaml")}}
		h.Files[kubeletFlags] = bytes.ReplaceAll(written(t, "kubeadm-flags.env"), []byte("kube-a"), []byte(name))
		return n, h
	}
	f := &Found{Survey: &kube.Survey{
		Records: map[string]map[string]string{
			"kubeadm-config": {"ClusterConfiguration": string(written(t, "kubeadm-config.yaml"))},
			"kube-proxy":     {"config.conf": string(written(t, "kube-proxy.yaml"))},
		},
		DaemonSets: []string{"kube-flannel/kube-flannel-ds", "kube-system/kube-proxy"},
	}}
	for name, address := range map[string]string{"kube-a": "192.0.2.11", "kube-b": "192.0.2.21", "kube-c": "192.0.2.22"} {
		n, h := node(name, address)
		f.Survey.Nodes, f.Hosts = append(f.Survey.Nodes, n), append(f.Hosts, h)
	}
	slices.SortFunc(f.Survey.Nodes, func(a, b kube.SurveyedNode) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(f.Hosts, func(a, b Host) int { return strings.Compare(a.Name, b.Name) })
	f.Survey.Nodes[0].Taints = []kube.Taint{{Key: controlPlaneRole, Effect: "NoSchedule"}}
	f.Survey.Nodes[2].Taints = []kube.Taint{{Key: "gpu", Value: "yes", Effect: "NoSchedule"}, {Key: "node.kubernetes.io/disk-pressure", Effect: "NoSchedule"}}
	f.Survey.Nodes[2].Labels["example.org/rack"] = "7"
	for _, c := range components() {
		f.Hosts[0].Files[manifestDir+c+".yaml"] = written(t, c+".yaml")
	}
	k := pki.Open(&pkitest.MemorySecrets{}, pki.Options{})
	for name, base := range map[string]string{pki.KubernetesCA: "ca", pki.FrontProxyCA: "front-proxy-ca", pki.EtcdCA: "etcd/ca"} {
		pair := testkit.Value(k.Authority(t.Context(), name))(t)
		f.Hosts[0].Files[pkiDir+base+".crt"], f.Hosts[0].Files[pkiDir+base+".key"] = pair.CertPEM, pair.KeyPEM
		if base == "ca" {
			f.Hosts[1].Files[pkiDir+"ca.crt"], f.Hosts[2].Files[pkiDir+"ca.crt"] = pair.CertPEM, pair.CertPEM
		}
	}
	private, _, err := k.ServiceAccountKey(t.Context())
	testkit.Must(t, err)
	f.Hosts[0].Files[pkiDir+"sa.key"] = private
	return f
}

// TestBareCluster checks the report about a cluster with kubeadm's defaults: nothing is lost, and nothing blocks.
func TestBareCluster(t *testing.T) {
	d := testkit.Value(New(options(), bare(t)))(t)
	var out bytes.Buffer
	testkit.Must(t, d.Write(&out))
	testkit.Golden(t, "bare.golden", out.String())
	if lost, blocks := d.Of(Lost), d.Of(Blocks); len(lost)+len(blocks) > 0 {
		t.Errorf("lost: %+v, blocks: %+v", lost, blocks)
	}
	testkit.Value(d.Cluster())(t)
	want := store.Facts{
		{Kind: string(memory.Importing)}:   "true",
		{Kind: string(memory.EtcdInitial)}: "kube-a=https://192.0.2.11:2380",
		{Kind: string(memory.Releases)}:    "v1.37.2,,v1.37.2,",
		{Kind: string(memory.ReleasesRun)}: "v1.37.2,,v1.37.2,",
	}
	if diff := cmp.Diff(want, testkit.Value(d.Facts(t.Context()))(t)); diff != "" {
		t.Errorf("the facts (-want +got):\n%s", diff)
	}
	if secrets := testkit.Value(d.Secrets())(t); len(secrets) != 4 {
		t.Errorf("%d secrets", len(secrets))
	}
}

// with changes an argument of a component, or adds one.
func with(f *Found, component, name, value string) {
	file := manifestDir + component + ".yaml"
	var out []string
	for line := range strings.Lines(string(f.Hosts[0].Files[file])) {
		if !strings.Contains(line, "- --"+name+"=") && !strings.Contains(line, `- "--`+name+"=") {
			out = append(out, line)
		}
		if strings.TrimSpace(line) == "- "+component {
			arg := "--" + name + "=" + value
			if !strings.Contains(value, "\n") { // else it is several arguments
				arg = strconv.Quote(arg)
			}
			out = append(out, strings.Replace(line, component, arg, 1))
		}
	}
	f.Hosts[0].Files[file] = []byte(strings.Join(out, ""))
}

// TestGaps checks what blocks an adoption, what is lost, and which settings become part of the document.
func TestGaps(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Found)
		kind  Kind
		says  string
	}{
		"mixed releases":    {func(f *Found) { f.Survey.Nodes[1].Version = "v1.36.4" }, Blocks, "several releases"},
		"unsupported minor": {func(f *Found) { everything(f, "v1.31.2") }, Blocks, "no bundle"},
		"unsupported patch": {func(f *Found) { everything(f, "v1.36.1") }, Blocks, "v1.36.1"},
		"external etcd":     {func(f *Found) { conf(f, "local:", "external:\n    endpoints: [x]\n  other:") }, Blocks, "(external)"},
		"cri-o":             {func(f *Found) { f.Survey.Nodes[2].Runtime = "cri-o://1.37.0" }, Blocks, "its container runtime is cri-o"},
		"another system":    {func(f *Found) { f.Hosts[0].Facts = map[string]string{"systemd": "yes"} }, Blocks, "no systemd or no Debian packages"},
		"Windows":           {func(f *Found) { f.Survey.Nodes[1].OS = "windows" }, Blocks, "its operating system is windows"},
		"Windows, not read": {func(f *Found) { f.Survey.Nodes[1].OS, f.Hosts[1] = "windows", Host{Name: f.Hosts[1].Name} }, Blocks, "its operating system is windows"},
		"a virtual node": {func(f *Found) {
			f.Survey.Nodes[1].OS, f.Survey.Nodes[1].Addresses, f.Hosts[1] = "", nil, Host{Name: f.Hosts[1].Name}
		}, Blocks, "its operating system is "},
		"a control plane's taint": {func(f *Found) {
			f.Survey.Nodes[0].Taints = append(f.Survey.Nodes[0].Taints, kube.Taint{Key: "dedicated", Value: "infra", Effect: "NoSchedule"})
		}, Stays, "taints of control-plane nodes: dedicated=infra:NoSchedule"},
		"no kubeadm": {func(f *Found) { f.Survey.Records = nil }, Blocks, "no kubeadm-config"},
		"no pod network": {func(f *Found) {
			conf(f, "podSubnet: 10.244.0.0/16", "podSubnet: \"\"")
			with(f, "kube-controller-manager", "cluster-cidr", "")
			proxy(f, "clusterCIDR: 10.244.0.0/16", `clusterCIDR: ""`)
		}, Blocks, "no pod network"},
		"both families":     {func(f *Found) { with(f, "kube-controller-manager", "cluster-cidr", "10.244.0.0/16,fd00::/48") }, Blocks, "podCIDR"},
		"no kube-proxy":     {func(f *Found) { f.Survey.DaemonSets = []string{"kube-system/cilium"} }, Blocks, "no kube-proxy"},
		"authority's key":   {func(f *Found) { delete(f.Hosts[0].Files, pkiDir+"ca.key") }, Blocks, "ca.key is not there"},
		"damaged authority": {func(f *Found) { f.Hosts[0].Files[pkiDir+"etcd/ca.key"] = []byte("x") }, Blocks, "no private key"},
		"another authority": {func(f *Found) { f.Hosts[1].Files[pkiDir+"ca.crt"] = []byte("x") }, Blocks, "its authority is another one"},
		"another cluster": {func(f *Found) {
			f.Hosts[1].Files["/var/lib/naupegos/agent/state.json"] = []byte(`{"machine":"x","units":{"a":{}}}`)
		}, Blocks, "another cluster that naupegos keeps"},
		"another adoption": {func(f *Found) {
			f.Hosts[1].Files["/var/lib/naupegos/agent/state.json"] = []byte(`{"adopted":"y","units":{"a":{}}}`)
		}, Blocks, "another cluster that naupegos keeps"},
		"issuer":             {func(f *Found) { with(f, "kube-apiserver", "service-account-issuer", "https://example.org") }, Blocks, "issued by https://example.org"},
		"port":               {func(f *Found) { with(f, "kube-apiserver", "secure-port", "8443") }, Blocks, "listens on port 8443"},
		"etcd's directory":   {func(f *Found) { with(f, "etcd", "data-dir", "/data/etcd") }, Blocks, "/data/etcd"},
		"unreadable keys":    {func(f *Found) { with(f, "kube-apiserver", encryptionFlag, "/etc/enc.yaml") }, Blocks, "can't be read"},
		"other encryption":   {func(f *Found) { encrypt(f, "aescbc", "key1") }, Blocks, "encrypt otherwise"},
		"key's name":         {func(f *Found) { encrypt(f, "secretbox", "mine") }, Blocks, `"mine"`},
		"mixed taints":       {func(f *Found) { second(f) }, Blocks, "ordinary pods are let onto some"},
		"two control planes": {func(f *Found) { second(f); f.Survey.Nodes[1].Taints = f.Survey.Nodes[0].Taints }, Blocks, "are even"},
		"users elsewhere":    {func(f *Found) { with(f, "kube-apiserver", "oidc-issuer-url", "https://example.org") }, Lost, "kube-apiserver: settings that no document can hold"},
		"kubelet's flags": {func(f *Found) {
			f.Hosts[1].Files[kubeletFlags] = []byte(`KUBELET_KUBEADM_ARGS="--cloud-provider=external"`)
		}, Lost, "kubelet's flags"},
		"more pods":           {func(f *Found) { f.Hosts[0].Files[manifestDir+"kube-vip.yaml"] = nil }, Stays, "kube-vip"},
		"audit log elsewhere": {func(f *Found) { with(f, "kube-apiserver", "audit-log-path", "/var/log/audit.log") }, Changes, "the audit log moves from /var/log"},
	} {
		t.Run(name, func(t *testing.T) {
			f := bare(t)
			c.spoil(f)
			d := testkit.Value(New(options(), f))(t)
			if !slices.ContainsFunc(d.Of(c.kind), func(g Gap) bool { return strings.Contains(g.What, c.says) }) {
				t.Errorf("nothing of kind %s says %q: %+v", c.kind, c.says, d.Gaps)
			}
			_, err := d.Cluster()
			if c.kind == Blocks {
				testkit.Fails(t, err, fail.Refused, "can't be taken over")
			} else if testkit.Must(t, err); (c.kind == Lost) != (len(d.Lost()) > 0) {
				t.Errorf("lost are %v", d.Lost())
			}
		})
	}
}

// proxy changes kube-proxy's record.
func proxy(f *Found, old, replacement string) {
	r := f.Survey.Records["kube-proxy"]
	r["config.conf"] = strings.Replace(r["config.conf"], old, replacement, 1)
}

// everything runs another release.
func everything(f *Found, version string) {
	for i := range f.Survey.Nodes {
		f.Survey.Nodes[i].Version = version
	}
	for file, data := range f.Hosts[0].Files {
		f.Hosts[0].Files[file] = bytes.ReplaceAll(data, []byte("v1.37.2"), []byte(version))
	}
}

// renamed renames a node in a file. It matches whole words, because kube-apiserver begins with kube-a.
func renamed(data []byte, old, name string) []byte {
	return regexp.MustCompile(`\b`+regexp.QuoteMeta(old)+`\b`).ReplaceAll(data, []byte(name))
}

// second also makes the second host a control-plane machine.
func second(f *Found) {
	for file, data := range f.Hosts[0].Files {
		if strings.HasPrefix(file, "/etc/kubernetes/") {
			f.Hosts[1].Files[file] = renamed(data, "kube-a", "kube-b")
		}
	}
}

// three turns all hosts into control-plane machines, whose etcd was started with these arguments.
func three(t *testing.T, f *Found, etcd map[string]string) {
	t.Helper()
	for i := range f.Hosts {
		h := &f.Hosts[i]
		for file, data := range f.Hosts[0].Files {
			if i > 0 && strings.HasPrefix(file, "/etc/kubernetes/") {
				data = renamed(data, "kube-a", h.Name)
				h.Files[file] = bytes.ReplaceAll(data, []byte("192.0.2.11"), []byte(h.Address))
			}
		}
		f.Survey.Nodes[i].Taints = nil // there are no workers
	}
	for i, h := range f.Hosts { // after all were copied from the first
		file := manifestDir + "etcd.yaml"
		own := "    - --initial-cluster=" + h.Name + "=https://" + h.Address + ":2380\n"
		if !bytes.Contains(h.Files[file], []byte(own)) {
			t.Fatalf("%s is not\n%s", own, h.Files[file])
		}
		f.Hosts[i].Files[file] = bytes.Replace(h.Files[file], []byte(own), []byte(etcd[h.Name]), 1)
	}
	r := f.Survey.Records["kubeadm-config"]
	r["ClusterConfiguration"] = strings.Replace(r["ClusterConfiguration"], "clusterName:", "controlPlaneEndpoint: k8s.example.org:6443\nclusterName:", 1)
}

// TestSeveralControlPlanes: each member of etcd is recognised, in whatever form its manifest lists the members.
func TestSeveralControlPlanes(t *testing.T) {
	const a, b, c = "kube-a=https://192.0.2.11:2380", "kube-b=https://192.0.2.21:2380", "kube-c=https://192.0.2.22:2380"
	arg := func(cluster string, state ...string) string {
		text := "    - --initial-cluster=" + cluster + "\n"
		for _, s := range state {
			text += "    - --initial-cluster-state=" + s + "\n"
		}
		return text
	}
	const joinB, joinC = a + "," + b, a + "," + b + "," + c
	for name, of := range map[string]struct {
		etcd    map[string]string
		initial string
		joined  map[string]string
	}{
		"kubeadm join":          {map[string]string{"kube-a": arg(a), "kube-b": arg(joinB, existing), "kube-c": arg(joinC, existing)}, a, map[string]string{"kube-b": joinB, "kube-c": joinC}},
		"kubeadm upgrade":       {map[string]string{"kube-a": arg(a), "kube-b": arg(b), "kube-c": arg(c)}, a, map[string]string{"kube-b": b, "kube-c": c}},
		"upgraded, then joined": {map[string]string{"kube-a": arg(a), "kube-b": arg(b), "kube-c": arg(joinC, existing)}, a, map[string]string{"kube-b": b, "kube-c": joinC}},
		"all at once":           {map[string]string{"kube-a": arg(joinC, "new"), "kube-b": arg(joinC, "new"), "kube-c": arg(joinC)}, joinC, nil},
		"the first one was replaced": {map[string]string{"kube-a": arg(joinC, existing), "kube-b": arg(joinB, existing), "kube-c": arg(joinC, existing)}, joinC,
			map[string]string{"kube-a": joinC, "kube-b": joinB, "kube-c": joinC}},
	} {
		t.Run(name, func(t *testing.T) {
			f := bare(t)
			three(t, f, of.etcd)
			d := testkit.Value(New(options(), f))(t)
			doc := testkit.Value(d.Cluster())(t)
			if doc.Spec.ControlPlane.Replicas != 3 || doc.Spec.Endpoint.Address != "k8s.example.org:6443" {
				t.Errorf("the document is %s", d.Document)
			}
			facts := testkit.Value(d.Facts(t.Context()))(t)
			if got := facts[store.Fact{Kind: string(memory.EtcdInitial)}]; got != of.initial {
				t.Errorf("the initial members are %s, want %s", got, of.initial)
			}
			for _, h := range f.Hosts {
				if got := facts[store.Fact{Kind: string(memory.EtcdJoin), Subject: h.Name}]; got != of.joined[h.Name] {
					t.Errorf("%s joined %q, want %q", h.Name, got, of.joined[h.Name])
				}
			}
			if lost := d.Lost(); len(lost) > 0 {
				t.Errorf("lost are %v", lost)
			}
		})
	}
}

// TestOtherAuthorityThere: control-plane machines with different keys are refused.
func TestOtherAuthorityThere(t *testing.T) {
	for _, file := range []string{"ca.key", "etcd/ca.crt", "sa.key"} {
		f := bare(t)
		three(t, f, map[string]string{})
		f.Hosts[2].Files[pkiDir+file] = []byte("x")
		d := testkit.Value(New(options(), f))(t)
		if !slices.ContainsFunc(d.Of(Blocks), func(g Gap) bool {
			return g.Where == "kube-c" && strings.Contains(g.What, file+" is another one than that of kube-a")
		}) {
			t.Errorf("%s: %+v", file, d.Gaps)
		}
	}
}

// encrypt has the API server encrypt Secrets.
func encrypt(f *Found, provider, key string) {
	with(f, "kube-apiserver", encryptionFlag, "/etc/enc.yaml")
	f.Hosts[0].Files["/etc/enc.yaml"] = []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n  - resources: [secrets]\n    providers:\n      - " +
		provider + ":\n          keys:\n            - name: " + key + "\n              secret: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n      - identity: {}\n")
}

// TestDescribed: the document contains every setting that it can express.
func TestDescribed(t *testing.T) {
	f := bare(t)
	encrypt(f, "secretbox", "key3")
	with(f, "kube-apiserver", "audit-log-path", "/var/log/kubernetes/audit/audit.log")
	with(f, "kube-apiserver", "audit-log-maxage", "9")
	r := f.Survey.Records["kubeadm-config"]
	r["ClusterConfiguration"] = strings.Replace(r["ClusterConfiguration"], "clusterName:", "controlPlaneEndpoint: k8s.example.org:8443\nclusterName:", 1)
	second(f)
	f.Survey.Nodes[0].Taints = nil
	with(f, "etcd", "initial-cluster-state", "existing")
	f.Survey.Nodes, f.Hosts = f.Survey.Nodes[:1], f.Hosts[:1]
	d := testkit.Value(New(options(), f))(t)
	doc := testkit.Value(d.Cluster())(t)
	if a := doc.Spec.Security.AuditLog; !*a.Enabled || a.MaxAgeDays != 9 || !*doc.Spec.Security.EncryptionAtRest {
		t.Errorf("security is %+v", doc.Spec.Security)
	}
	if doc.Spec.Endpoint.Address != "k8s.example.org:8443" || !doc.Spec.ControlPlane.Schedulable {
		t.Errorf("the document is %s", d.Document)
	}
	facts := testkit.Value(d.Facts(t.Context()))(t)
	if facts[store.Fact{Kind: string(memory.Encryption)}] != "key3,identity" || facts[store.Fact{Kind: string(memory.EtcdJoin), Subject: "kube-a"}] == "" {
		t.Errorf("the facts are %v", facts)
	}
	if secrets := testkit.Value(d.Secrets())(t); len(secrets["encryption-at-rest/key3"]) != 32 {
		t.Error("the encryption key is not taken over")
	}
	if text := string(d.Document) + strings.Join(d.Lost(), ""); strings.Contains(text, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=") {
		t.Error("a key is shown")
	}
}

// TestChanged: only what runs is compared.
func TestChanged(t *testing.T) {
	if words := bare(t).Changed(bare(t)); words != "" {
		t.Error(words)
	}
	f, now := bare(t), bare(t)
	now.Hosts[1].Facts = map[string]string{"kubelet": "9", "containerd": "8"}
	now.Hosts[2].Files[kubeletConfig] = nil
	if words := f.Changed(now); !strings.Contains(words, "on kube-b, kube-c") {
		t.Error(words)
	}
	now.Hosts = now.Hosts[:2]
	if f.Changed(now) == "" {
		t.Error("a node went, and nothing is said")
	}
}
