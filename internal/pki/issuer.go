package pki

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Issuer signs for authorities with external keys, which never come here.
type Issuer interface {
	// Authority returns the certificate (PEM) of an authority by name.
	Authority(ctx context.Context, name string) ([]byte, error)
	// Next returns the certificate (PEM) of the authority that will succeed the one in use, and makes that authority if there is none yet.
	Next(ctx context.Context, name string) ([]byte, error)
	// Cross returns a certificate (PEM) with the subject and the key of the authority of (PEM), signed by the authority by (PEM).
	Cross(ctx context.Context, name string, of, by []byte, validity time.Duration) ([]byte, error)
	// Retire stops the authority goes (PEM) from signing, and makes stays (PEM) the one in use. It may be repeated.
	Retire(ctx context.Context, name string, goes, stays []byte) error
	// Sign returns a certificate (PEM) for request (PEM) according to s, signed by the authority with the certificate authority (PEM). It may
	// be valid for a shorter time than requested. The caller must check the certificate's content.
	Sign(ctx context.Context, authority []byte, s LeafSpec, request []byte, validity time.Duration) ([]byte, error)
}

// behind is the tolerated lead of an issuer's clock over ours.
const behind = 2 * time.Minute

// Unsigned wraps the reason why an issuer did not certify something: the machine that needs the certificate is not at fault.
type Unsigned struct{ error }

// Unwrap returns the reason.
func (e *Unsigned) Unwrap() error { return e.error }

// External reports whether an Issuer has the authorities' keys.
func (k *PKI) External() bool { return k.o.Issuer != nil }

// readAuthority parses an authority's secret: a certificate and its key, or only the certificate if an issuer has the key.
func (k *PKI) readAuthority(secret string, data []byte) (*authority, error) {
	a := &authority{pair: splitPair(data)}
	var err error
	if a.cert, err = parseCert(a.pair.CertPEM); err == nil && (len(a.pair.KeyPEM) == 0) != k.External() {
		return nil, fail.New(fail.Refused, "the authority was made by another issuer than the document names").At(secret).
			Do("name that one again; or naupegos destroy, or reset, the cluster: what is made then is made by the one that is named")
	}
	if err == nil && !k.External() {
		if a.key, err = parseKey(a.pair.KeyPEM); err == nil && !matches(a.cert, a.key) {
			err = errKeyMismatch
		}
	}
	if err == nil && !a.cert.IsCA {
		err = errors.New("it is not the certificate of an authority")
	}
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the authority").At(secret).
			Do("restore the state directory from a backup: without its authorities a cluster can't be maintained")
	}
	return a, nil
}

// request makes a new key and lets the issuer certify it. It accepts a shorter life than requested, but no other difference from s.
func (k *PKI) request(ctx context.Context, s LeafSpec, a *authority, validity time.Duration) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: s.CommonName, Organization: s.Organizations}, DNSNames: compact(s.DNSNames), IPAddresses: compactIPs(s.IPs),
	}, key)
	if err != nil {
		return Pair{}, err
	}
	csr := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	if left := a.cert.NotAfter.Sub(k.o.Now()) - behind; validity > left { // many issuers refuse certificates that would outlive the authority
		validity = left
	}
	signed, err := k.o.Issuer.Sign(ctx, a.pair.CertPEM, s, csr, validity)
	if err != nil {
		return Pair{}, &Unsigned{err}
	}
	cert, err := parseCert(signed)
	if err != nil {
		return Pair{}, fail.Wrap(fail.Internal, err, "read the issuer's certificate")
	}
	if wrong := k.unlike(cert, s, a, key); wrong != "" {
		return Pair{}, &Unsigned{fail.New(fail.Refused, "the issuer signed something else than it was asked for: %s", wrong).
			Do("naupegos certs issuer --check says what its roles lack")}
	}
	keyPEM, err := encodeKey(key)
	return Pair{CertPEM: encodeCert(cert.Raw), KeyPEM: keyPEM}, err
}

// unlike describes how a certificate differs from the requested one; empty if it does not.
func (k *PKI) unlike(cert *x509.Certificate, s LeafSpec, a *authority, key *ecdsa.PrivateKey) string {
	now := k.o.Now()
	switch {
	case !matches(cert, key):
		return "the key is another one"
	case cert.CheckSignatureFrom(a.cert) != nil:
		return "it is not signed by the cluster's authority " + s.Authority
	case cert.IsCA:
		return "it is an authority itself"
	case now.Before(cert.NotBefore):
		return "it is valid only from " + cert.NotBefore.Format(time.RFC3339) + ": its clock, or this host's, is wrong"
	case !now.Before(cert.NotAfter):
		return "it has expired at " + cert.NotAfter.Format(time.RFC3339)
	}
	return s.unlike(cert)
}

// unlike describes how the names and usages of a certificate differ from s; empty if they don't.
func (s LeafSpec) unlike(cert *x509.Certificate) string {
	switch {
	case cert.Subject.CommonName != s.CommonName:
		return "the common name is " + cert.Subject.CommonName
	case !sameSet(cert.Subject.Organization, s.Organizations):
		return "the organizations are " + cert.Subject.String()
	case !sameSet(cert.DNSNames, s.DNSNames), !sameSet(ipStrings(cert.IPAddresses), ipStrings(s.IPs)):
		return "the names and addresses are others"
	case !slices.Equal(sortedUsages(cert.ExtKeyUsage), sortedUsages(s.usages())):
		return "the usages are others"
	}
	return ""
}

func sortedUsages(in []x509.ExtKeyUsage) []x509.ExtKeyUsage { return slices.Sorted(slices.Values(in)) }

// renewAt returns when a certificate is due for renewal. If its authority or the issuer shortened its life, RenewBefore shrinks in
// proportion.
func (k *PKI) renewAt(c *x509.Certificate) time.Time {
	before, life := k.o.RenewBefore, c.NotAfter.Sub(c.NotBefore)
	if life < k.o.LeafValidity {
		before = time.Duration(float64(before) * float64(life) / float64(k.o.LeafValidity))
	}
	return c.NotAfter.Add(-before)
}

func ipStrings(ips []net.IP) []string {
	out := make([]string, len(ips))
	for i, ip := range ips {
		out[i] = ip.String()
	}
	return out
}
