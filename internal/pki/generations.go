package pki

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"slices"
	"strconv"

	"github.com/naupegos/naupegos/internal/fail"
)

// Generations names the generations of an authority or a key that are in use. The first generation is 1.
type Generations struct {
	Signs int // the generation that signs and is trusted; 0 means 1
	Also  int // another trusted generation; 0: none
}

// Use sets the generations in use from now on, by the names of authorities, ServiceAccountKeyName and SSHKeyName. Names that are missing
// use the first generation. Generations that don't exist are made on first use.
func (k *PKI) Use(of map[string]Generations) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.generations = of
}

// Generations returns which generations of an authority or a key are in use.
func (k *PKI) Generations(name string) Generations {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.generations[name]
	g.Signs = max(g.Signs, 1)
	return g
}

// secretOf returns the secret's name of a generation.
func secretOf(name string, generation int) string {
	if generation <= 1 {
		return name
	}
	return name + "/" + strconv.Itoa(generation)
}

// each calls f with the generations of a key that are in use, the signing one first. It creates missing ones.
func (k *PKI) each(ctx context.Context, name string, make func() ([]byte, error), f func(secret string, data []byte) error) error {
	g := k.Generations(name)
	for _, generation := range []int{g.Signs, g.Also} {
		if generation == 0 {
			continue
		}
		secret := secretOf(name, generation)
		data, err := k.ensure(ctx, secret, make)
		if err == nil {
			err = f(secret, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Forget deletes a generation of an authority or a key forever: it can sign nothing any more. It is no error if the generation doesn't exist.
func (k *PKI) Forget(ctx context.Context, name string, generation int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	secret := name
	if commonNames()[name] != "" {
		secret = authorityPrefix + name
	}
	if generation > max(k.generations[name].Signs, 1) { // it was never used, so no chain to the former generation is needed
		if err := k.secrets.Delete(ctx, crossSecret(name, generation)); err != nil {
			return wrap(err, "forget the certificate").at(crossSecret(name, generation))
		}
	}
	secret = secretOf(secret, generation)
	delete(k.authorities, secret)
	return wrap(k.secrets.Delete(ctx, secret), "forget the key").at(secret)
}

// CrossChain returns certificates (PEM) that lead from an authority's signing generation to former ones, or nothing. With them, a client that
// trusts only a former generation, because it read its CA at its start, verifies a server of the present one. They are made while both
// generations are in use, live as long as a leaf, and make no client trust a former generation that it does not trust already.
func (k *PKI) CrossChain(ctx context.Context, name string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.generations[name]
	if g.Also != 0 && g.Also < g.Signs && !k.External() { // otherwise Prepare has made it
		if err := k.lockedCross(ctx, name, g); err != nil {
			return nil, err
		}
	}
	var chain []byte
	for generation := g.Signs; generation > 1; generation-- {
		data, err := k.secrets.Get(ctx, crossSecret(name, generation))
		if fail.KindOf(err) == fail.NotFound {
			break
		}
		if err != nil {
			return nil, wrap(err, "read the certificate").at(crossSecret(name, generation))
		}
		cert, err := parseCert(data)
		if err != nil {
			return nil, wrap(err, "read the certificate").at(crossSecret(name, generation))
		}
		if !k.o.Now().Before(cert.NotAfter) {
			break
		}
		chain = append(chain, data...)
	}
	return chain, nil
}

// crossSecret returns the secret's name of a generation's certificate that is signed by the former generation.
func crossSecret(name string, generation int) string {
	return crossPrefix + secretOf(name, generation)
}

// lockedCross signs the present generation of an authority with the former one, unless this was done before. k.mu is held.
func (k *PKI) lockedCross(ctx context.Context, name string, g Generations) error {
	by, err := k.lockedAuthority(ctx, name, g.Also)
	if err != nil {
		return err
	}
	of, err := k.lockedAuthority(ctx, name, g.Signs)
	if err != nil {
		return err
	}
	secret := crossSecret(name, g.Signs)
	if data, err := k.secrets.Get(ctx, secret); err == nil {
		if cert, err := parseCert(data); err == nil && matches(cert, of.key) && bytes.Equal(cert.AuthorityKeyId, by.cert.SubjectKeyId) {
			return nil
		}
	}
	serial, err := newSerial()
	if err != nil {
		return err
	}
	t := *of.cert
	t.SignatureAlgorithm = 0                                        // the signing key decides: the former authority may have another kind of key
	t.SerialNumber, t.AuthorityKeyId = serial, by.cert.SubjectKeyId // both have the same subject: only the key ID tells them apart
	t.NotAfter = k.o.Now().UTC().Add(k.o.LeafValidity)
	for _, end := range []*x509.Certificate{by.cert, of.cert} {
		if t.NotAfter.After(end.NotAfter) {
			t.NotAfter = end.NotAfter
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &t, by.cert, of.key.Public(), by.key)
	if err != nil {
		return wrap(err, "sign the authority by the one before").at(secret)
	}
	return wrap(k.secrets.Put(ctx, secret, encodeCert(der)), "remember the certificate").at(secret)
}

// Rotated lists the names that Use accepts, sorted.
func Rotated() []string {
	return slices.Sorted(slices.Values(append(Authorities(), ServiceAccountKeyName, SSHKeyName)))
}

// Certificate returns the certificate (PEM) of a generation of an authority, or fail.NotFound if it was never made, or is forgotten.
func (k *PKI) Certificate(ctx context.Context, name string, generation int) ([]byte, error) {
	data, err := k.secrets.Get(ctx, secretOf(authorityPrefix+name, generation))
	if err != nil {
		return nil, wrap(err, "read the authority").at(name)
	}
	return splitPair(data).CertPEM, nil
}
