package layout

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestGenerations renders a control-plane machine in each phase of a rotation. While there are two generations, every trust store has both, the
// signing one first; controller managers sign only with that one, and it signs all certificates.
func TestGenerations(t *testing.T) {
	p, k := testParams(), testPKI(t, testTime)
	in := func(signs, also int) machine.Config {
		of := map[string]pki.Generations{}
		for _, key := range pki.Rotated() {
			of[key] = pki.Generations{Signs: signs, Also: also}
		}
		k.Use(of)
		c := render(t, p, k, 0)
		testkit.Must(t, c.Validate())
		return c
	}
	before := in(1, 0)
	bundles := []string{pkiDir + "/ca.crt", pkiDir + "/front-proxy-ca.crt", pkiDir + "/etcd/ca.crt", pkiDir + "/sa.pub"}
	leaves := map[string]string{
		pkiDir + "/apiserver.crt": pki.KubernetesCA, pkiDir + "/apiserver-kubelet-client.crt": pki.KubernetesCA, pkiDir + "/front-proxy-client.crt": pki.FrontProxyCA,
		pkiDir + "/apiserver-etcd-client.crt": pki.EtcdCA, pkiDir + "/etcd/server.crt": pki.EtcdCA, pkiDir + "/etcd/peer.crt": pki.EtcdCA,
	}
	for _, phase := range []struct{ signs, also int }{{1, 2}, {2, 1}, {2, 0}} {
		c := in(phase.signs, phase.also)
		trusted := 1 + min(phase.also, 1)
		for _, path := range bundles {
			if n := bytes.Count(content(t, c, path), []byte("BEGIN")); n != trusted {
				t.Errorf("%v: %s holds %d, want %d", phase, path, n, trusted)
			}
		}
		for path, name := range leaves {
			authority := parseFirst(t, testkit.Value(k.Signer(t.Context(), name))(t))
			if err := parseFirst(t, content(t, c, path)).CheckSignatureFrom(authority); err != nil {
				t.Errorf("%v: %s is not by the one that signs: %v", phase, path, err)
			}
			if changed := !bytes.Equal(content(t, c, path), content(t, before, path)); changed != (phase.signs == 2) {
				t.Errorf("%v: %s changed: %v", phase, path, changed)
			}
		}
		if n := bytes.Count(content(t, c, pkiDir+"/apiserver.crt"), []byte("BEGIN")); n != phase.signs {
			t.Errorf("%v: an API server shows %d certificates", phase, n)
		}
		manager := string(content(t, c, manifestOf("kube-controller-manager")))
		if own := strings.Contains(manager, "--cluster-signing-cert-file="+signerPath); own != (trusted == 2) {
			t.Errorf("%v: the controller manager signs by a file of its own: %v", phase, own)
		}
		if trusted == 2 && bytes.Count(content(t, c, signerPath), []byte("BEGIN")) != 1 {
			t.Errorf("%v: it holds not one", phase)
		}
		first, serving := maybeFile(c, kubeletFirstCertPath), maybeFile(c, kubeletFirstServing)
		if first == nil || !bytes.Equal(first.Authority, testkit.Value(k.Signer(t.Context(), pki.KubernetesCA))(t)) {
			t.Errorf("%v: a kubelet may keep a certificate of another authority", phase)
		}
		if (serving != nil) != (phase.signs == 2) || serving != nil && serving.RenewedAt != kubeletServingPath {
			t.Errorf("%v: the certificate by which a kubelet serves is %v", phase, serving)
		}
	}
}

func maybeFile(c machine.Config, path string) *machine.File {
	for i := range c.Files {
		if c.Files[i].Path == path {
			return &c.Files[i]
		}
	}
	return nil
}

// parseFirst reads the first certificate of PEM data.
func parseFirst(t *testing.T, data []byte) *x509.Certificate {
	t.Helper()
	b, _ := pem.Decode(data)
	if b == nil {
		t.Fatal("there is no certificate")
	}
	return testkit.Value(x509.ParseCertificate(b.Bytes))(t)
}
