package v1alpha1

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// root returns a self-signed certificate in PEM.
func root(t *testing.T, name string, isCA bool) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: isCA}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// TestAuthorities gives a registry the authorities that sites have: the former and the next root while it is replaced, with remarks between them, and the
// registry's own self-signed certificate.
func TestAuthorities(t *testing.T) {
	one, two, own := root(t, "one", true), root(t, "two", true), root(t, "registry.example.org", false)
	key := "-----BEGIN " + "PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END " + "PRIVATE KEY-----\n"
	for name, c := range map[string]struct{ text, problem string }{
		"one":             {one, ""},
		"two":             {one + two, ""},
		"two, remarks":    {"# since 2024\n" + one + "\n# since 2026\n" + two, ""},
		"own certificate": {own, ""},
		"key":             {one + key, "holds a private key"},
		"cut off":         {one + two[:len(two)/2], "is not a certificate in PEM"},
		"remark at end":   {one + "bye", "is not a certificate in PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			doc := "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  provider: {local: {}}\n  workers: [{name: general}]\n  registries:\n    - host: registry.example.org\n      ca: |\n        " +
				strings.ReplaceAll(c.text, "\n", "\n        ") + "\n"
			_, err := Parse("cluster.yaml", []byte(doc))
			if c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("%v, want %q", err, c.problem)
			}
		})
	}
}
