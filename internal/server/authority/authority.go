// Package authority implements the server's own certificate authority and its serving certificate.
//
// Both are made at the first start and stored encrypted, so that several servers on one database have the same authority. Clusters' authorities are
// in internal/pki.
package authority

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Lifetimes. A leaf is renewed once a third of its life is left.
const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 90 * 24 * time.Hour
	backdate = 5 * time.Minute // because clocks differ
)

// Secrets stores the authority, encrypted; it is a part of store.Secrets.
type Secrets interface {
	// PutIfAbsent stores a secret unless one of this name exists, and returns the stored value.
	PutIfAbsent(ctx context.Context, name string, value []byte) ([]byte, error)
	// Get returns the value of a secret, or fail.NotFound.
	Get(ctx context.Context, name string) ([]byte, error)
}

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

// Open returns the authority of this name, and makes it if it is missing. Servers that make it at the same time all get the same one.
func Open(ctx context.Context, s Secrets, name string) (*Authority, error) {
	data, err := s.Get(ctx, "authority/"+name)
	if fail.KindOf(err) == fail.NotFound {
		var fresh []byte
		if fresh, err = newAuthority(name); err == nil {
			data, err = s.PutIfAbsent(ctx, "authority/"+name, fresh)
		}
	}
	if err != nil {
		return nil, err
	}
	return parse(data)
}

// newAuthority makes a self-signed authority, and returns certificate and key as PEM.
func newAuthority(name string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "make the key of the server's authority")
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "naupegos " + name}, NotBefore: now.Add(-backdate), NotAfter: now.Add(caLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "make the server's authority")
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "encode the key of the server's authority")
	}
	return append(encode("CERTIFICATE", der), encode("PRIVATE KEY", raw)...), nil
}

// parse parses the result of newAuthority. Its errors never contain the text.
func parse(data []byte) (*Authority, error) {
	damaged := func() error {
		return fail.New(fail.Internal, "the server's authority is damaged in the store").Do("put back a backup: naupegos store restore")
	}
	c, rest := pem.Decode(data)
	if c == nil {
		return nil, damaged()
	}
	k, _ := pem.Decode(rest)
	if k == nil {
		return nil, damaged()
	}
	cert, err := x509.ParseCertificate(c.Bytes)
	if err != nil {
		return nil, damaged()
	}
	key, err := x509.ParsePKCS8PrivateKey(k.Bytes)
	signer, ok := key.(crypto.Signer)
	if err != nil || !ok {
		return nil, damaged()
	}
	return &Authority{cert: cert, key: signer, pem: encode("CERTIFICATE", c.Bytes)}, nil
}

// PEM returns the authority's certificate, for verifying the certificates that it signed. It is no secret.
func (a *Authority) PEM() []byte { return bytes.Clone(a.pem) }

// Pool returns the authority's certificate as a pool.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Sign returns a certificate (DER) for a public key, with the subject and usage of a template. Sign sets the serial number, and the validity: for
// life, but at most until the authority ends.
func (a *Authority) Sign(c x509.Certificate, public crypto.PublicKey, life time.Duration) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	c.SerialNumber, c.NotBefore, c.NotAfter, c.BasicConstraintsValid = serial, now.Add(-backdate), now.Add(life), true
	if c.NotAfter.After(a.cert.NotAfter) {
		c.NotAfter = a.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, &c, a.cert, public, a.key)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "sign a certificate of %s", c.Subject.CommonName)
	}
	return der, nil
}

// newSerial returns a positive random serial number of up to 127 bits.
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "make a serial number")
	}
	return n.Add(n, big.NewInt(1)), nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
