package vaulttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
)

var errNo = errors.New("no")

// inMount answers a call to a known mount. It makes the mount's first issuer if there is none.
func (f *Fake) inMount(r *http.Request, issuer *pkitest.Issuer, mount, rest string, in map[string]any) (any, int, error) {
	if len(f.Issuers[mount]) == 0 {
		cert, err := issuer.Authority(r.Context(), path.Base(mount))
		if err != nil {
			return nil, http.StatusInternalServerError, err
		}
		f.added(mount, "naupegos", cert)
	}
	parts := strings.Split(rest, "/")
	switch {
	case rest == "issuers":
		var ids []string
		for _, a := range f.Issuers[mount] {
			ids = append(ids, a.ID)
		}
		return map[string]any{"keys": ids}, 0, nil
	case rest == "config/issuers" && r.Method == http.MethodGet:
		return map[string]any{"default": f.Issuers[mount][0].ID}, 0, nil
	case rest == "config/issuers":
		all := f.Issuers[mount]
		for n, a := range all {
			if a.ID == in["default"] {
				all[0], all[n] = all[n], all[0]
				return map[string]any{}, 0, nil
			}
		}
		return nil, http.StatusBadRequest, errNo
	case rest == "root/generate/internal":
		cert, err := issuer.Next(r.Context(), path.Base(mount))
		if err != nil {
			return nil, http.StatusInternalServerError, err
		}
		a := f.added(mount, fmt.Sprint(in["issuer_name"]), cert)
		return map[string]any{"issuer_id": a.ID, "certificate": string(cert)}, 0, nil
	case rest == "intermediate/cross-sign":
		csr, err := requestOf(fmt.Sprint(in["key_ref"]), fmt.Sprint(in["common_name"]))
		return map[string]any{"csr": csr}, http.StatusInternalServerError, err
	case parts[0] == "issuer" && len(parts) > 1:
		return f.byIssuer(r, issuer, mount, parts[1], strings.Join(parts[2:], "/"), in)
	}
	return nil, http.StatusNotFound, errNo
}

// added adds an issuer to a mount.
func (f *Fake) added(mount, name string, cert []byte) *Authority {
	a := &Authority{ID: fmt.Sprintf("id-%s-%d", path.Base(mount), len(f.Issuers[mount])+1), Name: name, Usage: "read-only,issuing-certificates,crl-signing,ocsp-signing", Certificate: cert}
	f.Issuers[mount] = append(f.Issuers[mount], a)
	return a
}

// byIssuer answers a call to an issuer.
func (f *Fake) byIssuer(r *http.Request, issuer *pkitest.Issuer, mount, reference, call string, in map[string]any) (any, int, error) {
	var is *Authority
	for n, a := range f.Issuers[mount] {
		if reference == a.ID || reference == a.Name || reference == "default" && n == 0 {
			is = a
		}
	}
	if is == nil {
		return nil, http.StatusInternalServerError, errors.New("unable to find PKI issuer for reference: " + reference)
	}
	switch {
	case call == "json":
		return map[string]any{"issuer_id": is.ID, "certificate": string(is.Certificate)}, 0, nil
	case call == "" && r.Method == http.MethodPatch:
		for key, to := range map[string]*string{"issuer_name": &is.Name, "usage": &is.Usage} {
			if value, ok := in[key]; ok {
				*to = fmt.Sprint(value)
			}
		}
		if _, ok := in["usage"]; ok {
			if err := issuer.Retire(r.Context(), path.Base(mount), is.Certificate, f.Issuers[mount][0].Certificate); err != nil {
				return nil, http.StatusInternalServerError, err
			}
		}
		fallthrough
	case call == "":
		return map[string]any{"issuer_name": is.Name, "usage": is.Usage, "key_id": is.ID}, 0, nil
	case !strings.Contains(is.Usage, "issuing-certificates"):
		return nil, http.StatusBadRequest, errors.New("requested usage issuing-certificates for issuer [" + is.ID + "] but only had usage " + is.Usage)
	}
	var cert []byte
	var status int
	var err error
	if call == "sign-intermediate" {
		cert, err = f.vouch(r, issuer, mount, is, in)
		status = http.StatusInternalServerError
	} else {
		cert, status, err = f.sign(r, issuer, mount, is, strings.TrimPrefix(call, "sign/"), in)
		if err == nil {
			f.Signed = append(f.Signed, mount+"/issuer/"+reference+"/"+call)
		}
	}
	return map[string]any{"certificate": string(cert)}, status, err
}

// requestOf returns a request for an issuer's key. It is signed by another key, because only the issuer's ID, in its serial number, matters.
func requestOf(id, commonName string) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: commonName, SerialNumber: id}}, key)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), err
}

// vouch signs the key of one issuer with another.
func (f *Fake) vouch(r *http.Request, issuer *pkitest.Issuer, mount string, by *Authority, in map[string]any) ([]byte, error) {
	block, _ := pem.Decode([]byte(fmt.Sprint(in["csr"])))
	if block == nil {
		return nil, errNo
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	ttl, err := time.ParseDuration(fmt.Sprint(in["ttl"]))
	if err != nil {
		return nil, err
	}
	for _, a := range f.Issuers[mount] {
		if a.ID == csr.Subject.SerialNumber {
			return issuer.Cross(r.Context(), path.Base(mount), a.Certificate, by.Certificate, min(ttl, f.Longest))
		}
	}
	return nil, errNo
}

// sign signs a request by a role.
func (f *Fake) sign(r *http.Request, issuer *pkitest.Issuer, mount string, by *Authority, name string, in map[string]any) ([]byte, int, error) {
	role := f.Roles[mount+"/roles/"+name]
	if role == nil {
		return nil, http.StatusBadRequest, errors.New("unknown role: " + name)
	}
	ttl, err := time.ParseDuration(fmt.Sprint(in["ttl"]))
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	if longest, ok := role["max_ttl"].(int); ok && longest > 0 {
		ttl = min(ttl, time.Duration(longest)*time.Second)
	}
	s := pki.LeafSpec{Authority: path.Base(mount), Server: role["server_flag"] == true, Client: role["client_flag"] == true}
	cert, err := issuer.Sign(r.Context(), by.Certificate, s, []byte(fmt.Sprint(in["csr"])), min(ttl, f.Longest))
	return cert, http.StatusInternalServerError, err
}
