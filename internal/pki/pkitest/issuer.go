package pkitest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/pki"
)

// Issuer is a pki.Issuer that keeps its authorities' keys in memory.
type Issuer struct {
	Now     func() time.Time        // its clock; nil means time.Now
	Longest time.Duration           // limit of a certificate's life; 0: no limit
	Spoil   func(*x509.Certificate) // changes a certificate before it is signed; may be nil
	Same    bool                    // Next returns the authority in use
	Err     error                   // if set, every call returns it

	mu      sync.Mutex
	made    map[string][]pki.Pair // authorities by name: the one in use, and perhaps the next
	retired [][]byte              // certificates
	signed  int
}

var _ pki.Issuer = (*Issuer)(nil)

func (i *Issuer) now() time.Time {
	if i.Now == nil {
		return time.Now()
	}
	return i.Now()
}

// pairs returns the first n authorities of a name, with their keys, and creates missing ones.
func (i *Issuer) pairs(ctx context.Context, name string, n int) ([]pki.Pair, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.made == nil {
		i.made = map[string][]pki.Pair{}
	}
	for len(i.made[name]) < n {
		p, err := pki.Open(&MemorySecrets{}, pki.Options{Now: i.now}).Authority(ctx, name)
		if err != nil {
			return nil, err
		}
		i.made[name] = append(i.made[name], p)
	}
	return i.made[name][:n], nil
}

// pair returns the authority with this certificate, or else the one in use; it fails for a retired certificate.
func (i *Issuer) pair(ctx context.Context, name string, certificate []byte) (pki.Pair, error) {
	pairs, err := i.pairs(ctx, name, 1)
	if err != nil {
		return pki.Pair{}, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, r := range i.retired {
		if bytes.Equal(r, certificate) {
			return pki.Pair{}, errors.New("it signs nothing any more")
		}
	}
	for _, p := range i.made[name] {
		if bytes.Equal(p.CertPEM, certificate) {
			return p, nil
		}
	}
	return pairs[0], nil
}

// Signed returns how many requests it has signed.
func (i *Issuer) Signed() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.signed
}

// Authority implements pki.Issuer.
func (i *Issuer) Authority(ctx context.Context, name string) ([]byte, error) {
	if i.Err != nil {
		return nil, i.Err
	}
	p, err := i.pair(ctx, name, nil)
	return p.CertPEM, err
}

// Next implements pki.Issuer.
func (i *Issuer) Next(ctx context.Context, name string) ([]byte, error) {
	if i.Err != nil {
		return nil, i.Err
	}
	pairs, err := i.pairs(ctx, name, 2)
	if err != nil {
		return nil, err
	}
	if i.Same {
		return pairs[0].CertPEM, nil
	}
	return pairs[1].CertPEM, nil
}

// Cross implements pki.Issuer.
func (i *Issuer) Cross(ctx context.Context, name string, of, by []byte, validity time.Duration) ([]byte, error) {
	if i.Err != nil {
		return nil, i.Err
	}
	block, _ := pem.Decode(of)
	t, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	t.AuthorityKeyId, t.NotBefore, t.NotAfter = nil, i.now().Add(-5*time.Minute), i.now().Add(validity)
	if by, _ := pem.Decode(by); by != nil { // both have the same subject
		if signer, err := x509.ParseCertificate(by.Bytes); err == nil {
			t.AuthorityKeyId = signer.SubjectKeyId
		}
	}
	if i.Spoil != nil {
		i.Spoil(t)
	}
	return i.sign(ctx, name, by, t, t.PublicKey)
}

// Retire implements pki.Issuer.
func (i *Issuer) Retire(_ context.Context, name string, goes, stays []byte) error {
	if i.Err != nil {
		return i.Err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.retired = append(i.retired, goes)
	i.made[name] = slices.DeleteFunc(i.made[name], func(p pki.Pair) bool { return !bytes.Equal(p.CertPEM, stays) })
	return nil
}

// Sign implements pki.Issuer.
func (i *Issuer) Sign(ctx context.Context, authority []byte, s pki.LeafSpec, request []byte, validity time.Duration) ([]byte, error) {
	if i.Err != nil {
		return nil, i.Err
	}
	block, _ := pem.Decode(request)
	if block == nil {
		return nil, errors.New("there is no request")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, err
	}
	if i.Longest > 0 {
		validity = min(validity, i.Longest)
	}
	i.mu.Lock()
	i.signed++
	serial := big.NewInt(int64(i.signed))
	i.mu.Unlock()
	t := &x509.Certificate{
		SerialNumber: serial, Subject: csr.Subject, DNSNames: csr.DNSNames, IPAddresses: csr.IPAddresses,
		NotBefore: i.now().Add(-5 * time.Minute), NotAfter: i.now().Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	if s.Server {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if s.Client {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if i.Spoil != nil {
		i.Spoil(t)
	}
	return i.sign(ctx, s.Authority, authority, t, csr.PublicKey)
}

func (i *Issuer) sign(ctx context.Context, name string, authority []byte, t *x509.Certificate, public crypto.PublicKey) ([]byte, error) {
	p, err := i.pair(ctx, name, authority)
	if err != nil {
		return nil, err
	}
	ca, _ := pem.Decode(p.CertPEM)
	cert, err := x509.ParseCertificate(ca.Bytes)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(p.KeyPEM)
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, cert, public, key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}
