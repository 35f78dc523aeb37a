package pki

import (
	"bytes"
	"context"
	"crypto/x509"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// patience extends the life of a cross-signed certificate: it is made in advance, and a rotation may take this long to use the next authority.
const patience = 30 * 24 * time.Hour

// Prepare lets the issuer make the generation of an authority after the present one, and cross-sign it with the present one. It keeps what was
// prepared before. It is for authorities of an external issuer only: others are made on first use.
func (k *PKI) Prepare(ctx context.Context, name string, present int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	by, err := k.lockedAuthority(ctx, name, present)
	if err != nil {
		return err
	}
	secret := secretOf(authorityPrefix+name, present+1)
	_, err = k.ensure(ctx, secret, func() ([]byte, error) {
		data, err := k.o.Issuer.Next(ctx, name)
		if err != nil {
			return nil, err
		}
		return data, k.succeeds(data, by.cert)
	})
	if err != nil {
		return err
	}
	of, err := k.lockedAuthority(ctx, name, present+1)
	if err != nil {
		return err
	}
	return k.lockedVouched(ctx, name, crossSecret(name, present+1), of, by)
}

// succeeds returns fail.Refused unless a certificate is an authority's, with another key than the present one's, that lives longer than a
// new leaf.
func (k *PKI) succeeds(data []byte, present *x509.Certificate) error {
	refuse := func(do, format string, args ...any) error {
		return fail.New(fail.Refused, format, args...).Do("%s", do)
	}
	next, err := parseCert(data)
	switch {
	case err != nil:
		return fail.Wrap(fail.Refused, err, "read the next authority's certificate")
	case !next.IsCA:
		return refuse("have another one made", "the next authority is none: its certificate may sign nothing")
	case sameKey(next, present):
		return refuse("have one with another key made", "the next authority has the key of the present one: nothing would be rotated")
	case next.NotAfter.Before(k.o.Now().Add(k.o.LeafValidity)):
		return refuse("have one made that lives longer, or the mount let them", "the next authority ends at %s, before a certificate of today would", next.NotAfter.Format(time.DateOnly))
	}
	return nil
}

// lockedVouched lets the issuer cross-sign the authority of with the authority by, and stores the certificate, unless a valid one is
// stored. k.mu is held.
func (k *PKI) lockedVouched(ctx context.Context, name, secret string, of, by *authority) error {
	if data, err := k.secrets.Get(ctx, secret); err == nil && k.notVouching(data, of.cert, by.cert) == "" {
		return nil
	}
	validity := k.o.LeafValidity + patience
	for _, end := range []*x509.Certificate{by.cert, of.cert} {
		validity = min(validity, end.NotAfter.Sub(k.o.Now())-behind)
	}
	data, err := k.o.Issuer.Cross(ctx, name, of.pair.CertPEM, by.pair.CertPEM, validity)
	if err != nil {
		return wrap(err, "cross-sign the next authority with the present one").at(name)
	}
	if wrong := k.notVouching(data, of.cert, by.cert); wrong != "" {
		return fail.New(fail.Refused, "the present authority's cross-signature does not certify the next authority: %s", wrong).At(name)
	}
	cert, err := parseCert(data)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "read the certificate").At(secret)
	}
	return wrap(k.secrets.Put(ctx, secret, encodeCert(cert.Raw)), "remember the certificate").at(secret)
}

// notVouching says why a certificate does not lead from one authority to another; empty if it does.
func (k *PKI) notVouching(data []byte, of, by *x509.Certificate) string {
	cert, err := parseCert(data)
	switch {
	case err != nil:
		return err.Error()
	case !sameKey(cert, of):
		return "the key is another one"
	case !bytes.Equal(cert.RawSubject, of.RawSubject), !bytes.Equal(cert.SubjectKeyId, of.SubjectKeyId):
		return "the subject is " + cert.Subject.String()
	case !cert.IsCA:
		return "it may sign nothing"
	case cert.CheckSignatureFrom(by) != nil:
		return "the present authority has not signed it"
	case k.o.Now().Before(cert.NotBefore), !k.o.Now().Before(cert.NotAfter):
		return "it is valid from " + cert.NotBefore.Format(time.RFC3339) + " to " + cert.NotAfter.Format(time.RFC3339)
	}
	return ""
}

// Retire stops an external issuer from signing with the generation goes of an authority. It does nothing for other authorities and keys,
// or if that generation is not stored: Forget is enough for these.
func (k *PKI) Retire(ctx context.Context, name string, goes, stays int) error {
	if !k.External() || !slices.Contains(Authorities(), name) {
		return nil
	}
	former, err := k.Certificate(ctx, name, goes)
	if fail.KindOf(err) == fail.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	present, err := k.Certificate(ctx, name, stays)
	if err != nil {
		return err
	}
	return wrap(k.o.Issuer.Retire(ctx, name, former, present), "retire the former authority").at(name)
}

// sameKey reports whether two certificates have the same key.
func sameKey(a, b *x509.Certificate) bool {
	return bytes.Equal(a.RawSubjectPublicKeyInfo, b.RawSubjectPublicKeyInfo)
}
