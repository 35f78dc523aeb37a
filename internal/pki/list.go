package pki

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// CertInfo describes a stored certificate.
type CertInfo struct {
	Name        string    `json:"name"`                // an authority's name, or the leaf's: "demo-cp-1/apiserver"
	Authority   string    `json:"authority,omitempty"` // the signer; empty for an authority itself
	CA          bool      `json:"ca"`                  // it is an authority
	Subject     string    `json:"subject"`             // "CN=…,O=…"
	SANs        []string  `json:"sans,omitempty"`      // DNS names, then addresses
	Usages      []string  `json:"usages,omitempty"`    // "server", "client"
	NotBefore   time.Time `json:"notBefore"`
	NotAfter    time.Time `json:"notAfter"`
	RenewAt     time.Time `json:"renewAt"`     // when an apply reissues it; zero for authorities
	Fingerprint string    `json:"fingerprint"` // SHA-256 of the certificate, hex
}

// List returns every stored certificate: authorities first, then leaves by name.
func (k *PKI) List(ctx context.Context) ([]CertInfo, error) {
	names, err := k.secrets.Names(ctx)
	if err != nil {
		return nil, wrap(err, "list the certificates").at("")
	}
	var out []CertInfo
	authorities, all := map[string]*x509.Certificate{}, map[string]*x509.Certificate{}
	for _, full := range names {
		name, isCA := strings.CutPrefix(full, authorityPrefix)
		if !isCA {
			var leaf bool
			if name, leaf = strings.CutPrefix(full, leafPrefix); !leaf {
				continue
			}
		}
		data, err := k.secrets.Get(ctx, full)
		if err != nil {
			return nil, wrap(err, "read the certificate").at(name)
		}
		c, err := parseCert(splitPair(data).CertPEM)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read the certificate").At(name)
		}
		if all[name] = c; isCA {
			authorities[name] = c
		}
	}
	for name, c := range all {
		i := k.describe(name, c)
		if !i.CA {
			i.Authority = signedBy(c, authorities)
		}
		out = append(out, i)
	}
	slices.SortFunc(out, func(a, b CertInfo) int {
		if a.CA != b.CA {
			if a.CA {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return out, nil
}

// Due reports whether the next apply reissues the certificate. Authorities are never due: they are rotated.
func (i CertInfo) Due(now time.Time) bool { return !i.CA && now.After(i.RenewAt) }

func (k *PKI) describe(name string, c *x509.Certificate) CertInfo {
	sum := sha256.Sum256(c.Raw)
	i := CertInfo{
		Name: name, CA: c.IsCA, Subject: c.Subject.String(), SANs: append(slices.Clone(c.DNSNames), ipStrings(c.IPAddresses)...),
		NotBefore: c.NotBefore, NotAfter: c.NotAfter, Fingerprint: hex.EncodeToString(sum[:]),
	}
	for _, u := range c.ExtKeyUsage {
		switch u {
		case x509.ExtKeyUsageServerAuth:
			i.Usages = append(i.Usages, "server")
		case x509.ExtKeyUsageClientAuth:
			i.Usages = append(i.Usages, "client")
		}
	}
	if c.IsCA {
		return i
	}
	i.RenewAt = k.renewAt(c)
	return i
}

// signedBy returns the name of the authority that signed a certificate, or else the name of the authority with the issuer's common name.
// The keys of authorities may have a generation.
func signedBy(c *x509.Certificate, authorities map[string]*x509.Certificate) (name string) {
	for authority, cn := range commonNames() {
		if c.Issuer.CommonName == cn {
			name = authority
		}
	}
	for secret, ca := range authorities {
		if c.CheckSignatureFrom(ca) == nil {
			name, _, _ = strings.Cut(secret, "/")
		}
	}
	return name
}
