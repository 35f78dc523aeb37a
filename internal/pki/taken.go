package pki

import (
	"bytes"
	"slices"

	"github.com/naupegos/naupegos/internal/fail"
)

// Taken holds the authorities and keys of a cluster that another tool made.
type Taken struct {
	Authorities    map[string]Pair // by name, all of Authorities
	ServiceAccount []byte          // the key that signs tokens, PEM
	Encryption     map[string][]byte
}

// Secrets returns the content of Secrets with which a PKI continues the cluster. It fails with fail.Invalid if an authority or the key of
// service accounts is invalid; it does not check encryption keys. Its errors never contain the material.
func (t Taken) Secrets() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, name := range Authorities() {
		p := t.Authorities[name]
		cert, err := parseCert(p.CertPEM)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the authority").At(name)
		}
		key, err := parseKey(p.KeyPEM)
		switch {
		case err != nil:
			return nil, fail.Wrap(fail.Invalid, err, "read the authority's key").At(name)
		case !matches(cert, key):
			return nil, fail.Wrap(fail.Invalid, errKeyMismatch, "read the authority").At(name)
		case !cert.IsCA:
			return nil, fail.New(fail.Invalid, "the certificate is not an authority's").At(name)
		}
		out[authorityPrefix+name] = slices.Concat(endLine(p.CertPEM), p.KeyPEM)
	}
	if _, err := parseKey(t.ServiceAccount); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the key of service accounts").At(ServiceAccountKeyName)
	}
	out[ServiceAccountKeyName] = t.ServiceAccount
	for name, key := range t.Encryption {
		secret := encryptionKey
		if name != FirstEncryptionKey {
			secret += "/" + name
		}
		out[secret] = key
	}
	return out, nil
}

func endLine(pem []byte) []byte {
	if bytes.HasSuffix(pem, []byte("\n")) {
		return pem
	}
	return append(slices.Clone(pem), '\n')
}
