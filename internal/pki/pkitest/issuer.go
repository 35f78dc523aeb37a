package pkitest

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/pki"
)

// Issuer is a pki.Issuer: authorities whose keys it keeps to itself.
type Issuer struct {
	Now     func() time.Time        // its clock; nil means time.Now
	Longest time.Duration           // that a certificate lives; 0 means what is asked for
	Spoil   func(*x509.Certificate) // changes what it signs; may be nil
	Err     error                   // where it is set, what every call returns

	mu     sync.Mutex
	keys   *pki.PKI
	signed int
}

var _ pki.Issuer = (*Issuer)(nil)

func (i *Issuer) now() time.Time {
	if i.Now == nil {
		return time.Now()
	}
	return i.Now()
}

// pair returns an authority with its key.
func (i *Issuer) pair(ctx context.Context, name string) (pki.Pair, error) {
	i.mu.Lock()
	if i.keys == nil {
		i.keys = pki.Open(&MemorySecrets{}, pki.Options{Now: i.now})
	}
	i.mu.Unlock()
	return i.keys.Authority(ctx, name)
}

// Signed is how many certificates it has signed.
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
	p, err := i.pair(ctx, name)
	return p.CertPEM, err
}

// Sign implements pki.Issuer.
func (i *Issuer) Sign(ctx context.Context, _ []byte, s pki.LeafSpec, request []byte, validity time.Duration) ([]byte, error) {
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
	return i.sign(ctx, s.Authority, t, csr.PublicKey)
}

func (i *Issuer) sign(ctx context.Context, authority string, t *x509.Certificate, public crypto.PublicKey) ([]byte, error) {
	p, err := i.pair(ctx, authority)
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
