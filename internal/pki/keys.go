package pki

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/naupegos/naupegos/internal/fail"
)

// The PEM block types that kubeadm and client-go use.
const (
	certificateBlock = "CERTIFICATE"
	ecKeyBlock       = "EC PRIVATE KEY"
	rsaKeyBlock      = "RSA PRIVATE KEY"
	publicKeyBlock   = "PUBLIC KEY"
)

// Pair is a certificate (with its chain, if any) and its key, as PEM.
type Pair struct {
	CertPEM []byte
	KeyPEM  []byte
}

func newKeyPEM() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return encodeKey(key)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: ecKeyBlock, Bytes: der}), nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der})
}

// ServiceAccountKey returns, as PEM, the private key that signs service-account tokens, and the public keys (PKIX) that verify
// them: that of the signing key first, then the other trusted one.
func (k *PKI) ServiceAccountKey(ctx context.Context) (private, public []byte, err error) {
	err = k.each(ctx, ServiceAccountKeyName, newKeyPEM, func(secret string, data []byte) error {
		der, err := publicDER(secret, data)
		if err != nil {
			return err
		}
		if private == nil {
			private = data
		}
		public = append(public, pem.EncodeToMemory(&pem.Block{Type: publicKeyBlock, Bytes: der})...)
		return nil
	})
	return private, public, err
}

// ServiceAccountKeyID returns the "kid" header of tokens signed by the signing key, computed like API servers do.
func (k *PKI) ServiceAccountKeyID(ctx context.Context) (string, error) {
	private, _, err := k.ServiceAccountKey(ctx)
	if err != nil {
		return "", err
	}
	der, err := publicDER(ServiceAccountKeyName, private)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

func publicDER(secret string, private []byte) ([]byte, error) {
	key, err := parseKey(private)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the key").At(secret)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "encode the public key").At(secret)
	}
	return der, nil
}

// parseKey reads the first private key of PEM data. Its errors never contain any of the data.
func parseKey(data []byte) (crypto.Signer, error) {
	for {
		var b *pem.Block
		b, data = pem.Decode(data)
		if b == nil {
			return nil, errors.New("it holds no private key")
		}
		switch b.Type {
		case ecKeyBlock:
			key, err := x509.ParseECPrivateKey(b.Bytes)
			if err != nil {
				return nil, errors.New("the EC private key is damaged") // cause withheld: it may quote a secret
			}
			return key, nil
		case rsaKeyBlock: // kubeadm's default
			key, err := x509.ParsePKCS1PrivateKey(b.Bytes)
			if err != nil {
				return nil, errors.New("the RSA private key is damaged") // cause withheld: it may quote a secret
			}
			return key, nil
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(b.Bytes)
			if s, ok := key.(crypto.Signer); ok && err == nil {
				return s, nil
			}
			return nil, errors.New("the PKCS #8 private key is damaged")
		}
	}
}

// splitPair separates the certificates and the key in PEM data.
func splitPair(data []byte) Pair {
	var p Pair
	for {
		var b *pem.Block
		b, data = pem.Decode(data)
		if b == nil {
			return p
		}
		if b.Type == certificateBlock {
			p.CertPEM = append(p.CertPEM, pem.EncodeToMemory(b)...)
		} else {
			p.KeyPEM = append(p.KeyPEM, pem.EncodeToMemory(b)...)
		}
	}
}

// parseCert parses PEM data that begins with a certificate.
func parseCert(data []byte) (*x509.Certificate, error) {
	b, _ := pem.Decode(data)
	if b == nil || b.Type != certificateBlock {
		return nil, errors.New("it holds no certificate")
	}
	c, err := x509.ParseCertificate(b.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the certificate is damaged: %w", err)
	}
	return c, nil
}

// wrapped is an error that lacks its place: wrap(err, …).at(name) is nil if err is nil.
type wrapped struct {
	err  error
	what string
}

func wrap(err error, what string) wrapped { return wrapped{err, what} }

func (w wrapped) at(where string) error {
	if w.err == nil {
		return nil
	}
	return fail.Wrap(fail.KindOf(w.err), w.err, "%s", w.what).At(where)
}
