package pki_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// clock is a clock that tests set.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func open(s pki.Secrets) (*pki.PKI, *clock) {
	c := &clock{start}
	return pki.Open(s, pki.Options{Now: c.Now}), c
}

func server() pki.LeafSpec {
	return pki.LeafSpec{
		Name: "cp-1/apiserver", Authority: pki.KubernetesCA, CommonName: "kube-apiserver", Server: true,
		DNSNames: []string{"a", "b", "a"}, IPs: []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("::1")},
	}
}

func parse(t *testing.T, p pki.Pair) *x509.Certificate {
	t.Helper()
	if _, err := tls.X509KeyPair(p.CertPEM, p.KeyPEM); err != nil {
		t.Fatal(err)
	}
	b, _ := pem.Decode(p.CertPEM)
	c, err := x509.ParseCertificate(b.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEnsureMakesOnce(t *testing.T) {
	s := &pkitest.MemorySecrets{}
	k, _ := open(s)
	if err := k.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	names := testkit.Value(s.Names(t.Context()))(t)
	if len(names) != 6 {
		t.Errorf("Ensure makes %v", names)
	}
	again, c := open(s)
	c.now = start.Add(9 * 365 * 24 * time.Hour)
	if err := again.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range pki.Authorities() {
		a, b := testkit.Value(k.Authority(t.Context(), name))(t), testkit.Value(again.Authority(t.Context(), name))(t)
		if !bytes.Equal(a.CertPEM, b.CertPEM) || !bytes.Equal(a.KeyPEM, b.KeyPEM) {
			t.Errorf("%s was recreated", name)
		}
		cert := parse(t, a)
		if !cert.IsCA || !cert.NotBefore.Equal(start.Add(-5*time.Minute)) || !cert.NotAfter.Equal(start.Add(10*365*24*time.Hour)) {
			t.Errorf("%s: CA %v, %v to %v", name, cert.IsCA, cert.NotBefore, cert.NotAfter)
		}
	}
	if key := testkit.Value(k.EncryptionKey(t.Context(), pki.FirstEncryptionKey))(t); !bytes.Equal(key, testkit.Value(again.EncryptionKey(t.Context(), pki.FirstEncryptionKey))(t)) || len(key) != 32 {
		t.Error("the encryption key changed, or isn't 32 bytes")
	}
}

func TestLeafIsRemembered(t *testing.T) {
	s := &pkitest.MemorySecrets{}
	k, c := open(s)
	first := testkit.Value(k.Leaf(t.Context(), server()))(t)
	cert := parse(t, first)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(testkit.Value(k.CABundle(t.Context(), pki.KubernetesCA))(t))
	for _, name := range []string{"a", "b", "10.0.0.1", "::1"} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: start, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: start, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("a server's certificate identifies clients")
	}
	if len(cert.DNSNames) != 2 {
		t.Errorf("names are repeated: %v", cert.DNSNames)
	}

	same := server()
	same.DNSNames = []string{"b", "a"}
	c.now = start.Add(243 * 24 * time.Hour) // a little before two thirds
	k2 := pki.Open(s, pki.Options{Now: c.Now})
	if again := testkit.Value(k2.Leaf(t.Context(), same))(t); !bytes.Equal(again.CertPEM, first.CertPEM) || !bytes.Equal(again.KeyPEM, first.KeyPEM) {
		t.Error("a certificate that still serves was reissued")
	}
	c.now = start.Add(244 * 24 * time.Hour)
	renewed := testkit.Value(k2.Leaf(t.Context(), same))(t)
	if bytes.Equal(renewed.CertPEM, first.CertPEM) || bytes.Equal(renewed.KeyPEM, first.KeyPEM) {
		t.Error("a certificate in its last third was not reissued, with a new key")
	}
	if again := testkit.Value(k2.Leaf(t.Context(), same))(t); !bytes.Equal(again.CertPEM, renewed.CertPEM) {
		t.Error("the new certificate was not remembered")
	}
}

func TestLeafIsIssuedAnewWhereItDiffers(t *testing.T) {
	for name, change := range map[string]func(*pki.LeafSpec){
		"common name":    func(s *pki.LeafSpec) { s.CommonName = "other" },
		"organization":   func(s *pki.LeafSpec) { s.Organizations = []string{"system:masters"} },
		"name missing":   func(s *pki.LeafSpec) { s.DNSNames = s.DNSNames[:1] },
		"name more":      func(s *pki.LeafSpec) { s.DNSNames = append(s.DNSNames, "c") },
		"address":        func(s *pki.LeafSpec) { s.IPs = s.IPs[:1] },
		"usage":          func(s *pki.LeafSpec) { s.Client = true },
		"authority":      func(s *pki.LeafSpec) { s.Authority = pki.EtcdCA },
		"nothing at all": nil,
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := open(&pkitest.MemorySecrets{})
			first := testkit.Value(k.Leaf(t.Context(), server()))(t)
			spec := server()
			if change != nil {
				change(&spec)
			}
			second := testkit.Value(k.Leaf(t.Context(), spec))(t)
			parse(t, second)
			if same := bytes.Equal(first.CertPEM, second.CertPEM); same != (change == nil) {
				t.Errorf("same certificate: %v", same)
			}
		})
	}
}

func TestDamagedLeafIsIssuedAnew(t *testing.T) {
	k, _ := open(&pkitest.MemorySecrets{})
	other := server()
	other.Name = "other"
	a, b := testkit.Value(k.Leaf(t.Context(), server()))(t), testkit.Value(k.Leaf(t.Context(), other))(t)
	for name, damaged := range map[string][]byte{
		"empty": {}, "rubbish": []byte("x"), "no key": a.CertPEM, "another's key": append(bytes.Clone(a.CertPEM), b.KeyPEM...),
	} {
		s := &pkitest.MemorySecrets{}
		k, _ := open(s)
		if err := s.Put(t.Context(), "leaf/cp-1/apiserver", damaged); err != nil {
			t.Fatal(err)
		}
		p, err := k.Leaf(t.Context(), server())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		parse(t, p)
	}
}

