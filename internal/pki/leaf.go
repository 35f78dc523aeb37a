package pki

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// errKeyMismatch means that a certificate and a key do not belong together.
var errKeyMismatch = errors.New("its key is not that of its certificate")

// LeafSpec describes a certificate. Leaf reissues the stored certificate of this Name if it no longer matches.
type LeafSpec struct {
	Name          string // of the stored certificate: "demo-cp-1/apiserver"
	Authority     string // the authority that signs: KubernetesCA, …
	CommonName    string
	Organizations []string // groups, for client certificates
	DNSNames      []string
	IPs           []net.IP
	Client        bool // for client authentication
	Server        bool // for server authentication
	// Age is how long ago the certificate's validity begins, at least five minutes, for machines whose clock is a little behind. Issuers ignore it.
	Age time.Duration
}

// IsLeaf reports whether a secret of this name is a certificate stored by Leaf.
func IsLeaf(name string) bool { return strings.HasPrefix(name, leafPrefix) }

// IsRoot reports whether a secret of this name is an authority, a service-account key or an encryption key, on which a cluster's stored
// data depends.
func IsRoot(name string) bool {
	kind, _, _ := strings.Cut(name, "/")
	return kind+"/" == authorityPrefix || kind == ServiceAccountKeyName || kind == encryptionKey
}

// Leaf returns the certificate of s. It returns the stored one as long as that matches s, is signed by the current authority and is
// not due for renewal; otherwise it issues and stores a new one with a new key.
func (k *PKI) Leaf(ctx context.Context, s LeafSpec) (Pair, error) {
	if s.Name == "" || s.CommonName == "" || !s.Client && !s.Server {
		return Pair{}, fail.New(fail.Internal, "a certificate needs a name, a common name and a usage").At(s.Name)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	a, err := k.lockedAuthority(ctx, s.Authority, k.generations[s.Authority].Signs)
	if err != nil {
		return Pair{}, err
	}
	data, err := k.secrets.Get(ctx, leafPrefix+s.Name)
	switch {
	case err == nil:
		if p := splitPair(data); k.current(p, s, a) {
			return p, nil
		}
	case fail.KindOf(err) != fail.NotFound:
		return Pair{}, wrap(err, "read the certificate").at(s.Name)
	}
	p, err := k.issue(ctx, s, a, k.o.LeafValidity)
	if err != nil {
		return Pair{}, wrap(err, "issue the certificate").at(s.Name)
	}
	if err := k.secrets.Put(ctx, leafPrefix+s.Name, slices.Concat(p.CertPEM, p.KeyPEM)); err != nil {
		return Pair{}, wrap(err, "remember the certificate").at(s.Name)
	}
	return p, nil
}

// Issue returns a certificate of s with a new key. It is valid for validity, or until its authority expires, and is not stored.
func (k *PKI) Issue(ctx context.Context, s LeafSpec, validity time.Duration) (Pair, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, err := k.lockedAuthority(ctx, s.Authority, k.generations[s.Authority].Signs)
	if err != nil {
		return Pair{}, err
	}
	p, err := k.issue(ctx, s, a, validity)
	if err != nil {
		return Pair{}, wrap(err, "issue the certificate").at(s.CommonName)
	}
	return p, nil
}

// HoldRenewals keeps leaves that are due for renewal in use while they are valid. HoldRenewals(false) lets Leaf reissue them again.
func (k *PKI) HoldRenewals(hold bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holds = hold
}

// current reports whether p can still serve s. A damaged pair can't: issuing another one costs nothing.
func (k *PKI) current(p Pair, s LeafSpec, a *authority) bool {
	cert, err := parseCert(p.CertPEM)
	if err != nil {
		return false
	}
	key, err := parseKey(p.KeyPEM)
	if err != nil || !matches(cert, key) || cert.CheckSignatureFrom(a.cert) != nil {
		return false
	}
	now, end := k.o.Now(), cert.NotAfter
	if !k.holds {
		end = k.renewAt(cert)
	}
	return !now.Before(cert.NotBefore) && now.Before(end) && s.unlike(cert) == ""
}

func (k *PKI) issue(ctx context.Context, s LeafSpec, a *authority, validity time.Duration) (Pair, error) {
	if k.External() {
		return k.request(ctx, s, a, validity)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return Pair{}, err
	}
	now := k.o.Now().UTC()
	t := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: s.CommonName, Organization: s.Organizations},
		DNSNames:              compact(s.DNSNames),
		IPAddresses:           compactIPs(s.IPs),
		NotBefore:             now.Add(-max(s.Age, backdate)),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           s.usages(),
		BasicConstraintsValid: true,
	}
	if t.NotAfter.After(a.cert.NotAfter) {
		t.NotAfter = a.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := encodeKey(key)
	return Pair{CertPEM: encodeCert(der), KeyPEM: keyPEM}, err
}

func (s LeafSpec) usages() []x509.ExtKeyUsage {
	var u []x509.ExtKeyUsage
	if s.Server {
		u = append(u, x509.ExtKeyUsageServerAuth)
	}
	if s.Client {
		u = append(u, x509.ExtKeyUsageClientAuth)
	}
	return u
}

func matches(c *x509.Certificate, key crypto.Signer) bool {
	pub, ok := c.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	return ok && pub.Equal(key.Public())
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// compact returns the values without repetitions, in their order.
func compact(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func compactIPs(in []net.IP) []net.IP {
	var out []net.IP
	for _, ip := range in {
		if !slices.ContainsFunc(out, ip.Equal) {
			out = append(out, ip)
		}
	}
	return out
}

// ForgetMachine deletes the certificates and keys of a removed machine: its successor, even of the same name, gets new ones.
func (k *PKI) ForgetMachine(ctx context.Context, machine string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	names, err := k.secrets.Names(ctx)
	if err != nil {
		return wrap(err, "list the certificates").at(machine)
	}
	for _, n := range names {
		if !strings.HasPrefix(n, leafPrefix+machine+"/") {
			continue
		}
		if err := k.secrets.Delete(ctx, n); err != nil {
			return wrap(err, "forget the certificate").at(strings.TrimPrefix(n, leafPrefix))
		}
	}
	return nil
}

// StartOver deletes all authorities, certificates and keys except SSH keys: a rebuilt cluster must not share them with the old one.
func (k *PKI) StartOver(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	names, err := k.secrets.Names(ctx)
	if err != nil {
		return wrap(err, "list the keys").at("")
	}
	for _, n := range names {
		kind, _, _ := strings.Cut(n, "/")
		if !slices.Contains([]string{ServiceAccountKeyName, encryptionKey}, kind) &&
			!slices.Contains([]string{authorityPrefix, leafPrefix, crossPrefix}, kind+"/") {
			continue
		}
		if err := k.secrets.Delete(ctx, n); err != nil {
			return wrap(err, "forget the key").at(n)
		}
	}
	clear(k.authorities)
	return nil
}
