package pkitest

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/testkit"
)

// Authority is the authority of one test: a cluster's own, made by package pki and kept in memory.
type Authority struct {
	t testing.TB
	k *pki.PKI
}

// NewAuthority makes one, whose name is "kubernetes".
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	return &Authority{t: t, k: pki.Open(&MemorySecrets{}, pki.Options{})}
}

// PEM returns the authority's own certificate.
func (a *Authority) PEM() []byte {
	a.t.Helper()
	return testkit.Value(a.k.CABundle(a.t.Context(), pki.KubernetesCA))(a.t)
}

// Pool trusts nobody else.
func (a *Authority) Pool() *x509.CertPool {
	a.t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.PEM()) {
		a.t.Fatal("the authority's certificate can't be read")
	}
	return pool
}

// Issue returns a certificate with its key. Of s only the common name has to be set: where neither Client nor Server is, it is for both.
func (a *Authority) Issue(s pki.LeafSpec) pki.Pair {
	a.t.Helper()
	s.Name, s.Authority = s.CommonName, pki.KubernetesCA
	if !s.Client && !s.Server {
		s.Client, s.Server = true, true
	}
	return testkit.Value(a.k.Leaf(a.t.Context(), s))(a.t)
}

// Certificate is Issue for crypto/tls.
func (a *Authority) Certificate(s pki.LeafSpec) tls.Certificate {
	a.t.Helper()
	p := a.Issue(s)
	return testkit.Value(tls.X509KeyPair(p.CertPEM, p.KeyPEM))(a.t)
}
