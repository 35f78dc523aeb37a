package pki

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"

	"github.com/naupegos/naupegos/internal/fail"
)

// authority is a certificate authority ready to sign.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer // nil if an external issuer has it
	pair Pair
}

// commonNames returns the common name of each authority; the names are kubeadm's.
func commonNames() map[string]string {
	return map[string]string{KubernetesCA: "kubernetes", FrontProxyCA: "front-proxy-ca", EtcdCA: "etcd-ca"}
}

// Authorities returns the names of all authorities, sorted.
func Authorities() []string { return []string{EtcdCA, FrontProxyCA, KubernetesCA} }

// CABundle returns the certificates (PEM) that verify what the authority signed: the signing generation's first, then the other
// trusted one.
func (k *PKI) CABundle(ctx context.Context, name string) ([]byte, error) {
	p, err := k.Authority(ctx, name)
	return p.CertPEM, err
}

// Authority returns an authority's CABundle and the key of its first certificate, which is empty if an external issuer has it. Handle with
// care: the key gives full control of the cluster.
func (k *PKI) Authority(ctx context.Context, name string) (Pair, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.generations[name]
	a, err := k.lockedAuthority(ctx, name, g.Signs)
	if err != nil {
		return Pair{}, err
	}
	p := Pair{CertPEM: slices.Clone(a.pair.CertPEM), KeyPEM: slices.Clone(a.pair.KeyPEM)}
	if g.Also == 0 {
		return p, nil
	}
	also, err := k.lockedAuthority(ctx, name, g.Also)
	if err != nil {
		return Pair{}, err
	}
	p.CertPEM = append(p.CertPEM, also.pair.CertPEM...)
	return p, nil
}

// Signer returns the certificate (PEM) of an authority's signing generation.
func (k *PKI) Signer(ctx context.Context, name string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, err := k.lockedAuthority(ctx, name, k.generations[name].Signs)
	if err != nil {
		return nil, err
	}
	return slices.Clone(a.pair.CertPEM), nil
}

// lockedAuthority returns a generation of an authority. It makes a missing one, but an external issuer's only if it is the first. k.mu is held.
func (k *PKI) lockedAuthority(ctx context.Context, name string, generation int) (*authority, error) {
	secret := secretOf(authorityPrefix+name, generation)
	if a := k.authorities[secret]; a != nil {
		return a, nil
	}
	cn, ok := commonNames()[name]
	if !ok {
		return nil, fail.New(fail.Internal, "there is no authority %q", name)
	}
	data, err := k.ensure(ctx, secret, func() ([]byte, error) {
		if k.External() {
			if generation > 1 {
				return nil, fail.New(fail.Internal, "generation %d of authority %s was not prepared", generation, name)
			}
			data, err := k.o.Issuer.Authority(ctx, name)
			if err != nil {
				return nil, &Unsigned{err}
			}
			return data, nil
		}
		return k.newAuthority(cn)
	})
	if err != nil {
		return nil, err
	}
	a, err := k.readAuthority(secret, data)
	if err != nil {
		return nil, err
	}
	k.authorities[secret] = a
	return a, nil
}

// newAuthority makes a self-signed authority with the extensions that kubeadm gives its own.
func (k *PKI) newAuthority(commonName string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := k.o.Now().UTC()
	t := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: commonName},
		DNSNames:              []string{commonName},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(k.o.CAValidity),
		KeyUsage:              x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyPEM, err := encodeKey(key)
	return append(encodeCert(der), keyPEM...), err
}

// newSerial returns a positive random serial number of up to 127 bits.
func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	return n.Add(n, big.NewInt(1)), nil
}
