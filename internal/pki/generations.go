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

// Generations says which of an authority's, or of a key's, generations are in use. The first generation is 1; 0 means that, too.
type Generations struct {
	Signs int // signs what is issued, and is trusted
	Also  int // another one that is trusted; 0: none
}

// Use says which generations of authorities, by their names, of ServiceAccountKeyName and of SSHKeyName are in use from now on. Of those that
// are not named it is the first. Generations that don't exist are made when they are asked for.
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

// secretOf is the name under which a generation is remembered.
func secretOf(name string, generation int) string {
	if generation <= 1 {
		return name
	}
	return name + "/" + strconv.Itoa(generation)
}

// each calls f with the generations of a key that are in use, that which signs first. Those that don't exist are made.
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

// Forget forgets a generation of an authority or a key for good: nothing can be signed by it any more. It is no error where there is none.
func (k *PKI) Forget(ctx context.Context, name string, generation int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	secret := name
	if commonNames()[name] != "" {
		secret = authorityPrefix + name
	}
	if generation > max(k.generations[name].Signs, 1) { // it never came into use, and nothing needs to lead to the one before
		if err := k.secrets.Delete(ctx, crossSecret(name, generation)); err != nil {
			return wrap(err, "forget the certificate").at(crossSecret(name, generation))
		}
	}
	secret = secretOf(secret, generation)
	delete(k.authorities, secret)
	return wrap(k.secrets.Delete(ctx, secret), "forget the key").at(secret)
}

// CrossChain returns certificates (PEM) that lead from the generation of an authority that signs to those before it: by them a client that
// trusts a former generation alone, since it read it at its start, verifies a server of the present one. They are made while both are in use,
// are good as long as a leaf, and make nobody trust a former generation who does not do so already. Empty where there are none.
func (k *PKI) CrossChain(ctx context.Context, name string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.generations[name]
	if g.Also != 0 && g.Also < g.Signs && !k.External() { // else Prepare has made them
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

// crossSecret is where the certificate of a generation is remembered that the one before has signed.
func crossSecret(name string, generation int) string {
	return crossPrefix + secretOf(name, generation)
}

// lockedCross has the former generation of an authority sign the present one, unless it has. k.mu is held.
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
	t.SignatureAlgorithm = 0                                        // that of the key that signs: somebody else may have made the one before
	t.SerialNumber, t.AuthorityKeyId = serial, by.cert.SubjectKeyId // both have the same subject: nobody else would tell them apart
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

// Rotated lists the names that Use takes, sorted.
func Rotated() []string {
	return slices.Sorted(slices.Values(append(Authorities(), ServiceAccountKeyName, SSHKeyName)))
}

// Certificate returns the certificate (PEM) of a generation of an authority; fail.NotFound where it is forgotten.
func (k *PKI) Certificate(ctx context.Context, name string, generation int) ([]byte, error) {
	data, err := k.secrets.Get(ctx, secretOf(authorityPrefix+name, generation))
	if err != nil {
		return nil, wrap(err, "read the authority").at(name)
	}
	return splitPair(data).CertPEM, nil
}
