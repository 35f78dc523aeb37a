//go:build e2e

package e2e_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
)

// kubeadmInit is a user's kubeadm configuration, following the documentation: RSA keys, kube-proxy's default mode.
const kubeadmInit = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: {{.Address}}, bindPort: 6443}
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  ignorePreflightErrors: [SystemVerification]
{{with .Node}}  name: {{.}}
{{end}}---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: {{.Version}}
{{with .Endpoint}}controlPlaneEndpoint: {{.}}
{{end}}imageRepository: {{.Repository}}
networking: {podSubnet: 10.244.0.0/16}
dns: {imageTag: {{.CoreDNS}}}
etcd: {local: {imageTag: {{.Etcd}}}}
{{.Cluster}}---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: {{.CgroupDriver}}
failCgroupV1: false
failSwapOn: false
evictionHard: {memory.available: 100Mi, nodefs.available: 1Gi, imagefs.available: 1Gi, nodefs.inodesFree: 1%, imagefs.inodesFree: 1%}
imageGCHighThresholdPercent: 100
{{.Kubelet}}---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack: {maxPerCore: 0, min: null, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

// somebodys is a cluster made with plain kubeadm on machines of a fleet, with a bundle's programs.
type somebodys struct {
	*fleet
	b      *bundle.Bundle
	dialer *remote.Dialer // dialer that installs an agent
	params layout.Params
	like   like
}

// like describes an installer's additions to kubeadm.
type like struct {
	cluster string                             // more lines of ClusterConfiguration
	kubelet string                             // more lines of KubeletConfiguration
	node    func(machine string) string        // returns the name of a machine's node; nil: the machine's own
	before  func(c *somebodys, machine string) // runs on each machine before kubeadm; nil: nothing
	after   func(c *somebodys, machine string) // runs on each machine after it joined; nil: nothing
	images  string                             // role of the images on workers; empty: worker
}

// node returns the name of a machine's node.
func (c *somebodys) node(machine string) string {
	if c.like.node == nil {
		return machine
	}
	return c.like.node(machine)
}

// bareKubeadm makes a cluster of control-plane machines and workers. The first control-plane machine serves the API's address.
func bareKubeadm(t *testing.T, f *fleet, b *bundle.Bundle, cps []string, workers ...string) *somebodys {
	t.Helper()
	return installed(t, f, b, like{}, cps, workers...)
}

// installed makes a cluster as an installer based on kubeadm does.
func installed(t *testing.T, f *fleet, b *bundle.Bundle, l like, cps []string, workers ...string) *somebodys {
	t.Helper()
	cp := cps[0]
	signer := testkit.Value(remote.ParseKey(f.key))(t)
	c := &somebodys{fleet: f, b: b, like: l, dialer: remote.NewDialer([]remote.Key{signer}, remote.Options{AgentPath: filepath.Join(filepath.Dir(built.bin), "naupegos-agent")})}
	t.Cleanup(func() { testkit.Must(t, c.dialer.Close()) })
	c.params = layout.Params{
		ClusterName: "kubernetes", Endpoint: net.JoinHostPort(f.machine[cp].Address, "6443"), Release: layout.Release{Version: b.Manifest.Kubernetes, Bundle: b.Manifest},
		PodCIDR: "10.244.0.0/16", ServiceCIDR: "10.96.0.0/12", DNSDomain: "cluster.local", EtcdMode: layout.EtcdStacked, CNI: layout.CNINone, SharedKernel: true,
		ControlPlanes: []layout.Node{{Name: cp, Address: f.machine[cp].Address}},
	}
	facts := c.prepare(t, "control-plane", cps...)
	c.prepare(t, cmp.Or(l.images, "worker"), workers...)
	if l.before != nil {
		for _, m := range slices.Concat(cps, workers) {
			l.before(c, m)
		}
	}

	driver := "systemd"
	if facts.CgroupVersion != 2 {
		driver = "cgroupfs"
	}
	tag := func(image string) string {
		i := testkit.Value(b.Image(image))(t)
		return i.Ref[strings.LastIndex(i.Ref, ":")+1:]
	}
	endpoint := "" // kubeadm requires one before others can join the control plane
	if len(cps) > 1 {
		endpoint = c.params.Endpoint
	}
	node := ""
	if l.node != nil {
		node = l.node(cp)
	}
	var conf bytes.Buffer
	testkit.Must(t, template.Must(template.New("kubeadm").Parse(kubeadmInit)).Execute(&conf, map[string]string{
		"Address": f.machine[cp].Address, "Node": node, "Version": b.Manifest.Kubernetes, "Repository": b.Manifest.Repository, "CoreDNS": tag("coredns"), "Etcd": tag("etcd"),
		"CgroupDriver": driver, "Endpoint": endpoint, "Cluster": l.cluster, "Kubelet": l.kubelet,
	}))
	c.put(t, cp, "/root/kubeadm.yaml", conf.Bytes())
	if out, err := f.try(cp, "kubeadm init --config /root/kubeadm.yaml 2>&1"); err != nil {
		t.Fatalf("kubeadm init: %v\n%s", err, out)
	}
	p := c.params
	p.CNI = layout.CNIFlannel
	c.put(t, cp, "/root/flannel.yaml", testkit.Value(p.Flannel())(t))
	f.run(cp, askAdmin+"apply -f /root/flannel.yaml")
	if l.after != nil {
		l.after(c, cp)
	}
	if len(cps) > 1 {
		said := strings.Fields(f.run(cp, "kubeadm init phase upload-certs --upload-certs --config /root/kubeadm.yaml 2>/dev/null"))
		if len(said) == 0 {
			t.Fatal("kubeadm does not print the key of the uploaded certificates")
		}
		for _, other := range cps[1:] {
			c.joinNode(t, cp, other, "--certificate-key", said[len(said)-1]) // makes the machine join the control plane
		}
	}
	for _, w := range workers {
		c.joinNode(t, cp, w)
	}
	f.run(cp, askAdmin+"-n kube-system rollout status deployment/coredns --timeout=180s")
	return c
}

// prepare installs the contents of a distribution's packages on machines, and leaves no trace of naupegos.
func (c *somebodys) prepare(t *testing.T, role string, names ...string) (facts machine.Facts) {
	t.Helper()
	for _, name := range names {
		h := c.host(name)
		_, err := c.dialer.Apply(t.Context(), h, func(f machine.Facts) (machine.Config, error) {
			facts = f
			cfg, err := c.params.Runtime(layout.Node{Name: name, Address: h.Address, Facts: facts}, role)
			cfg.Machine = name
			return cfg, err
		}, remote.ApplyOptions{Blob: func(digest string) (io.ReadCloser, int64, error) {
			file, err := os.Open(c.b.Path(digest))
			if err != nil {
				return nil, 0, err
			}
			info, err := file.Stat()
			return file, info.Size(), err
		}})
		testkit.Must(t, err)
		testkit.Value(c.dialer.Agent(t.Context(), h, nil, "release"))(t)
		if left := c.run(name, ofNaupegos); left != "" {
			t.Fatalf("traces of naupegos are left on %s:\n%s", name, left)
		}
	}
	return facts
}

func (c *somebodys) put(t *testing.T, name, path string, data []byte) {
	t.Helper()
	testkit.Value(c.dialer.Run(t.Context(), c.host(name), bytes.NewReader(data), "dd", "status=none", "of="+path))(t)
}

// joinNode joins a machine as the installer does.
func (c *somebodys) joinNode(t *testing.T, cp, machine string, options ...string) {
	t.Helper()
	c.joinAs(t, cp, machine, c.node(machine), options...)
	if c.like.after != nil {
		c.like.after(c, machine)
	}
}

// join joins a machine with kubeadm, by a token and with options, and waits until its node is ready.
func (f *fleet) join(t *testing.T, cp, name string, options ...string) {
	t.Helper()
	f.joinAs(t, cp, name, name, options...)
}

// joinAs joins a machine with this node name.
func (f *fleet) joinAs(t *testing.T, cp, machine, node string, options ...string) {
	t.Helper()
	join := strings.TrimSpace(f.run(cp, "kubeadm token create --print-join-command "+strings.Join(options, " ")+" 2>/dev/null"))
	if out, err := f.try(machine, join+" --node-name "+node+" --ignore-preflight-errors=SystemVerification 2>&1"); err != nil {
		t.Fatalf("kubeadm join: %v\n%s", err, out)
	}
	f.ready(t, cp, node)
}

// ready waits until a node is ready.
func (f *fleet) ready(t *testing.T, cp, node string) {
	t.Helper()
	until(t, 2*time.Minute, 500*time.Millisecond, func() error {
		ready, err := f.try(cp, askAdmin+`get node `+node+` -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' 2>&1`)
		if err != nil || ready != "True" {
			return fmt.Errorf("node %s: Ready is %q", node, ready)
		}
		return nil
	})
}
