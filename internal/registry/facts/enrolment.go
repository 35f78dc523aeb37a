package facts

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"

	"github.com/naupegos/naupegos/internal/fail"
)

// SignatureHeader is the header with the signature of a request's body by the machine's key.
const SignatureHeader = "Naupegos-Signature"

// NewKey makes the key of a machine, on that machine.
func NewKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "make the machine's key")
	}
	return key, nil
}

// NewRequest makes a certificate request for a machine's key and UUID.
func NewRequest(key crypto.Signer, uuid string) (string, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: uuid}}, key)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "make the machine's certificate request")
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

// Sign signs a request's body for SignatureHeader.
func Sign(key crypto.Signer, body []byte) (string, error) {
	sum := sha256.Sum256(body)
	sig, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "sign as the machine")
	}
	return base64.StdEncoding.EncodeToString(sig), nil
}

// Key returns the public key of the enrolment, and its fingerprint, if that key signed the body, and otherwise fail.Unauthorized.
func (e *Enrolment) Key(uuid string, body []byte, signature string) (public *ecdsa.PublicKey, fingerprint string, err error) {
	block, _ := pem.Decode([]byte(e.Request))
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, "", fail.New(fail.Invalid, "the enrolment has no certificate request").At(uuid)
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = req.CheckSignature()
	}
	if err != nil {
		return nil, "", fail.Wrap(fail.Invalid, err, "the enrolment's certificate request can't be used").At(uuid)
	}
	public, ok := req.PublicKey.(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() || req.Subject.CommonName != uuid {
		return nil, "", fail.New(fail.Invalid, "the enrolment's certificate request is not for a P-256 key of this machine").At(uuid)
	}
	sum := sha256.Sum256(body)
	sig, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || !ecdsa.VerifyASN1(public, sum[:], sig) {
		return nil, "", fail.New(fail.Unauthorized, "the discovery is not signed by the key that it asks for").At(uuid)
	}
	return public, Fingerprint(public), nil
}

// Fingerprint returns the fingerprint of a public key.
func Fingerprint(public crypto.PublicKey) string {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "" // not a key of a machine
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}
