package pkitest

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/testkit"
)

// Authority is the authority of one test, made by package pki and kept in memory.
type Authority struct {
	t testing.TB
	k *pki.PKI
}

// NewAuthority makes an authority with the common name "kubernetes".
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	return &Authority{t: t, k: pki.Open(&MemorySecrets{}, pki.Options{})}
}

// PEM returns the authority's own certificate.
func (a *Authority) PEM() []byte {
	a.t.Helper()
	return testkit.Value(a.k.CABundle(a.t.Context(), pki.KubernetesCA))(a.t)
}

// Pool returns a pool with only this authority.
func (a *Authority) Pool() *x509.CertPool {
	a.t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(a.PEM()) {
		a.t.Fatal("the authority's certificate can't be read")
	}
	return pool
}

// Issue returns a certificate with its key. Only s.CommonName is required; without Client and Server, the certificate is for both.
func (a *Authority) Issue(s pki.LeafSpec) pki.Pair {
	a.t.Helper()
	s.Name, s.Authority = s.CommonName, pki.KubernetesCA
	if !s.Client && !s.Server {
		s.Client, s.Server = true, true
	}
	return testkit.Value(a.k.Leaf(a.t.Context(), s))(a.t)
}

// Certificate is like Issue, but returns a tls.Certificate.
func (a *Authority) Certificate(s pki.LeafSpec) tls.Certificate {
	a.t.Helper()
	p := a.Issue(s)
	return testkit.Value(tls.X509KeyPair(p.CertPEM, p.KeyPEM))(a.t)
}