func TestDamagedAuthorityIsRefused(t *testing.T) {
	s := &pkitest.MemorySecrets{}
	if err := s.Put(t.Context(), "authority/etcd-ca", []byte("x")); err != nil {
		t.Fatal(err)
	}
	k, _ := open(s)
	if _, err := k.CABundle(t.Context(), pki.EtcdCA); err == nil {
		t.Error("a damaged authority is used")
	}
	if got := string(testkit.Value(s.Get(t.Context(), "authority/etcd-ca"))(t)); got != "x" {
		t.Error("a damaged authority was replaced: the cluster's certificates would be worthless")
	}
}

func TestLeafEndsWithItsAuthority(t *testing.T) {
	s := &pkitest.MemorySecrets{}
	k := pki.Open(s, pki.Options{Now: func() time.Time { return start }, CAValidity: 24 * time.Hour})
	if got := parse(t, testkit.Value(k.Leaf(t.Context(), server()))(t)).NotAfter; !got.Equal(start.Add(24 * time.Hour)) {
		t.Errorf("the leaf outlives its authority: %v", got)
	}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	s := &pkitest.MemorySecrets{Err: fail.New(fail.Unreachable, "no answer")}
	k, _ := open(s)
	for name, err := range map[string]error{
		"ensure": k.Ensure(t.Context()),
		"leaf":   second(k.Leaf(t.Context(), server())),
		"list":   second(k.List(t.Context())),
		"ssh":    second(k.SSHPublicKeys(t.Context())),
	} {
		if fail.KindOf(err) != fail.Unreachable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := k.CABundle(t.Context(), "nobody"); err == nil || errors.Is(err, s.Err) {
		t.Errorf("an unknown authority: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestManyAtOnceGetOneCertificate(t *testing.T) {
	k, _ := open(&pkitest.MemorySecrets{})
	var wg sync.WaitGroup
	got := make([]pki.Pair, 20)
	for i := range got {
		wg.Go(func() { got[i], _ = k.Leaf(t.Context(), server()) })
	}
	wg.Wait()
	for _, p := range got {
		if !bytes.Equal(p.CertPEM, got[0].CertPEM) || len(p.CertPEM) == 0 {
			t.Fatal("two callers got different certificates of one name")
		}
	}
}

func TestSSHKey(t *testing.T) {
	k, _ := open(&pkitest.MemorySecrets{})
	signer, err := ssh.ParsePrivateKey(testkit.Value(k.SSHKey(t.Context()))(t))
	if err != nil {
		t.Fatal(err)
	}
	line := testkit.Value(k.SSHPublicKeys(t.Context()))(t)[0]
	if want := string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(signer.PublicKey()))); line != want {
		t.Errorf("public half %q, not %q", line, want)
	}
}

func TestServiceAccountKey(t *testing.T) {
	k, _ := open(&pkitest.MemorySecrets{})
	private, public, err := k.ServiceAccountKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	priv, _ := pem.Decode(private)
	pub, _ := pem.Decode(public)
	key, err := x509.ParseECPrivateKey(priv.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	want, err := x509.ParsePKIXPublicKey(pub.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if !key.PublicKey.Equal(want) {
		t.Error("the halves are not of each other")
	}
}

func TestList(t *testing.T) {
	k, _ := open(&pkitest.MemorySecrets{})
	if err := k.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := testkit.Value(k.Leaf(t.Context(), server()))(t)
	list := testkit.Value(k.List(t.Context()))(t)
	if len(list) != 4 || !list[0].CA || list[3].CA {
		t.Fatalf("%+v", list)
	}
	got := list[3]
	if got.Name != "cp-1/apiserver" || got.Authority != pki.KubernetesCA || got.Subject != "CN=kube-apiserver" ||
		len(got.SANs) != 4 || len(got.Fingerprint) != 64 || got.Usages[0] != "server" || !got.NotAfter.Equal(parse(t, p).NotAfter) ||
		!got.RenewAt.Before(got.NotAfter) {
		t.Errorf("%+v", got)
	}
}

// TestIssue: a certificate for a limited time is valid as long as requested, but no longer than its authority, and is not stored.
func TestIssue(t *testing.T) {
	s := &pkitest.MemorySecrets{}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	k := pki.Open(s, pki.Options{Now: func() time.Time { return now }, CAValidity: 48 * time.Hour, LeafValidity: time.Hour})
	testkit.Must(t, k.Ensure(t.Context()))
	before := testkit.Value(s.Names(t.Context()))(t)
	for validity, want := range map[time.Duration]time.Time{8 * time.Hour: now.Add(8 * time.Hour), 100 * time.Hour: now.Add(48 * time.Hour)} {
		p := testkit.Value(k.Issue(t.Context(), pki.LeafSpec{Authority: pki.KubernetesCA, CommonName: "ann", Organizations: []string{"developers"}, Client: true}, validity))(t)
		block, _ := pem.Decode(p.CertPEM)
		c := testkit.Value(x509.ParseCertificate(block.Bytes))(t)
		if !c.NotAfter.Equal(want) || c.Subject.CommonName != "ann" || !slices.Equal(c.Subject.Organization, []string{"developers"}) {
			t.Errorf("for %s: %s until %s, want %s", validity, c.Subject, c.NotAfter, want)
		}
	}
	if after := testkit.Value(s.Names(t.Context()))(t); len(after) != len(before) {
		t.Errorf("remembered: %v", after)
	}
}
