package pki_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// rsaKey is the key of all authorities in this test, because generating one is slow.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// rsaAuthority makes an authority as kubeadm does by default.
func rsaAuthority(t *testing.T, cn string) pki.Pair {
	t.Helper()
	key := testkit.Value(rsaKey())(t)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: cn}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(240 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der := testkit.Value(x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key))(t)
	return pki.Pair{CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		KeyPEM: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})}
}

// TestTakenGoesOn: a PKI issues with another tool's authorities, and returns them unchanged.
func TestTakenGoesOn(t *testing.T) {
	taken := pki.Taken{Authorities: map[string]pki.Pair{}, Encryption: map[string][]byte{"key1": make([]byte, 32), "key7": make([]byte, 32)}}
	for _, name := range pki.Authorities() {
		taken.Authorities[name] = rsaAuthority(t, name)
	}
	taken.ServiceAccount = taken.Authorities[pki.EtcdCA].KeyPEM
	secrets := &pkitest.MemorySecrets{}
	for name, value := range testkit.Value(taken.Secrets())(t) {
		testkit.Must(t, secrets.Put(t.Context(), name, value))
	}
	k := pki.Open(secrets, pki.Options{})
	testkit.Must(t, k.Ensure(t.Context()))
	for name, want := range taken.Authorities {
		if got := testkit.Value(k.Authority(t.Context(), name))(t); !bytes.Equal(got.CertPEM, want.CertPEM) || !bytes.Equal(got.KeyPEM, want.KeyPEM) {
			t.Errorf("%s is another one", name)
		}
		leaf := testkit.Value(k.Leaf(t.Context(), pki.LeafSpec{Name: "m/" + name, Authority: name, CommonName: "x", Server: true}))(t)
		block, _ := pem.Decode(leaf.CertPEM)
		by, _ := pem.Decode(want.CertPEM)
		testkit.Must(t, testkit.Value(x509.ParseCertificate(block.Bytes))(t).CheckSignatureFrom(testkit.Value(x509.ParseCertificate(by.Bytes))(t)))
	}
	k.Use(map[string]pki.Generations{pki.KubernetesCA: {Signs: 2, Also: 1}}) // the next ones have keys of another type
	chain, _ := pem.Decode(testkit.Value(k.CrossChain(t.Context(), pki.KubernetesCA))(t))
	former, _ := pem.Decode(taken.Authorities[pki.KubernetesCA].CertPEM)
	testkit.Must(t, testkit.Value(x509.ParseCertificate(chain.Bytes))(t).CheckSignatureFrom(testkit.Value(x509.ParseCertificate(former.Bytes))(t)))
	private, _, err := k.ServiceAccountKey(t.Context())
	if testkit.Must(t, err); !bytes.Equal(private, taken.ServiceAccount) {
		t.Error("the key of service accounts is another one")
	}
	if _, err := k.EncryptionKey(t.Context(), "key7"); err != nil {
		t.Error(err)
	}
}

// TestTakenRefuses: Secrets refuses input that is not an authority, or has another's key. No error contains a key.
func TestTakenRefuses(t *testing.T) {
	whole := func() pki.Taken {
		one := rsaAuthority(t, "x")
		return pki.Taken{Authorities: map[string]pki.Pair{pki.EtcdCA: one, pki.FrontProxyCA: one, pki.KubernetesCA: one}, ServiceAccount: one.KeyPEM}
	}
	for says, spoil := range map[string]func(*pki.Taken){
		"holds no certificate": func(k *pki.Taken) { k.Authorities[pki.EtcdCA] = pki.Pair{KeyPEM: k.ServiceAccount} },
		"holds no private key": func(k *pki.Taken) {
			k.Authorities[pki.EtcdCA] = pki.Pair{CertPEM: k.Authorities[pki.KubernetesCA].CertPEM}
		},
		"not that of its certificate": func(k *pki.Taken) {
			k.Authorities[pki.EtcdCA] = pki.Pair{CertPEM: k.Authorities[pki.KubernetesCA].CertPEM, KeyPEM: testkit.Value(pki.Open(&pkitest.MemorySecrets{}, pki.Options{}).Authority(t.Context(), pki.EtcdCA))(t).KeyPEM}
		},
		"key of service accounts": func(k *pki.Taken) { k.ServiceAccount = []byte("nothing") },
	} {
		k := whole()
		spoil(&k)
		_, err := k.Secrets()
		testkit.Fails(t, err, fail.Invalid, says)
	}
}
