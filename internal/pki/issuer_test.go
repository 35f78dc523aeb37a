package pki_test

import (
	"bytes"
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

func elsewhere(s pki.Secrets, i *pkitest.Issuer) (*pki.PKI, *clock) {
	c := &clock{start}
	i.Now = c.Now
	return pki.Open(s, pki.Options{Now: c.Now, Issuer: i}), c
}

func TestIssuerKeepsItsKeys(t *testing.T) {
	s, i := &pkitest.MemorySecrets{}, &pkitest.Issuer{}
	k, c := elsewhere(s, i)
	testkit.Must(t, k.Ensure(t.Context()))
	if names := testkit.Value(s.Names(t.Context()))(t); len(names) != 3 {
		t.Errorf("before anything is asked for, Ensure makes %v", names)
	}
	first := testkit.Value(k.Leaf(t.Context(), server()))(t)
	cert := parse(t, first)
	if cert.Subject.CommonName != "kube-apiserver" || len(cert.DNSNames) != 2 || len(cert.IPAddresses) != 2 {
		t.Errorf("signed: %v %v %v", cert.Subject, cert.DNSNames, cert.IPAddresses)
	}
	for _, name := range pki.Authorities() {
		if p := testkit.Value(k.Authority(t.Context(), name))(t); len(p.KeyPEM) > 0 || len(p.CertPEM) == 0 {
			t.Errorf("%s: certificate of %d bytes, key of %d", name, len(p.CertPEM), len(p.KeyPEM))
		}
		if data := testkit.Value(s.Get(t.Context(), "authority/"+name))(t); bytes.Contains(data, []byte("PRIVATE KEY")) {
			t.Errorf("the secret of %s has a key", name)
		}
	}
	if again := testkit.Value(k.Leaf(t.Context(), server()))(t); !bytes.Equal(first.CertPEM, again.CertPEM) || i.Signed() != 1 {
		t.Errorf("valid certificates were signed again: %d", i.Signed())
	}
	list := testkit.Value(k.List(t.Context()))(t)
	if last := list[len(list)-1]; len(list) != 4 || last.Authority != pki.KubernetesCA {
		t.Errorf("listed: %+v", list)
	}

	i.Err = fail.New(fail.Unreachable, "gone")
	if again := testkit.Value(k.Leaf(t.Context(), server()))(t); !bytes.Equal(first.CertPEM, again.CertPEM) {
		t.Error("valid certificates need no issuer")
	}
	c.now = start.Add(250 * 24 * time.Hour)
	_, err := k.Leaf(t.Context(), server())
	testkit.Fails(t, err, fail.Unreachable, "gone", "cp-1/apiserver")
	i.Err = nil
	if again := testkit.Value(k.Leaf(t.Context(), server()))(t); bytes.Equal(first.CertPEM, again.CertPEM) {
		t.Error("a certificate that is due was not renewed")
	}
}

// TestShorterLife: an issuer signs for a month only. Leaf renews such a certificate after two thirds of it, and not on every call.
func TestShorterLife(t *testing.T) {
	i := &pkitest.Issuer{Longest: 30 * 24 * time.Hour}
	k, c := elsewhere(&pkitest.MemorySecrets{}, i)
	for _, step := range []struct {
		day, signed int
	}{{0, 1}, {1, 1}, {19, 1}, {21, 2}, {22, 2}} {
		c.now = start.Add(time.Duration(step.day) * 24 * time.Hour)
		testkit.Value(k.Leaf(t.Context(), server()))(t)
		if got := i.Signed(); got != step.signed {
			t.Errorf("day %d: %d were signed, not %d", step.day, got, step.signed)
		}
	}
}

func TestIssuerSignsSomethingElse(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*x509.Certificate)
		says  string
	}{
		"another name":  {func(c *x509.Certificate) { c.Subject.CommonName = "x" }, "common name is x"},
		"another group": {func(c *x509.Certificate) { c.Subject.Organization = []string{"system:masters"} }, "organizations"},
		"more names":    {func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "x") }, "names and addresses"},
		"no addresses":  {func(c *x509.Certificate) { c.IPAddresses = []net.IP{} }, "names and addresses"},
		"other usages":  {func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, "usages"},
		"an authority":  {func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }, "an authority itself"},
		"not yet valid": {func(c *x509.Certificate) { c.NotBefore = start.Add(time.Minute) }, "clock"},
		"expired":       {func(c *x509.Certificate) { c.NotAfter = start.Add(-time.Minute) }, "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &pkitest.MemorySecrets{}
			k, _ := elsewhere(s, &pkitest.Issuer{Spoil: c.spoil})
			_, err := k.Leaf(t.Context(), server())
			testkit.Fails(t, err, fail.Refused, c.says, "naupegos certs issuer --check")
			if names := strings.Join(testkit.Value(s.Names(t.Context()))(t), " "); strings.Contains(names, "leaf/") {
				t.Errorf("it is remembered: %s", names)
			}
		})
	}
}

// TestAnotherIssuer opens a PKI of one issuer with another one.
func TestAnotherIssuer(t *testing.T) {
	for name, c := range map[string]struct{ first, then *pkitest.Issuer }{
		"from elsewhere to here": {&pkitest.Issuer{}, nil}, "from here to elsewhere": {nil, &pkitest.Issuer{}}, "another authority": {&pkitest.Issuer{}, &pkitest.Issuer{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &pkitest.MemorySecrets{}
			open := func(i *pkitest.Issuer) *pki.PKI {
				if i == nil {
					return pki.Open(s, pki.Options{})
				}
				return pki.Open(s, pki.Options{Issuer: i})
			}
			testkit.Value(open(c.first).Leaf(t.Context(), server()))(t)
			next := server()
			next.Name = "cp-2/apiserver"
			_, err := open(c.then).Leaf(t.Context(), next)
			testkit.Fails(t, err, fail.Refused, "issuer")
		})
	}
}
