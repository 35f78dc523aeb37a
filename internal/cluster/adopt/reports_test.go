package adopt

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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

// TestReports: clusters of real users. Each that can't be taken over is told one thing to do about one cause; of the others nothing that runs is
// misunderstood. A part of want is the beginning of a gap's kind and words; "=" in front wants no other gap of that kind.
func TestReports(t *testing.T) {
	add := func(i int, file string, data []byte) func(*Found) {
		return func(f *Found) { f.Hosts[i].Files[manifestDir+file] = data }
	}
	issuer := func(v string) func(*Found) {
		return func(f *Found) { with(f, "kube-apiserver", "service-account-issuer", v) }
	}
	edit := func(old, replacement string) func(*Found) { return func(f *Found) { conf(f, old, replacement) } }
	for name, c := range map[string]struct {
		spoil  func(*Found)
		blocks string // part of the only block; empty: it can be taken over
		says   string // parts of any gap
		doc    string // part of the document
	}{
		"FQDN node names":     {func(f *Found) { rename(f, 1, "worker1.example.org") }, "", "", "name: worker1.example.org"},
		"FQDN control plane":  {func(f *Found) { rename(f, 0, "cp1.example.org") }, "", "", "name: cp1.example.org"},
		"another issuer":      {issuer("https://oidc.example.org"), "tokens are issued by https://oidc.example.org", "set --service-account-issuer", ""},
		"short issuer":        {issuer("https://kubernetes.default.svc"), "tokens are issued by https://kubernetes.default.svc:", "set --service-account-issuer", ""},
		"tabs":                {edit("proxy: {}", "proxy:\n\t- x"), "kubeadm-config can't be read", "tabs are no indentation", ""},
		"quoted numbers":      {edit("clusterName: kubernetes", "clusterName: 12"), "", "", ""},
		"no networking":       {edit("  dnsDomain: cluster.local\n  podSubnet: 10.244.0.0/16\n  serviceSubnet: 10.96.0.0/12\n", "  {}\n"), "", "", "serviceCIDR: 10.96.0.0/12"},
		"no serviceSubnet":    {edit("  serviceSubnet: 10.96.0.0/12\n", ""), "", "", "serviceCIDR: 10.96.0.0/12"},
		"no dnsDomain":        {edit("  dnsDomain: cluster.local\n", ""), "", "", ""},
		"another record":      {edit("podSubnet: 10.244.0.0/16", "podSubnet: 10.99.0.0/16"), "", "kubeadm-config says podSubnet 10.99.0.0/16, but servers run with 10.244.0.0/16", "podCIDR: 10.244.0.0/16"},
		"host bits, recorded": {edit("podSubnet: 10.244.0.0/16", "podSubnet: 10.244.0.1/16"), "", "", "podCIDR: 10.244.0.0/16"},
		"host bits, running":  {func(f *Found) { with(f, "kube-controller-manager", "cluster-cidr", "10.244.0.1/16") }, "", "", "podCIDR: 10.244.0.0/16"},
		"small pod network":   {func(f *Found) { with(f, "kube-controller-manager", "cluster-cidr", "10.244.0.0/25") }, "podCIDR", "must be one IPv4 network", ""},
		"dual-stack":          {func(f *Found) { with(f, "kube-apiserver", "service-cluster-ip-range", "10.96.0.0/16,fd00:10:96::/112") }, "serviceCIDR", "must be one IPv4 network", ""},
		"certificates linked": {edit("certificatesDir: /etc/kubernetes/pki", "certificatesDir: /etc/kubernetes/ssl"), "", "", ""},
		"certificates elsewhere": {func(f *Found) {
			conf(f, "certificatesDir: /etc/kubernetes/pki", "certificatesDir: /etc/kubernetes/ssl")
			for p := range f.Hosts[0].Files {
				if strings.HasPrefix(p, pkiDir) {
					delete(f.Hosts[0].Files, p)
				}
			}
		}, "its certificates lie in /etc/kubernetes/ssl", "move them to /etc/kubernetes/pki", ""},
		"backup": {func(f *Found) {
			add(0, "kube-apiserver.yaml.bak", f.Hosts[0].Files[manifestDir+"kube-apiserver.yaml"])(f)
		}, "two manifests make the pod kube-apiserver, kube-apiserver.yaml and kube-apiserver.yaml.bak", "move kube-apiserver.yaml.bak out of /etc/kubernetes/manifests", ""},
		"backup, other name": {func(f *Found) { add(0, "old", f.Hosts[0].Files[manifestDir+"etcd.yaml"])(f) }, "two manifests make the pod etcd, etcd.yaml and old", "", ""},
		"hidden backup": {func(f *Found) {
			add(0, ".kube-apiserver.yaml.swp", f.Hosts[0].Files[manifestDir+"kube-apiserver.yaml"])(f)
		}, "", "", ""},
		"junk": {add(0, "kube-apiserver.yaml.bak", []byte("x")), "", "no pods: kube-apiserver.yaml.bak", ""},
		"another file name": {func(f *Found) {
			add(0, "scheduler.yaml", f.Hosts[0].Files[manifestDir+"kube-scheduler.yaml"])(f)
			delete(f.Hosts[0].Files, manifestDir+"kube-scheduler.yaml")
		}, "the manifest of kube-scheduler is called scheduler.yaml", "rename it to kube-scheduler.yaml", ""},
		"two pods that are not ours": {func(f *Found) {
			add(1, "a.yaml", manifest("node-cache"))(f)
			add(1, "b.yaml", manifest("node-cache"))(f)
		}, "two manifests make the pod node-cache", "move b.yaml out of", ""},
		"kube-vip":            {add(0, "kube-vip.yaml", manifest("kube-vip")), "", "kubeadm has not made: kube-vip", ""},
		"pod named otherwise": {add(0, "x.yaml", manifest("node-cache")), "", "kubeadm has not made: node-cache", ""},
		"second container, first": {func(f *Found) {
			file := manifestDir + "kube-apiserver.yaml"
			f.Hosts[0].Files[file] = bytes.Replace(f.Hosts[0].Files[file], []byte("  containers:\n"), []byte("  containers:\n  - name: kms\n    image: kms:v1\n"), 1)
		}, "", "kube-apiserver: containers beside it in its pod: kms", ""},
		"capitals":       {edit("clusterName:", "controlPlaneEndpoint: K8S.Example.ORG:6443\nclusterName:"), "", "", "address: k8s.example.org:6443"},
		"IPv6 endpoint":  {edit("clusterName:", "controlPlaneEndpoint: \"[fd00::1]:6443\"\nclusterName:"), "endpoint.address", "IPv4 address or a name", ""},
		"local endpoint": {edit("clusterName:", "controlPlaneEndpoint: 127.0.0.1:6443\nclusterName:"), "endpoint.address", "IPv4 address or a name that all machines reach", ""},
		"image digest": {func(f *Found) {
			f.Hosts[0].Files[manifestDir+"kube-scheduler.yaml"] = bytes.Replace(f.Hosts[0].Files[manifestDir+"kube-scheduler.yaml"], []byte("kube-scheduler:v1.37.2"), []byte("kube-scheduler:v1.37.2@sha256:"+strings.Repeat("a", 64)), 1)
		}, "", "", ""},
		"vendor version":   {func(f *Found) { f.Survey.Nodes[1].Version = "v1.37.2+k3s1" }, "several releases", "", ""},
		"IPv6 node":        {func(f *Found) { f.Survey.Nodes[1].Addresses = []string{"fd00::21"}; f.Hosts[1].Address = "fd00::21" }, "IPv6", "machines need IPv4 addresses", ""},
		"arm64":            {func(f *Found) { f.Survey.Nodes[2].Architecture = "arm64" }, "its processor is arm64", "", ""},
		"etcd elsewhere":   {func(f *Found) { with(f, "etcd", "data-dir", "/data/etcd") }, "etcd's data lies in /data/etcd", "", ""},
		"OIDC":             {func(f *Found) { with(f, "kube-apiserver", "oidc-issuer-url", "https://sso.example.org") }, "", "", ""},
		"capital in names": {func(f *Found) { rename(f, 1, "Worker1") }, "name", "join the machine again under a name", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := bare(t)
			c.spoil(f)
			d := testkit.Value(New(options(), f))(t)
			blocks := d.Of(Blocks)
			if c.blocks == "" && len(blocks) > 0 || c.blocks != "" && (len(blocks) != 1 || !strings.Contains(blocks[0].What, c.blocks)) {
				t.Errorf("blocks: %+v, want %q", blocks, c.blocks)
			}
			var all []string
			for _, g := range d.Gaps {
				all = append(all, g.What+" ["+g.Do+"]")
				if g.Kind == Blocks && g.Do == "" {
					t.Errorf("nothing to do about: %s", g.What)
				}
			}
			if text := strings.Join(all, "\n"); !strings.Contains(text, c.says) {
				t.Errorf("%q is not said:\n%s", c.says, text)
			}
			if !strings.Contains(string(d.Document), c.doc) {
				t.Errorf("the document lacks %q:\n%s", c.doc, d.Document)
			}
		})
	}
}

// TestOwnedKeys: what programs put on nodes for a while is no wish of the owner's.
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

// TestAuthorities takes over authorities as people keep them: chains, roll-overs, several forms of keys.
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
