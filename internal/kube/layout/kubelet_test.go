package layout

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestFirstCertificateOfAKubelet: the certificate is valid for hours, and the kubelet renews it within two, whichever moment of 70 to 90 % of its
// lifetime it chooses. No two are equal, and none is cached.
func TestFirstCertificateOfAKubelet(t *testing.T) {
	p, k := testParams(), testPKI(t, testTime)
	first := func() []byte {
		c, err := p.Worker(t.Context(), k, testWorker(p))
		testkit.Must(t, err)
		return content(t, c, kubeletFirstCertPath)
	}
	data := first()
	block, _ := pem.Decode(data)
	cert := testkit.Value(x509.ParseCertificate(block.Bytes))(t)
	life := cert.NotAfter.Sub(cert.NotBefore)
	earliest, latest := cert.NotBefore.Add(life*7/10).Sub(testTime), cert.NotBefore.Add(life*9/10).Sub(testTime)
	if left := cert.NotAfter.Sub(testTime); left > 3*time.Hour || earliest < 0 || latest > 2*time.Hour+5*time.Minute {
		t.Errorf("it is valid for %v, and renewed after %v to %v", left, earliest, latest)
	}
	if bytes.Equal(data, first()) {
		t.Error("it is the same in the next configuration")
	}
	for _, c := range testkit.Value(k.List(t.Context()))(t) {
		if strings.HasPrefix(c.Subject, "CN=system:node:") {
			t.Errorf("%s is remembered", c.Name)
		}
	}
}

func TestKubeletFlags(t *testing.T) {
	p := testParams()
	n := testWorker(p)
	want := `KUBELET_KUBEADM_ARGS="--hostname-override=demo-general-1 --node-ip=10.0.0.21 --node-labels=node.kubernetes.io/zone=a,pool=general --register-with-taints=dedicated=db:NoSchedule"` + "\n"
	if got := p.kubeletFlags(n); got != want {
		t.Errorf("%s", cmp.Diff(want, got))
	}
	p.ExternalCloud, n.Cloud.ProviderID = true, "openstack:///u"
	if got := p.kubeletFlags(n); !strings.Contains(got, ` --cloud-provider=external --node`) || !strings.Contains(got, " --provider-id=openstack:///u --register") {
		t.Errorf("in a cloud: %s", got)
	}
}

// TestNoResolver: cluster DNS starts on a machine without name servers; the cluster-wide configuration does not refer to that machine's file.
func TestNoResolver(t *testing.T) {
	p, k := testParams(), testPKI(t, testTime)
	n := testWorker(p)
	n.Facts.NoResolver = true
	c, err := p.Worker(t.Context(), k, n)
	testkit.Must(t, err)
	if got := string(content(t, c, "/etc/kubernetes/resolv.conf")); !strings.HasSuffix(got, "\nnameserver 10.0.0.21\n") {
		t.Error(got)
	}
	if got := string(content(t, c, kubeletConfigPath)); !strings.Contains(got, "resolvConf: /etc/kubernetes/resolv.conf\n") {
		t.Error(got)
	}
	if shared := testkit.Value(p.kubeletConfig(Node{}, ""))(t); bytes.Contains(shared, []byte("resolvConf: /etc/kubernetes")) {
		t.Errorf("%s", shared)
	}
}

// TestResolver: with the document's name servers, pods and cluster DNS use only these, whatever the machine's are; a change of them replaces
// CoreDNS's pods.
func TestResolver(t *testing.T) {
	p, k := testParams(), testPKI(t, testTime)
	for _, facts := range []machine.Facts{{}, {NoResolver: true}, {ResolvConf: "/run/systemd/resolve/resolv.conf"}} {
		n := testWorker(p)
		n.Facts.NoResolver, n.Facts.ResolvConf, n.ResolvConf = facts.NoResolver, facts.ResolvConf, facts.ResolvConf
		n.Resolver = Resolver{Servers: []string{"192.0.2.53", "192.0.2.54"}, SearchDomains: []string{"example.org"}}
		c, err := p.Worker(t.Context(), k, n)
		testkit.Must(t, err)
		if got := string(content(t, c, "/etc/kubernetes/resolv.conf")); !strings.HasSuffix(got, ".\nnameserver 192.0.2.53\nnameserver 192.0.2.54\nsearch example.org\n") {
			t.Errorf("%+v: %s", facts, got)
		}
		if got := string(content(t, c, kubeletConfigPath)); !strings.Contains(got, "resolvConf: /etc/kubernetes/resolv.conf\n") {
			t.Errorf("%+v: %s", facts, got)
		}
	}
	seen := map[string]bool{}
	for _, servers := range [][]string{nil, {"192.0.2.53"}, {"192.0.2.54"}} {
		p.Resolvers = []Resolver{{}, {Servers: servers}}
		recorded := string(testkit.Value(p.Recorded())(t))
		if has := strings.Contains(recorded, "naupegos.dev/name-servers"); seen[recorded] || has != (servers != nil) {
			t.Errorf("%v: another record %t, annotated %t", servers, !seen[recorded], has)
		}
		seen[recorded] = true
	}
}
